"""Model outputs for table rows, and the loss that training minimises."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.data.tables.schema import CategoricalColumn, TableSchema
from saccade.errors import ConfigError
from saccade.nn.losses import (
    MARGIN_LOSSES,
    Risk,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    weight_penalty,
)
from saccade.tasks.neural import device_of
from saccade.tasks.tabular.config import TableRecipe
from saccade.tasks.tabular.data import TableSplit
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.results import Evaluation

REGRESSION_LOSSES = {
    "absolute_error": l1_loss,
    "huber": huber_loss,
    "squared_error": mse_loss,
}
PREDICT_CHUNK = 4096  # rows of one forward pass


class TabularBatch(NamedTuple):
    """Rows as tensors."""

    features: Float[Tensor, "B D"]
    target: Float[Tensor, " B"] | Int[Tensor, " B"]
    weights: Float[Tensor, " B"] | None  # None: every row has weight 1
    lines: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Number of rows."""
        return len(self.features)


class TableScorer(ABC):
    """Computes a model's outputs and its training loss on table rows."""

    def __init__(self, recipe: TableRecipe, schema: TableSchema):
        self.recipe, self.schema = recipe, schema
        target = schema.target
        self.classes = target.values if isinstance(target, CategoricalColumn) else ()

    @abstractmethod
    def outputs(self, features: FloatArray) -> FloatArray:
        """Return (N, V): a score for each class, or one standardised number."""

    @abstractmethod
    def margins(self, features: FloatArray, chosen: int, other: int) -> FloatArray:
        """Return the evidence of each row for one class against another, (N,)."""

    @abstractmethod
    def training_loss(self, split: TableSplit, limit: int | None) -> Evaluation:
        """Return the loss that training minimises, and how it is computed."""

    def loss_evaluation(self, loss: float, name: str) -> Evaluation:
        """Return the mean loss of a row, in the units of standardised numbers."""
        target = self.schema.target
        unit = "" if self.classes else f", in standard deviations of {target.name!r}"
        return Evaluation({"loss": loss}, {"loss": f"mean {name} of a row{unit}"})


class NetworkScorer(TableScorer):
    """A network's logits or numbers, and its loss by `train.loss`."""

    def __init__(self, recipe: TableRecipe, model: nn.Module, schema: TableSchema):
        super().__init__(recipe, schema)
        self.model = model

    @torch.no_grad()
    def outputs(self, features: FloatArray) -> FloatArray:
        """Return (N, V): a logit for each class, or one standardised number."""
        self.model.eval()
        device = device_of(self.model)
        parts = [
            self.model(torch.from_numpy(features[start : start + PREDICT_CHUNK]).float().to(device))
            for start in range(0, len(features), PREDICT_CHUNK)
        ]
        return torch.cat(parts).double().cpu().numpy()

    def margins(self, features: FloatArray, chosen: int, other: int) -> FloatArray:
        """Return the difference of the logits of two classes, (N,)."""
        logits = self.outputs(features)
        return logits[:, chosen] - logits[:, other]

    def batch(self, split: TableSplit, indices: IntArray, normalise: bool = True) -> TabularBatch:
        """Return rows as tensors; `normalise` scales the row weights to a mean of 1."""
        features, target, weights, lines = split.rows
        device = device_of(self.model)
        row_weights = None
        if weights is not None:
            scaled = weights / weights.mean() if normalise else weights
            row_weights = torch.from_numpy(scaled[indices]).float().to(device)
        expected = torch.from_numpy(target[indices])
        return TabularBatch(
            torch.from_numpy(features[indices]).float().to(device),
            (expected if self.classes else expected.float()).to(device),
            row_weights,
            tuple(lines[indices].tolist()),
        )

    def summed_loss(
        self,
        outputs: Float[Tensor, "B V"],
        batch: TabularBatch,
        label_smoothing: float | None = None,
    ) -> Float[Tensor, ""]:
        r"""Return Σ_n w_n ℓ(f(x_n), y_n) by `train.loss`; label smoothing is that of training."""
        train = self.recipe.train
        if train.loss in REGRESSION_LOSSES:
            return REGRESSION_LOSSES[train.loss](
                outputs[:, 0], batch.target, reduction="sum", sample_weight=batch.weights
            )
        if train.loss == "cross_entropy":
            smoothing = train.label_smoothing if label_smoothing is None else label_smoothing
            return cross_entropy(
                outputs,
                batch.target,
                label_smoothing=smoothing,
                reduction="sum",
                sample_weight=batch.weights,
            )
        if outputs.shape[1] != 2:
            raise ConfigError(
                f"got the loss {train.loss} with {outputs.shape[1]} outputs; expected 2 classes."
            )
        margins = (outputs[:, 1] - outputs[:, 0]) * (2 * batch.target - 1)
        by_margin: Any = MARGIN_LOSSES[str(train.loss)]
        return by_margin(margins, reduction="sum", sample_weight=batch.weights)

    def penalty(self) -> Float[Tensor, ""]:
        r"""Return λ/2 ‖W‖² over all matrices."""
        matrices = [weight for weight in self.model.parameters() if weight.dim() > 1]
        return weight_penalty(matrices, self.recipe.train.penalty)

    @torch.no_grad()
    def risk(self, split: TableSplit, limit: int | None = None) -> Risk:
        """Return the weighted mean loss of rows of known classes, unsmoothed, and the penalty."""
        self.model.eval()
        indices = split.spread(limit)
        if self.classes:
            indices = indices[split.rows.target[indices] >= 0]
        total, weight = torch.zeros(()), 0.0
        for start in range(0, len(indices), PREDICT_CHUNK):
            batch = self.batch(
                split, indices[start : start + PREDICT_CHUNK], not split.was_trained_on
            )
            total = total + self.summed_loss(self.model(batch.features), batch, 0.0).cpu()
            weight += batch.tokens if batch.weights is None else float(batch.weights.sum())
        mean = total / weight if weight else torch.tensor(torch.nan)
        return Risk(mean, self.penalty().cpu())

    def training_loss(self, split: TableSplit, limit: int | None) -> Evaluation:
        """Return the loss, and penalty and risk where there is a penalty."""
        risk = self.risk(split, limit)
        weighted = "" if split.rows.weights is None else ", weighted"
        found = self.loss_evaluation(float(risk.empirical), str(self.recipe.train.loss))
        metrics = dict(found.metrics)
        conventions = {"loss": f"{found.conventions['loss']}{weighted}"}
        if self.recipe.train.penalty:
            metrics |= {"penalty": float(risk.penalty), "risk": float(risk.structural)}
            conventions |= {"penalty": "λ/2 ‖W‖²", "risk": "loss plus penalty, the objective"}
        return Evaluation(metrics, conventions)
