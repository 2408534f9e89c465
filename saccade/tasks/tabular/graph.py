"""The computation graph of one row: every value of the forward and the backward pass."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from saccade.data.tables.csv import pluralise
from saccade.data.tables.schema import CategoricalColumn, NumericColumn
from saccade.errors import ConfigError
from saccade.inspection.figures import ComputationGraph, GraphUnit
from saccade.nn.manual_backprop import Affine, mlp_backward, mlp_forward, output_gradient
from saccade.tasks.numbers import numeric_prediction
from saccade.tasks.tabular.data import TableSplit
from saccade.tasks.tabular.scoring import NetworkScorer

# limits of a graph that can be read
MAX_GRAPH_INPUTS = 12
MAX_GRAPH_UNITS = 8
MAX_GRAPH_LAYERS = 4


def computation_graph(scorer: NetworkScorer, split: TableSplit, row: int) -> ComputationGraph:
    """Return the graph of a row, counted from 1."""
    _check_drawable(scorer, split, row)
    recipe, schema = scorer.recipe, scorer.schema
    model: Any = scorer.model.eval()
    batch = scorer.batch(split, np.array([row - 1]))._replace(weights=None)
    layers = [Affine(*(part.detach() for part in layer)) for layer in model.layers()]
    settings, train = recipe.model.model_dump(), recipe.train
    activation, alpha = settings.get("activation", "relu"), settings.get("activation_alpha")
    trace = mlp_forward(batch.features, layers, activation, alpha)
    output = trace.pre_activations[-1]
    assert train.loss is not None
    last = output_gradient(train.loss, output, batch.target, train.label_smoothing)
    back = mlp_backward(trace, layers, activation, last, alpha)
    units = [_units(schema.feature_names, {"x": trace.outputs[0], "∂x": back.outputs[0]})]
    for index, layer in enumerate(layers[:-1]):
        names = [f"{index + 1}.{unit}" for unit in range(1, len(layer.bias) + 1)]
        values = {
            "z": trace.pre_activations[index],
            "a": trace.outputs[index + 1],
            "δ": back.pre_activations[index],
        }
        units.append(_units(names, values, layer.bias))
    probabilities = {"p": output.softmax(1)} if scorer.classes else {}
    names = list(scorer.classes) or [schema.target.name]
    units.append(_units(names, {"z": output, **probabilities, "δ": last}, layers[-1].bias))
    loss = float(scorer.summed_loss(output, batch))
    weights = [layer.weight.double().cpu().numpy() for layer in layers]
    return ComputationGraph(units, weights, _title(scorer, split, row, output, loss), loss)


def _units(
    names: Sequence[str], values: dict[str, Tensor], bias: Tensor | None = None
) -> list[GraphUnit]:
    """Return the units of a layer with the values of one row."""
    columns = {symbol: column[0].tolist() for symbol, column in values.items()}
    biases = [None] * len(names) if bias is None else bias.tolist()
    return [
        GraphUnit(name, {symbol: column[i] for symbol, column in columns.items()}, biases[i])
        for i, name in enumerate(names)
    ]


def _title(scorer: NetworkScorer, split: TableSplit, row: int, output: Tensor, loss: float) -> str:
    target, truth = scorer.schema.target, split.rows.target[row - 1]
    if isinstance(target, CategoricalColumn):
        predicted = scorer.classes[int(output[0].argmax())]
        true = scorer.classes[int(truth)]
    else:
        assert isinstance(target, NumericColumn)
        both = target.inverse_transform(np.array([float(output[0, 0]), float(truth)]))
        predicted, true = (
            numeric_prediction([value], target.deviation).text for value in both.tolist()
        )
    about = f"row {row} of {split.name}: true {target.name} {true}, predicted {predicted}"
    return f"{about}; {scorer.recipe.train.loss} loss {loss:.3g}"


def _check_drawable(scorer: NetworkScorer, split: TableSplit, row: int) -> None:
    settings = scorer.recipe.model.model_dump()
    if settings.get("norm", "none") != "none":
        raise ConfigError(
            f"got model.norm={settings['norm']!r}; expected a network without normalisation; try "
            "one trained with model.norm=none."
        )
    widths = (*settings.get("hidden", ()), len(scorer.classes) or 1)
    inputs = settings["inputs"]
    too_large = (
        inputs > MAX_GRAPH_INPUTS or max(widths) > MAX_GRAPH_UNITS or len(widths) > MAX_GRAPH_LAYERS
    )
    if too_large:
        raise ConfigError(
            f"got a network with {pluralise(inputs, 'input')} and layers of "
            f"{', '.join(map(str, widths))}; expected at most {MAX_GRAPH_INPUTS} inputs and "
            f"{MAX_GRAPH_LAYERS} layers of {MAX_GRAPH_UNITS}, which can be read; try --model mlp "
            "--set model.hidden=6, and leave columns out with --set data.ignore=NAME,NAME."
        )
    if not 1 <= row <= len(split):
        raise ConfigError(f"got row {row} of {split.name}; expected 1 to {len(split):,}.")
    if scorer.classes and split.rows.target[row - 1] < 0:
        raise ConfigError(
            f"got row {row} of {split.name}, which has an unknown class; expected a trained one."
        )
