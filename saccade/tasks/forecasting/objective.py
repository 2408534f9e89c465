"""Training objective of forecasters: squared error one step ahead."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.samplers import shuffled_batches
from saccade.data.series_splits import SeriesSplit
from saccade.models.forecasting import ForecastModel
from saccade.tasks.forecasting.config import ForecastRecipe
from saccade.tasks.forecasting.data import Standardizer
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.training.objective import Loss


class SeriesBatch(NamedTuple):
    """Windows of values, each one value longer than the model's input."""

    starts: NDArray[np.int64]
    values: Float[Tensor, "B T"]
    tokens: int  # number of scored predictions


class ForecastObjective(StatelessObjective[SeriesBatch]):
    """Summed squared error of the next value, in standardised units."""

    model: ForecastModel

    unit = "predictions"

    def __init__(
        self,
        recipe: ForecastRecipe,
        model: ForecastModel,
        standardizer: Standardizer,
        splits: Mapping[str, SeriesSplit],
    ):
        super().__init__(recipe, model)
        windows = [
            torch.from_numpy(standardizer.transform(span.values))
            .float()
            .unfold(0, model.input_length + 1, 1)  # a view: no values are copied
            for span in splits["train"]
        ]
        self.rows = windows[0] if len(windows) == 1 else torch.cat(windows)
        self.scored = model.input_length - model.first_scored  # predictions per row
        self.batch_rows = max(1, min(len(self.rows), self.settings.batch_tokens // self.scored))

    def batches(self, split: str, start: int = 0) -> Iterator[SeriesBatch]:
        """Yield shuffled windows of the training values, without end."""
        for starts in shuffled_batches(len(self.rows), self.batch_rows, self.settings.seed, start):
            rows = self.rows[torch.from_numpy(starts)]
            yield SeriesBatch(starts, rows, len(starts) * self.scored)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every window once."""
        return -(-len(self.rows) // self.batch_rows)

    def loss(self, batch: SeriesBatch) -> Loss:
        """Return the summed squared error."""
        values = batch.values.to(device_of(self.model))
        expected, _ = self.model.step(values[:, :-1], self.model.init_state(len(values)))
        errors = (expected - values[:, 1:])[:, self.model.first_scored :]
        return Loss(errors.square().sum())

    def describe_batch(self, batch: SeriesBatch) -> str:
        """Return where the windows of a batch start."""
        starts = ", ".join(str(start + 1) for start in batch.starts[:5])
        more = f" and {len(batch.starts) - 5} more" if len(batch.starts) > 5 else ""
        return f"{self.recipe.data_name}, windows that start at value {starts}{more}"
