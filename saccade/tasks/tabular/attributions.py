r"""Contribution of each column of a row to its prediction, and importance of columns over a split.

The value f(x) that is explained is, of classes, the logit of the predicted class minus that of the
runner-up (of an SVM the decision function of the two); of numbers, the prediction in units of the
target. The baseline row b has the training mean of each numeric column and the most frequent
category of each other one. With x_{-i} the row x whose column i is that of b:

    contributions          f linear: Σ_j w_j (x_j - b_j) over the features j of column i, which is
                           f(x) - f(x_{-i}), exact and complete
    occlusion              f(x) - f(x_{-i}) of any model
    integrated_gradients   the gradient of f averaged along the straight path from b to x
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from saccade.data.tables.schema import CategoricalColumn, NumericColumn, TableSchema
from saccade.inspection.attribution import Attribution
from saccade.inspection.figures import FeatureImportance
from saccade.inspection.importance import permutation_importance
from saccade.inspection.integrated_gradients import integrated_gradients
from saccade.metrics.classification import accuracy
from saccade.metrics.regression import rmse
from saccade.registry import lookup
from saccade.tasks.neural import device_of
from saccade.tasks.tabular.data import TableSplit
from saccade.tasks.tabular.predict import Row, RowPredictor, class_probabilities
from saccade.tasks.tabular.scoring import NetworkScorer, TableScorer
from saccade.tasks.tabular.svm import SVMScorer
from saccade.types.arrays import FloatArray

IMPORTANCE_REPEATS = 5
MAX_IMPORTANCE_ROWS = 2000


class ClassPair(NamedTuple):
    """The class that is explained, and the one whose logit is subtracted."""

    chosen: int
    other: int


def column_slices(schema: TableSchema) -> list[slice]:
    """Return the features of each column."""
    ends = np.cumsum([len(column.feature_names) for column in schema.columns]).tolist()
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def baseline_features(schema: TableSchema) -> FloatArray:
    """Return the features of the baseline row: means and most frequent categories."""
    baseline = np.zeros(len(schema.feature_names))
    for column, where in zip(schema.columns, column_slices(schema), strict=True):
        if isinstance(column, CategoricalColumn) and column.mode >= 0:
            baseline[where.start + column.mode] = 1.0
    return baseline


def attribution_methods(scorer: TableScorer) -> tuple[str, ...]:
    """Return the methods of a model, the default first."""
    if isinstance(scorer, SVMScorer):
        is_linear = scorer.model.svm.config.kernel == "linear"
    else:
        is_linear = scorer.recipe.model_name in ("linear", "softmax")
    if is_linear:
        return "contributions", "occlusion"
    if isinstance(scorer, NetworkScorer):
        return "integrated_gradients", "occlusion"
    return ("occlusion",)


def attribute_row(
    predictor: RowPredictor, row: Row, method: str | None = None, output: str | None = None
) -> Attribution:
    """Return the contribution of each column of a row to the prediction, or to another class."""
    scorer, schema = predictor.scorer, predictor.schema
    method = method or attribution_methods(scorer)[0]
    features, baseline = predictor.features({1: row}), baseline_features(schema)
    outputs = scorer.outputs(features)[0]
    pair = _class_pair(scorer, outputs, output)
    where = column_slices(schema)
    occluded = np.repeat(features, len(where), axis=0)
    for number, some in enumerate(where):
        occluded[number, some] = baseline[some]
    values = explained_values(scorer, np.vstack([features, baseline, occluded]), pair)
    scores = values[0] - values[2:]
    if method == "integrated_gradients":
        assert isinstance(scorer, NetworkScorer)
        each = _integrate(scorer, features[0], baseline, pair)
        scores = np.array([each[some].sum() for some in where])
    cells = schema.cells(row, 1)
    found = Attribution(
        parts=[column.name for column in schema.columns],
        scores=scores,
        output=schema.target.name,
        method=method,
        value=float(values[0]),
        base=float(values[1]),
        unit=schema.target.name,
        cells=[cells[column.name] for column in schema.columns],
        baseline="means and most frequent categories of the training rows",
    )
    if pair is None:
        return found
    is_network = isinstance(scorer, NetworkScorer)
    return replace(
        found,
        output=scorer.classes[pair.chosen],
        against=scorer.classes[pair.other],
        unit="log-odds" if is_network else "decision function",
        probability=float(class_probabilities(outputs[None])[0, pair.chosen])
        if is_network
        else None,
    )


def _class_pair(scorer: TableScorer, outputs: FloatArray, output: str | None) -> ClassPair | None:
    """Return the predicted or given class and the best of the others; None for numbers."""
    if not scorer.classes:
        return None
    ids = {name: number for number, name in enumerate(scorer.classes)}
    order = np.argsort(-outputs, kind="stable").tolist()
    chosen = order[0] if output is None else lookup(ids, output, "class")
    return ClassPair(chosen, next(number for number in order if number != chosen))


def explained_values(
    scorer: TableScorer, features: FloatArray, pair: ClassPair | None
) -> FloatArray:
    """Return f of each row, (N,)."""
    if pair is not None:
        return scorer.margins(features, pair.chosen, pair.other)
    target = scorer.schema.target
    assert isinstance(target, NumericColumn)
    return target.inverse_transform(scorer.outputs(features)[:, 0])


def _integrate(
    scorer: NetworkScorer, features: FloatArray, baseline: FloatArray, pair: ClassPair | None
) -> FloatArray:
    """Return the integrated gradient of each feature."""
    model, target = scorer.model.eval(), scorer.schema.target
    device = device_of(model)

    def value(rows: Tensor) -> Tensor:
        outputs: Tensor = model(rows)
        if pair is not None:
            return outputs[:, pair.chosen] - outputs[:, pair.other]
        assert isinstance(target, NumericColumn)
        return outputs[:, 0] * target.deviation

    end, start = (torch.from_numpy(row).float().to(device) for row in (features, baseline))
    return integrated_gradients(value, end, start).double().cpu().numpy()


def column_importance(
    scorer: TableScorer,
    split: TableSplit,
    repeats: int = IMPORTANCE_REPEATS,
    limit: int = MAX_IMPORTANCE_ROWS,
) -> FeatureImportance:
    """Return how much worse the predictions of a split are if a column is shuffled."""
    rows = split.spread(limit)
    features, truth = split.rows.features[rows], split.rows.target[rows]

    def score(features: FloatArray) -> float:
        outputs = scorer.outputs(features)
        if scorer.classes:
            return accuracy(truth, outputs.argmax(1))
        target = scorer.schema.target
        assert isinstance(target, NumericColumn)
        return -target.deviation * rmse(truth, outputs[:, 0])

    drops = permutation_importance(score, features, column_slices(scorer.schema), repeats)
    return FeatureImportance(
        names=[column.name for column in scorer.schema.columns],
        drops=drops,
        metric="accuracy" if scorer.classes else f"RMSE of {scorer.schema.target.name}",
        score=abs(score(features)),
        rows=len(rows),
    )
