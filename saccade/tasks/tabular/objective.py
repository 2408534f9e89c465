r"""Training objectives of tables: shuffled rows, or online in file order.

Online (prequential; Dawid 1984; Gama et al. 2013): each row is predicted before it is trained on,

    ŷ_n = f(x_n; θ_{n-1}),    θ_n = θ_{n-1} - η ∇ ℓ(f(x_n; θ_{n-1}), y_n)

so the score of the predictions ŷ_1 … ŷ_n is one on unseen rows, though every row is trained on.
The initial weights are scored on the same rows for comparison.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from saccade.data.samplers import shuffled_batches
from saccade.data.tables.schema import NumericColumn, TableSchema
from saccade.inspection.figures import Figure, OnlineLearningCurve, running_mean
from saccade.tasks.neural import StatelessObjective
from saccade.tasks.tabular.config import TableRecipe
from saccade.tasks.tabular.data import TableSplit, rows_per_batch
from saccade.tasks.tabular.scoring import NetworkScorer, TabularBatch
from saccade.training.objective import Loss, Validation
from saccade.types.arrays import FloatArray

RECENT_ROWS = 100  # rows of the recent online score
# keys of the predictions in checkpoints: those made while training, those of the initial weights
ONLINE_KEY, INITIAL_KEY = "said", "left"


class TabularObjective(StatelessObjective[TabularBatch]):
    """Structural risk of shuffled rows: loss plus penalty."""

    unit = "rows"

    def __init__(
        self,
        recipe: TableRecipe,
        model: nn.Module,
        schema: TableSchema,
        splits: Mapping[str, TableSplit],
    ):
        super().__init__(recipe, model)
        self.splits = splits
        self.scorer = NetworkScorer(recipe, model, schema)
        self.batch_rows = rows_per_batch(recipe, len(splits["train"]))
        self.penalty = recipe.train.penalty

    def batches(self, split: str, start: int = 0) -> Iterator[TabularBatch]:
        """Yield shuffled rows without end."""
        rows = self.splits[split]
        for indices in shuffled_batches(len(rows), self.batch_rows, self.settings.seed, start):
            yield self.scorer.batch(rows, indices)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every row once."""
        return -(-len(self.splits["train"]) // self.batch_rows)

    def loss(self, batch: TabularBatch) -> Loss:
        """Return the structural risk of a batch times its rows."""
        outputs = self.model(batch.features)
        total = self.scorer.summed_loss(outputs, batch)
        if self.penalty:
            total = total + batch.tokens * self.scorer.penalty()
        if not self.scorer.classes:
            return Loss(total)
        return Loss(total, (outputs.argmax(1) == batch.target).sum())

    def describe_batch(self, batch: TabularBatch) -> str:
        """Return the file and the lines of a batch."""
        lines = ", ".join(map(str, batch.lines[:5]))
        more = f" and {len(batch.lines) - 5} more" if len(batch.lines) > 5 else ""
        return f"{self.recipe.data_name}, line{'s' if len(batch.lines) > 1 else ''} {lines}{more}"


class OnlineObjective(TabularObjective):
    """Rows in file order, once; each is predicted before it is trained on.

    The state holds the prediction for every row (NaN: not yet), and that of the initial weights.
    """

    def __init__(
        self,
        recipe: TableRecipe,
        model: nn.Module,
        schema: TableSchema,
        splits: Mapping[str, TableSplit],
    ):
        super().__init__(recipe, model, schema, splits)
        self.predictions: dict[str, Tensor] = {}  # by ONLINE_KEY and INITIAL_KEY
        self.validate = self._validate

    def batches(self, split: str, start: int = 0) -> Iterator[TabularBatch]:
        """Yield the rows in file order, once, with row weights as they are."""
        rows = self.splits[split]
        size = self.batch_rows
        for first in range(start * size, len(rows), size):
            indices = np.arange(first, min(first + size, len(rows)))
            yield self.scorer.batch(rows, indices, normalise=False)

    def loss(self, batch: TabularBatch) -> Loss:
        """Predict the batch, then return its loss."""
        self._predict(batch)
        return super().loss(batch)

    def _predict(self, batch: TabularBatch) -> None:
        """Record the predictions of the current weights for a batch."""
        rows = self.splits["train"].rows
        if not self.predictions:  # the weights are the initial ones
            initial = self._outputs(rows.features)
            unknown = torch.full_like(initial, torch.nan)
            self.predictions = {ONLINE_KEY: unknown, INITIAL_KEY: initial}
        indices = np.searchsorted(rows.lines, batch.lines)
        made = self.predictions[ONLINE_KEY]
        if made[indices].isnan().any():  # a line search evaluates again, with other weights
            made[indices] = self._outputs(rows.features[indices])

    def _outputs(self, features: FloatArray) -> Tensor:
        """Return outputs without dropout; the model is left in training mode."""
        outputs = torch.from_numpy(self.scorer.outputs(features)).float()
        self.model.train()
        return outputs

    def state_dict(self) -> dict[str, Tensor]:
        """Return the predictions made so far."""
        return dict(self.predictions)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the predictions."""
        self.predictions = dict(state)

    def figures(self) -> dict[str, Figure]:
        """Return the running scores while training and of the initial weights."""
        if not predicted_rows(self.predictions):
            return {}
        curves = {
            label: online_errors(self.scorer, self.splits["train"], self.predictions, which)
            for label, which in (("training", ONLINE_KEY), ("initial weights", INITIAL_KEY))
        }
        metric = online_metric(self.scorer)
        return {"online.png": OnlineLearningCurve(curves, metric, RECENT_ROWS)}

    def _validate(self) -> Validation:
        """Return the running scores; the newest weights are the best, having seen most rows."""
        metrics = online_scores(self.scorer, self.splits["train"], self.predictions)
        return Validation(metrics, metrics["rows"])


def online_errors(
    scorer: NetworkScorer, split: TableSplit, predictions: Mapping[str, Tensor], which: str
) -> FloatArray:
    """Return for each predicted row whether the class was right, or the squared error."""
    count = predicted_rows(predictions)
    outputs = predictions[which][:count].double().numpy()
    truth = split.rows.target[:count]
    if scorer.classes:
        return np.asarray(outputs.argmax(1) == truth, np.float64)
    column = scorer.schema.target
    assert isinstance(column, NumericColumn)
    return np.square(column.deviation * (outputs[:, 0] - truth))


def predicted_rows(predictions: Mapping[str, Tensor]) -> int:
    """Return how many rows were predicted so far."""
    return int((~predictions[ONLINE_KEY][:, 0].isnan()).sum()) if predictions else 0


def online_metric(scorer: NetworkScorer) -> str:
    """Return the name of the running score."""
    return "accuracy" if scorer.classes else "rmse"


def online_scores(
    scorer: NetworkScorer, split: TableSplit, predictions: Mapping[str, Tensor]
) -> dict[str, float]:
    """Return the running score over all and over recent rows, and that of the initial weights."""
    metrics = {"rows": float(predicted_rows(predictions))}
    for prefix, which in (("", ONLINE_KEY), ("left_", INITIAL_KEY)):
        values = online_errors(scorer, split, predictions, which)
        for recent, window in (("", None), ("recent_", RECENT_ROWS)):
            score = running_mean(values, window, root=not scorer.classes)[-1]
            metrics[f"{prefix}{recent}{online_metric(scorer)}"] = float(score)
    return metrics
