"""A table in, one of its columns foretold from the others: a number, or a class.

Numbers are learned in deviations from their mean, and said as the table has them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.data.samplers import shuffled_batches
from saccade.data.tables.csv import IntArray
from saccade.data.tables.schema import FloatArray, TableSchema
from saccade.estimators.svm.svm import SVM
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.tabular import TABULAR_NETWORKS
from saccade.nn.losses import (
    MARGIN_LOSSES,
    Risk,
    absolute_error,
    cross_entropy,
    huber,
    squared_error,
    weight_penalty,
)
from saccade.nn.manual_backprop import mlp_backward, mlp_forward, output_gradient
from saccade.plots.computation_graph import ComputationGraph
from saccade.tasks.graphs import computation_graph
from saccade.tasks.network import TrainableTask
from saccade.tasks.table_recipe import PreparedTable, TableRecipe, rows_per_batch
from saccade.tasks.table_rows import TabularTask
from saccade.tasks.task import Evaluation
from saccade.training.loop import Loss

TABULAR_MODELS: dict[str, Any] = {**TABULAR_NETWORKS, "svm": SVM}
REGRESSION_LOSSES = {
    "absolute_error": absolute_error,
    "huber": huber,
    "squared_error": squared_error,
}
PREDICT_CHUNK = 4096  # rows that are answered in one pass


class TabularBatch(NamedTuple):
    """Rows to learn from."""

    features: Float[Tensor, "B D"]
    target: Float[Tensor, " B"] | Int[Tensor, " B"]
    weights: Float[Tensor, " B"] | None  # None: every row counts once
    lines: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """How many rows there are."""
        return len(self.features)


class NeuralTabularTask(TabularTask, TrainableTask):
    """A network, trained by the loop."""

    def __init__(self, recipe: TableRecipe, layout: TableSchema):
        super().__init__(recipe, layout, lambda: TABULAR_MODELS[recipe.model.name](recipe.model))

    def incompatible(self, prepared: PreparedTable) -> list[str]:
        """Rows of a class that has no weights."""
        return prepared.unknown_classes

    # --- training --------------------------------------------------------------------------

    def batches(self, split: str, start: int = 0) -> Iterator[TabularBatch]:
        """Rows without end, in an order that depends on the seed; a few are taken all at once."""
        count, seed = len(self.rows[split].lines), self.recipe.train.seed
        for some in shuffled_batches(count, rows_per_batch(self.recipe, count), seed, start):
            yield self.batch(split, some)

    def batches_in_epoch(self) -> int:
        """How many batches have every row once."""
        count = len(self.rows["train"].lines)
        return -(-count // rows_per_batch(self.recipe, count))

    def batch(self, split: str, some: IntArray) -> TabularBatch:
        """The chosen rows as tensors; weights are as `shares` has them."""
        features, target, weights, lines = self.rows[split]
        share = (
            None if weights is None else torch.from_numpy(self.normalized_weights(weights)[some])
        )
        wanted = torch.from_numpy(target[some])
        return TabularBatch(
            torch.from_numpy(features[some]).float().to(self.device),
            (wanted if self.classes else wanted.float()).to(self.device),
            None if share is None else share.float().to(self.device),
            tuple(lines[some].tolist()),
        )

    def normalized_weights(self, weights: FloatArray) -> FloatArray:
        """How much each row of a split counts: 1 on average."""
        return weights / weights.mean()

    def loss(self, batch: TabularBatch) -> Loss:
        """The structural risk of a batch, times its rows; of classes, how many were right."""
        answers = self.model(batch.features)
        total = self.summed_loss(answers, batch)
        if self.recipe.train.penalty:
            total = total + batch.tokens * self.penalty()
        if not self.classes:
            return Loss(total)
        return Loss(total, (answers.argmax(1) == batch.target).sum())

    def summed_loss(
        self,
        answers: Float[Tensor, "B V"],
        batch: TabularBatch,
        label_smoothing: float | None = None,
    ) -> Float[Tensor, ""]:
        r"""Σ_n w_n ℓ(f(x_n), y_n), by `train.loss`; smoothed as in training if nothing is said."""
        train = self.recipe.train
        if train.loss in REGRESSION_LOSSES:
            return REGRESSION_LOSSES[train.loss](answers[:, 0], batch.target, batch.weights)
        if train.loss == "cross_entropy":
            spread = train.label_smoothing if label_smoothing is None else label_smoothing
            return cross_entropy(answers, batch.target, spread, batch.weights)
        margins = (answers[:, 1] - answers[:, 0]) * (2 * batch.target - 1)
        by_margin: Any = MARGIN_LOSSES[train.loss]
        return by_margin(margins, batch.weights)

    def penalty(self) -> Float[Tensor, ""]:
        r"""λ/2 ‖W‖² over all matrices."""
        matrices = [weight for weight in self.model.parameters() if weight.dim() > 1]
        return weight_penalty(matrices, self.recipe.train.penalty)

    @torch.no_grad()
    def risk(self, split: str, limit: int | None = None) -> Risk:
        """The weighted mean loss of rows whose class is known, without smoothing; the penalty."""
        self.model.eval()
        some = self._some(split, limit)
        if self.classes:
            some = some[self.rows[split].target[some] >= 0]
        summed_loss, weights = torch.zeros(()), 0.0
        for at in range(0, len(some), PREDICT_CHUNK):
            batch = self.batch(split, some[at : at + PREDICT_CHUNK])
            summed_loss = (
                summed_loss + self.summed_loss(self.model(batch.features), batch, 0.0).cpu()
            )
            weights += batch.tokens if batch.weights is None else float(batch.weights.sum())
        return Risk(
            summed_loss / weights if weights else torch.tensor(torch.nan), self.penalty().cpu()
        )

    def describe_batch(self, batch: TabularBatch) -> str:
        """The file and lines of a batch."""
        shown = ", ".join(map(str, batch.lines[:5]))
        more = f" and {len(batch.lines) - 5} more" if len(batch.lines) > 5 else ""
        return f"{self.name}, line{'s' if len(batch.lines) > 1 else ''} {shown}{more}"

    # --- scores ----------------------------------------------------------------------------

    @torch.no_grad()
    def answers(self, features: FloatArray) -> FloatArray:
        """(N, V): a logit for each class, or one number, in the model's units."""
        self.model.eval()
        parts = [
            self.model(torch.from_numpy(features[at : at + PREDICT_CHUNK]).float().to(self.device))
            for at in range(0, len(features), PREDICT_CHUNK)
        ]
        return torch.cat(parts).double().cpu().numpy()

    def objective(self, split: str, limit: int | None) -> Evaluation:
        """The risk, and both its terms where there is a penalty."""
        risk = self.risk(split, limit)
        weighed = "" if self.rows[split].weights is None else ", weighted"
        figures = {"loss": float(risk.empirical)}
        conventions = {"loss": f"mean {self.recipe.train.loss} of a row{weighed}"}
        if self.recipe.train.penalty:
            figures |= {"penalty": float(risk.penalty), "risk": float(risk.structural)}
            conventions |= {"penalty": "λ/2 ‖W‖²", "risk": "loss and penalty: what is made small"}
        return figures, conventions

    def graph(self, row: int, split: str = "test") -> ComputationGraph:
        """One row's way forward and back, every number of it; rows count from 1."""
        return computation_graph(self, row, split)

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[CheckResult]:
        """Try every law on this very model, with rows spread evenly over a split."""
        batch = self.batch(split, self._some(split, count))
        self.model.eval()
        yield self._neighbours(batch.features)
        yield self._by_hand(batch)

    @torch.no_grad()
    def _neighbours(self, features: Float[Tensor, "B D"]) -> CheckResult:
        together = self.model(features)
        alone = torch.cat([self.model(row[None]) for row in features])
        return _finding("neighbours change nothing", [(together, alone)])

    def _by_hand(self, batch: TabularBatch) -> CheckResult:
        """Every gradient of the weights, by autograd and as `nn.backward` writes it out."""
        invariant = "written out equals autograd"
        if getattr(self.recipe.model, "norm", "none") != "none":
            return skipped(invariant, "it is written out for networks without norms")
        if self.classes and int(batch.target.min()) < 0:
            return skipped(invariant, "there are rows of a class that was not learned")
        model: Any = self.model
        layers, train = model.layers(), self.recipe.train
        batch = batch._replace(weights=None)
        summed_loss = self.summed_loss(self.model(batch.features), batch)
        wanted = torch.autograd.grad(summed_loss, [part for layer in layers for part in layer])
        with torch.no_grad():
            activation = getattr(self.recipe.model, "activation", "relu")
            there = mlp_forward(batch.features, layers, activation)
            last = output_gradient(
                train.loss, there.pre_activations[-1], batch.target, train.label_smoothing
            )
            back = mlp_backward(there, layers, activation, last)
        found = [part for pair in zip(back.weights, back.biases, strict=True) for part in pair]
        scale = max(1.0, *(float(part.abs().max()) for part in wanted))
        pairs = [(one / scale, two / scale) for one, two in zip(wanted, found, strict=True)]
        return _finding(invariant, pairs)._replace(num_inputs=batch.tokens)

    @torch.no_grad()
    def compare_reloaded(self, other: Any, split: str, count: int) -> CheckResult:
        """Whether the same task, saved and reopened, says the same."""
        features = self.batch(split, self._some(split, count)).features
        one, two = self.model.eval()(features), other.model.eval()(features)
        return _finding("saved and reopened agree", [(one, two)])


def _finding(invariant: str, pairs: list[tuple[Tensor, Tensor]]) -> CheckResult:
    worst = [float((one - other).abs().max()) for one, other in pairs]
    difference = float(np.max(worst))  # of NaN numpy makes NaN
    return CheckResult(invariant, len(pairs[0][0]), difference, LOGIT_TOLERANCE[pairs[0][0].dtype])
