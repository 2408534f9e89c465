"""Figures, computation graphs and checks of tabular models."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.tables.schema import TableSchema
from saccade.inspection.attribution import Attribution
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.figures import (
    ComputationGraph,
    ConfusionMatrix,
    FeatureImportance,
    Figure,
    evaluate_margin,
)
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.nn.manual_backprop import mlp_backward, mlp_forward, output_gradient
from saccade.tasks.base import Inspector
from saccade.tasks.tabular.attributions import (
    attribute_row,
    attribution_methods,
    column_importance,
)
from saccade.tasks.tabular.config import TableRecipe
from saccade.tasks.tabular.data import TableSplit
from saccade.tasks.tabular.evaluate import confusion
from saccade.tasks.tabular.graph import computation_graph
from saccade.tasks.tabular.predict import RowPredictor
from saccade.tasks.tabular.scoring import NetworkScorer, TabularBatch
from saccade.tasks.tabular.svm import SVMModel
from saccade.types.arrays import FloatArray

# of the importance in the report, which must not take long
MAX_REPORTED_COLUMNS, MAX_REPORTED_ROWS, REPORT_REPEATS = 60, 500, 3


class TableInspector(Inspector[TableSplit]):
    """Shows confused classes, and checks a tabular network."""

    def __init__(self, recipe: TableRecipe, model: Any, schema: TableSchema):
        self.recipe, self.model, self.schema = recipe, model, schema
        self.predictor = RowPredictor(recipe, model, schema)
        self.scorer = self.predictor.scorer
        self.attribution_methods = attribution_methods(self.scorer)

    def example_input(self, split: TableSplit) -> str:
        """Return a held-out row as users type it."""
        return split.example

    def views(self) -> dict[str, str]:
        """Return contributions, importance, and the graph of a network."""
        found = {
            "ROW": "the contribution of each column",
            "--importance": "permutation importance of the columns",
        }
        if isinstance(self.scorer, NetworkScorer):
            found["--graph"] = "forward and backward pass through a small network"
        return found

    def attributions(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> Attribution:
        """Return the contribution of each column of a row to the prediction, or to a class."""
        return attribute_row(self.predictor, self.predictor.parse(raw, 1), method, output)

    def feature_importance(self, split: TableSplit) -> FeatureImportance:
        """Return how much worse the predictions are if a column is shuffled."""
        return column_importance(self.scorer, split)

    def figures(self, splits: Mapping[str, TableSplit]) -> dict[str, Figure]:
        """Return the importance of the columns and, for classes, the confusion matrix."""
        split, figures = splits["test"], dict[str, Figure]()
        if 1 < len(self.schema.columns) <= MAX_REPORTED_COLUMNS:
            figures["importance.png"] = column_importance(
                self.scorer, split, REPORT_REPEATS, MAX_REPORTED_ROWS
            )
        if classes := self.scorer.classes:
            table = confusion(self.scorer.outputs(split.rows.features), split, len(classes))
            figures["confusion.png"] = ConfusionMatrix(table, list(classes))
        return figures

    def computation_graph(self, split: TableSplit, row: int) -> ComputationGraph:
        """Return the values of the forward and backward pass of a row, counted from 1."""
        if not isinstance(self.scorer, NetworkScorer):
            return super().computation_graph(split, row)
        return computation_graph(self.scorer, split, row)

    def checks(self, split: TableSplit, count: int) -> Iterator[CheckResult]:
        """Check batch invariance, and the gradients against those written out by hand."""
        assert isinstance(self.scorer, NetworkScorer)
        batch = self.scorer.batch(split, split.spread(count))
        self.model.eval()
        yield self._batch_invariance(batch.features)
        yield self._manual_gradients(self.scorer, batch)

    @torch.no_grad()
    def _batch_invariance(self, features: Float[Tensor, "B D"]) -> CheckResult:
        together = self.model(features)
        single = torch.cat([self.model(row[None]) for row in features])
        return _compare("batch invariance", [(together, single)])

    def _manual_gradients(self, scorer: NetworkScorer, batch: TabularBatch) -> CheckResult:
        """Compare all weight gradients of autograd with those of `nn.manual_backprop`."""
        invariant = "manual backpropagation equals autograd"
        settings = self.recipe.model.model_dump()
        if settings.get("norm", "none") != "none":
            return skipped(invariant, "backpropagation is written out for networks without norms")
        if scorer.classes and int(batch.target.min()) < 0:
            return skipped(invariant, "there are rows of an unknown class")
        layers, train = self.model.layers(), self.recipe.train
        batch = batch._replace(weights=None)
        loss = scorer.summed_loss(self.model(batch.features), batch)
        expected = torch.autograd.grad(loss, [part for layer in layers for part in layer])
        with torch.no_grad():
            activation = settings.get("activation", "relu")
            alpha = settings.get("activation_alpha")
            trace = mlp_forward(batch.features, layers, activation, alpha)
            last = output_gradient(
                str(train.loss), trace.pre_activations[-1], batch.target, train.label_smoothing
            )
            back = mlp_backward(trace, layers, activation, last, alpha)
        found = [part for pair in zip(back.weights, back.biases, strict=True) for part in pair]
        scale = max(1.0, *(float(part.abs().max()) for part in expected))
        pairs = [(one / scale, two / scale) for one, two in zip(expected, found, strict=True)]
        return _compare(invariant, pairs)._replace(num_inputs=batch.tokens)

    @torch.no_grad()
    def compare_reloaded(self, other: Any, split: TableSplit, count: int) -> CheckResult:
        """Check that the reloaded model gives the same outputs."""
        assert isinstance(self.scorer, NetworkScorer)
        features = self.scorer.batch(split, split.spread(count)).features
        one, two = self.model.eval()(features), other.eval()(features)
        return _compare("reload consistency", [(one, two)])


class SVMInspector(TableInspector):
    """Shows the margin of a support vector machine, and checks it."""

    model: SVMModel

    def figures(self, splits: Mapping[str, TableSplit]) -> dict[str, Figure]:
        """Return the confusion matrix and, for two inputs and two classes, the margin."""
        figures = super().figures(splits)
        rows, classes = splits["train"].rows, self.scorer.classes
        if rows.features.shape[1] == len(classes) == 2:
            support = np.zeros(len(rows.lines), np.bool_)
            support[self.model.svm.support] = True
            labels = np.array(classes)[rows.target]
            figures["margin.png"] = evaluate_margin(
                rows.features, labels, support, self.model.svm.decision_function
            )
        return figures

    def checks(self, split: TableSplit, count: int) -> Iterator[CheckResult]:
        """Check batch invariance."""
        features = split.rows.features[split.spread(count)]
        decide = self.model.svm.decision_function
        together = decide(features)
        single = np.concatenate([decide(row[None]) for row in features])
        yield self._compare_decisions("batch invariance", together, single)

    def compare_reloaded(self, other: SVMModel, split: TableSplit, count: int) -> CheckResult:
        """Check that the reloaded machine gives the same decisions."""
        features = split.rows.features[split.spread(count)]
        one, two = self.model.svm.decision_function(features), other.svm.decision_function(features)
        return self._compare_decisions("reload consistency", one, two)

    def _compare_decisions(self, invariant: str, one: FloatArray, two: FloatArray) -> CheckResult:
        scale = max(1.0, float(np.abs(self.model.svm.weights).sum()))  # of the sum that f is
        difference = float(np.abs(one - two).max()) / scale
        return CheckResult(invariant, len(one), difference, LOGIT_TOLERANCE[torch.float64])


def _compare(invariant: str, pairs: list[tuple[Tensor, Tensor]]) -> CheckResult:
    worst = [float((one - other).abs().max()) for one, other in pairs]
    difference = float(np.max(worst))  # NaN stays NaN
    return CheckResult(invariant, len(pairs[0][0]), difference, LOGIT_TOLERANCE[pairs[0][0].dtype])
