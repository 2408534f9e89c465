"""Training objective and estimator: the squared leave-one-out error."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.data.points import Points
from saccade.data.samplers import evenly_spaced_rows, shuffled_batches
from saccade.models.kernel_attention import KernelAttention
from saccade.tasks.kernel_regression.config import RegressionRecipe
from saccade.tasks.kernel_regression.data import PointSplit
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.training.estimator import FitContext
from saccade.training.objective import Loss

if TYPE_CHECKING:
    from saccade.tasks.kernel_regression.smoother import KernelModel

MAX_BATCH_WEIGHTS = 1 << 21  # attention weights of a batch


class PointBatch(NamedTuple):
    """Indices of points to predict from all others."""

    rows: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        """Number of points."""
        return len(self.rows)


class KernelAttentionObjective(StatelessObjective[PointBatch]):
    r"""Σ_i (y_i − f₋ᵢ(x_i))²: each point is predicted from all others."""

    model: KernelAttention

    unit = "points"

    def __init__(
        self,
        recipe: RegressionRecipe,
        model: KernelAttention,
        points: Points,
        splits: Mapping[str, PointSplit],
    ):
        super().__init__(recipe, model)
        count = len(points.x)
        self.count = count
        max_rows = max(1, MAX_BATCH_WEIGHTS // count)
        self.batch_rows = min(count, self.settings.batch_tokens, max_rows)

    def batches(self, split: str, start: int = 0) -> Iterator[PointBatch]:
        """Yield all points, in several batches if they are many, shuffled by the seed."""
        for rows in shuffled_batches(self.count, self.batch_rows, self.settings.seed, start):
            yield PointBatch(rows)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain all points once."""
        return -(-self.count // self.batch_rows)

    def loss(self, batch: PointBatch) -> Loss:
        """Return the summed squared leave-one-out error of a batch."""
        return squared_error(self.model, batch)


def squared_error(model: KernelAttention, batch: PointBatch) -> Loss:
    """Return the summed squared leave-one-out error of a batch."""
    rows = torch.from_numpy(batch.rows).to(device_of(model))
    expected = model(model.keys[rows], rows)
    return Loss((model.values[rows] - expected).square().sum())


@torch.no_grad()
def leave_one_out_loss(model: KernelAttention, limit: int | None) -> tuple[float, int]:
    """Return the mean squared leave-one-out error over at most `limit` points, evenly spread."""
    count = len(model.keys)
    rows = evenly_spaced_rows(count, min(count, limit or count))
    size = max(1, MAX_BATCH_WEIGHTS // count)
    parts = [PointBatch(rows[start : start + size]) for start in range(0, len(rows), size)]
    return sum(float(squared_error(model, part).total) for part in parts) / len(rows), len(rows)


class BandwidthSearch:
    """Estimator that searches for the bandwidth with the smallest leave-one-out error."""

    is_resumable = False

    def __init__(
        self,
        recipe: RegressionRecipe,
        model: "KernelModel",
        points: Points,
        splits: Mapping[str, PointSplit],
    ):
        self.model, self.points = model, points

    def fit(self, context: FitContext) -> None:
        """Fit the bandwidth."""
        context.on_progress("fitting the bandwidth", 0, None)
        self.model.regression.fit(self.points.x, self.points.y)
