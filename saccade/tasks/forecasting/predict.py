"""Forecasts: a row of numbers in, the values that follow out."""

from collections.abc import Sequence

import numpy as np
import torch

from saccade.config import Config
from saccade.errors import DataError
from saccade.models.forecasting import ForecastModel, rollout
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.forecasting.config import ForecastRecipe
from saccade.tasks.forecasting.data import Standardizer
from saccade.tasks.neural import device_of
from saccade.tasks.numbers import numeric_prediction, parse_number_list
from saccade.types.arrays import FloatArray
from saccade.types.progress import ProgressCounter
from saccade.types.results import Prediction

MAX_HISTORY_VALUES = 1000  # values read before the first forecast
MAX_SERIES_DEVIATIONS = 1e18  # from the mean; float32 can still square them


class ForecastPredictor(TextPredictor):
    """Predicts `data.horizon` values, each from the data and its own earlier predictions."""

    def __init__(self, recipe: ForecastRecipe, model: ForecastModel, standardizer: Standardizer):
        self.recipe, self.model, self.standardizer = recipe, model, standardizer

    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the values that follow each row of numbers."""
        counter = ProgressCounter(context.on_progress, "predicting", len(inputs))
        predictions = []
        for number, text in enumerate(inputs, context.first):
            values = self.parse_values(text, number)
            found = self.forecast(values, self.recipe.data.horizon).tolist()
            predictions.append(numeric_prediction(found, self.standardizer.deviation))
            counter.advance(1)
        return predictions

    def parse_values(self, text: str, number: int) -> FloatArray:
        """Return the numbers of an input; raise a DataError if they are too few or too large."""
        lags = self.recipe.data.lags if self.recipe.model_name == "autoregressive" else 1
        values = parse_number_list(text, number, 'numbers separated by spaces, e.g. "0.1 0.2"')
        if len(values) < lags:
            raise DataError(
                f"input {number}: got {len(values)} number{'s' if len(values) > 1 else ''}; "
                f"expected {lags} or more, the newest last."
            )
        array = np.array(values)
        if np.abs(self.standardizer.transform(array)).max() > MAX_SERIES_DEVIATIONS:
            raise DataError(
                f"input {number}: got a number far outside of the training data; expected values "
                f"around {self.standardizer.mean:g} ± {self.standardizer.deviation:g}."
            )
        return array

    @torch.no_grad()
    def forecast(self, values: FloatArray, horizon: int) -> FloatArray:
        """Return (horizon,): the values that follow, each prediction fed back as input."""
        self.model.eval()
        scaled = torch.from_numpy(self.standardizer.transform(values)).float()
        scaled = scaled.to(device_of(self.model))
        read, state = self.model.step(scaled[None], self.model.init_state(1))
        rolled = rollout(self.model, read[:, -1], state, horizon)[0]
        return self.standardizer.inverse_transform(rolled.double().cpu().numpy())

    @torch.no_grad()
    def rolling_forecasts(self, values: FloatArray, start: int, horizon: int) -> FloatArray:
        """Return (N, horizon): each value from `start` on, predicted 1, 2, … steps ahead.

        Row n is about the value at start + n in every column, so that columns can be compared. The
        first ones are made from values before `start`.
        """
        self.model.eval()
        first = start - horizon + 1  # first origin: its own value is not yet known
        scaled = torch.from_numpy(self.standardizer.transform(values)).float()
        scaled = scaled.to(device_of(self.model))
        history = scaled[None, max(0, first - MAX_HISTORY_VALUES) : first]
        read, state = self.model.step(history, self.model.init_state(1))
        expected, states = [read[0, -1:]], [state]
        for origin in range(first + 1, len(values)):
            read, state = self.model.step(scaled[None, origin - 1 : origin], state)
            expected.append(read[0])
            states.append(state)
        rolled = rollout(self.model, torch.cat(expected), torch.cat(states), horizon)
        table = rolled.double().cpu().numpy()
        origins = np.arange(len(values) - start)[:, None] + horizon - 1
        steps = np.arange(horizon)
        return self.standardizer.inverse_transform(table[origins - steps, steps])
