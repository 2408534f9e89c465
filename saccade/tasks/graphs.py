"""One row's way through a small network and back, to be drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from saccade.data.layout import Category
from saccade.data.tables import counted
from saccade.errors import ConfigError
from saccade.look.draw_graph import Graph, Unit
from saccade.nn.backward import Affine, at_answer, backward, forward
from saccade.tasks.numbers import answer_of

INPUTS, UNITS, LAYERS = 12, 8, 4  # at most, of a graph that can be read


def graph_of(task: Any, row: int, split: str) -> Graph:
    """Every number of the way forward and back of a row of a table, counted from 1."""
    _check_drawable(task, row, split)
    batch = task.batch(split, np.array([row - 1]))._replace(weights=None)
    layers = [Affine(*(part.detach() for part in layer)) for layer in task.model.eval().layers()]
    activation, train = getattr(task.recipe.model, "activation", "relu"), task.recipe.train
    there = forward(batch.features, layers, activation)
    answer = there.sums[-1]
    last = at_answer(train.loss, answer, batch.target, train.smoothing)
    back = backward(there, layers, activation, last)
    units = [_units(task.layout.places, {"x": there.outputs[0], "∂x": back.outputs[0]})]
    for place, layer in enumerate(layers[:-1]):
        names = [f"{place + 1}.{unit}" for unit in range(1, len(layer.bias) + 1)]
        figures = {"z": there.sums[place], "a": there.outputs[place + 1], "δ": back.sums[place]}
        units.append(_units(names, figures, layer.bias))
    said = {"p": answer.softmax(1)} if task.classes else {}
    names = list(task.classes) or [task.layout.target.name]
    units.append(_units(names, {"z": answer, **said, "δ": last}, layers[-1].bias))
    loss = float(task.summed(answer, batch))
    weights = [layer.weight.double().cpu().numpy() for layer in layers]
    return Graph(units, weights, _title(task, row, split, answer, loss), loss)


def _units(
    names: Sequence[str], figures: dict[str, Tensor], bias: Tensor | None = None
) -> list[Unit]:
    """A layer, from the figures of one row."""
    columns = {figure: values[0].tolist() for figure, values in figures.items()}
    biases = [None] * len(names) if bias is None else bias.tolist()
    return [
        Unit(name, {figure: values[at] for figure, values in columns.items()}, biases[at])
        for at, name in enumerate(names)
    ]


def _title(task: Any, row: int, split: str, answer: Tensor, loss: float) -> str:
    target, truth = task.layout.target, task.rows[split].target[row - 1]
    if isinstance(target, Category):
        said, true = task.classes[int(answer[0].argmax())], task.classes[int(truth)]
    else:
        both = target.outside(np.array([float(answer[0, 0]), float(truth)]))
        said, true = (answer_of([value], target.deviation).text for value in both.tolist())
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
    if model.inputs > INPUTS or max(widths) > UNITS or len(widths) > LAYERS:
        raise ConfigError(
            f"this network has {counted(model.inputs, 'input')} and layers of "
            f"{', '.join(map(str, widths))}; a graph that can be read has at most {INPUTS} inputs "
            f"and {LAYERS} layers of {UNITS}. Train a small one: --model mlp --set model.hidden=6, "
            "and leave columns out with --set data.ignore=NAME,NAME."
        )
    if not 1 <= row <= count:
        raise ConfigError(f"there is no row {row} of {split}; there are 1 to {count:,}.")
    if task.classes and task.rows[split].target[row - 1] < 0:
        raise ConfigError(f"row {row} of {split} is of a class that was not learned.")
