"""One row's way through a small network and back, to be drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from saccade.data.tables.csv import pluralise
from saccade.data.tables.schema import CategoricalColumn
from saccade.errors import ConfigError
from saccade.nn.manual_backprop import Affine, mlp_backward, mlp_forward, output_gradient
from saccade.plots.computation_graph import ComputationGraph, GraphUnit
from saccade.tasks.numbers import numeric_prediction

MAX_GRAPH_INPUTS, MAX_GRAPH_UNITS, MAX_GRAPH_LAYERS = (
    12,
    8,
    4,
)  # at most, of a graph that can be read


def computation_graph(task: Any, row: int, split: str) -> ComputationGraph:
    """Every number of the way forward and back of a row of a table, counted from 1."""
    _check_drawable(task, row, split)
    batch = task.batch(split, np.array([row - 1]))._replace(weights=None)
    layers = [Affine(*(part.detach() for part in layer)) for layer in task.model.eval().layers()]
    activation, train = getattr(task.recipe.model, "activation", "relu"), task.recipe.train
    there = mlp_forward(batch.features, layers, activation)
    answer = there.pre_activations[-1]
    last = output_gradient(train.loss, answer, batch.target, train.label_smoothing)
    back = mlp_backward(there, layers, activation, last)
    units = [_units(task.layout.feature_names, {"x": there.outputs[0], "∂x": back.outputs[0]})]
    for position, layer in enumerate(layers[:-1]):
        names = [f"{position + 1}.{unit}" for unit in range(1, len(layer.bias) + 1)]
        figures = {
            "z": there.pre_activations[position],
            "a": there.outputs[position + 1],
            "δ": back.pre_activations[position],
        }
        units.append(_units(names, figures, layer.bias))
    said = {"p": answer.softmax(1)} if task.classes else {}
    names = list(task.classes) or [task.layout.target.name]
    units.append(_units(names, {"z": answer, **said, "δ": last}, layers[-1].bias))
    loss = float(task.summed_loss(answer, batch))
    weights = [layer.weight.double().cpu().numpy() for layer in layers]
    return ComputationGraph(units, weights, _title(task, row, split, answer, loss), loss)


def _units(
    names: Sequence[str], figures: dict[str, Tensor], bias: Tensor | None = None
) -> list[GraphUnit]:
    """A layer, from the figures of one row."""
    columns = {figure: values[0].tolist() for figure, values in figures.items()}
    biases = [None] * len(names) if bias is None else bias.tolist()
    return [
        GraphUnit(name, {figure: values[at] for figure, values in columns.items()}, biases[at])
        for at, name in enumerate(names)
    ]


def _title(task: Any, row: int, split: str, answer: Tensor, loss: float) -> str:
    target, truth = task.layout.target, task.rows[split].target[row - 1]
    if isinstance(target, CategoricalColumn):
        said, true = task.classes[int(answer[0].argmax())], task.classes[int(truth)]
    else:
        both = target.inverse_transform(np.array([float(answer[0, 0]), float(truth)]))
        said, true = (numeric_prediction([value], target.deviation).text for value in both.tolist())
    about = f"row {row} of {split}: {target.name} is {true}, said {said}"
    return f"{about}; {task.recipe.train.loss} loss {loss:.3g}"


def _check_drawable(task: Any, row: int, split: str) -> None:
    model, count = task.recipe.model, len(task.rows[split].lines)
    if getattr(model, "norm", "none") != "none":
        raise ConfigError(
            f"model.norm is {model.norm!r}; a graph is drawn of networks without norms: train one "
            "with model.norm=none."
        )
    widths = (*getattr(model, "hidden", ()), len(task.classes) or 1)
    if (
        model.inputs > MAX_GRAPH_INPUTS
        or max(widths) > MAX_GRAPH_UNITS
        or len(widths) > MAX_GRAPH_LAYERS
    ):
        raise ConfigError(
            f"this network has {pluralise(model.inputs, 'input')} and layers of "
            f"{', '.join(map(str, widths))}; a graph that can be read has at most {MAX_GRAPH_INPUTS} inputs "
            f"and {MAX_GRAPH_LAYERS} layers of {MAX_GRAPH_UNITS}. Train a small one: --model mlp --set model.hidden=6, "
            "and leave columns out with --set data.ignore=NAME,NAME."
        )
    if not 1 <= row <= count:
        raise ConfigError(f"there is no row {row} of {split}; there are 1 to {count:,}.")
    if task.classes and task.rows[split].target[row - 1] < 0:
        raise ConfigError(f"row {row} of {split} is of a class that was not learned.")
