"""Figures, computation graphs and checks of tabular models."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.tables.schema import TableSchema
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.figures import (
    ComputationGraph,
    ConfusionMatrix,
    Figure,
    evaluate_margin,
)
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.nn.manual_backprop import mlp_backward, mlp_forward, output_gradient
from saccade.tasks.base import Inspector
from saccade.tasks.tabular.config import TableRecipe
from saccade.tasks.tabular.data import TableSplit
from saccade.tasks.tabular.evaluate import confusion
from saccade.tasks.tabular.graph import computation_graph
from saccade.tasks.tabular.predict import make_scorer
from saccade.tasks.tabular.scoring import NetworkScorer, TabularBatch
from saccade.tasks.tabular.svm import SVMModel
from saccade.types.arrays import FloatArray

MAX_CONFUSION_CLASSES = 40  # classes of a confusion matrix


class TableInspector(Inspector[TableSplit]):
    """Shows confused classes, and checks a tabular network."""

    def __init__(self, recipe: TableRecipe, model: Any, schema: TableSchema):
        self.recipe, self.model, self.schema = recipe, model, schema
        self.scorer = make_scorer(recipe, model, schema)

    def example_input(self, split: TableSplit) -> str:
        """Return a held-out row as users type it."""
        return split.example

    def figures(self, splits: Mapping[str, TableSplit]) -> dict[str, Figure]:
        """Return the confusion matrix, for classes."""
        classes = self.scorer.classes
        if not classes:
            return {}
        split = splits["test"]
        table = confusion(self.scorer.outputs(split.rows.features), split, len(classes))
        table = table[:MAX_CONFUSION_CLASSES, :MAX_CONFUSION_CLASSES]
        return {"confusion.png": ConfusionMatrix(table, list(classes[:MAX_CONFUSION_CLASSES]))}

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
            trace = mlp_forward(batch.features, layers, activation)
            last = output_gradient(
                str(train.loss), trace.pre_activations[-1], batch.target, train.label_smoothing
            )
            back = mlp_backward(trace, layers, activation, last)
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
