"""Forecast errors by horizon, and those of repeating the last value."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from saccade.estimators.baselines import last_value
from saccade.inspection.figures import HorizonErrors
from saccade.models.forecasting import ForecastModel
from saccade.tasks.base import Evaluator
from saccade.tasks.forecasting.config import ForecastRecipe
from saccade.tasks.forecasting.data import HORIZONS, SeriesSpan, Standardizer
from saccade.tasks.forecasting.predict import ForecastPredictor
from saccade.types.arrays import FloatArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import Evaluation

MAX_FORECAST_VALUES = 5000  # values predicted in an evaluation


class ForecastEvaluator(Evaluator[SeriesSpan]):
    """Root mean squared errors 1, 4, 16 and 64 steps ahead, as far as the data allows."""

    headline = ("rmse_1", "rmse_16")

    def __init__(self, recipe: ForecastRecipe, model: ForecastModel, standardizer: Standardizer):
        self.recipe, self.standardizer = recipe, standardizer
        self.predictor = ForecastPredictor(recipe, model, standardizer)

    def evaluate(
        self,
        split: SeriesSpan,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the error of each horizon in units of the data."""
        self.predictor.parse_options(options or {})
        values, start = split
        values = values[: start + min(limit or MAX_FORECAST_VALUES, MAX_FORECAST_VALUES)]
        horizon = max_horizon(start, self.recipe.data.lags)
        found = self.predictor.rolling_forecasts(values, start, horizon)
        errors = horizon_errors(values, start, found)
        count = len(values) - start
        on_progress("evaluating", count, count)
        metrics = {"loss": float((errors.errors[0] / self.standardizer.deviation) ** 2)}
        conventions = {"loss": "mean squared error 1 ahead over the variance of the training data"}
        for k in HORIZONS:
            if k > len(errors.errors):
                break
            metrics[f"rmse_{k}"] = float(errors.errors[k - 1])
            metrics[f"naive_rmse_{k}"] = float(errors.naive[k - 1])
            fed_back = "" if k == 1 else f", with {k - 1} of its own predictions as input"
            conventions[f"rmse_{k}"] = f"{k} ahead{fed_back}, in units of the data"
            conventions[f"naive_rmse_{k}"] = f"prediction: the value {k} steps before"
        return Evaluation({**metrics, "examples": float(count)}, conventions)

    def floors(self, train: SeriesSpan, split: SeriesSpan) -> dict[str, dict[str, float]]:
        """Return the errors of repeating the last known value."""
        values, start = split
        values = values[: start + MAX_FORECAST_VALUES]
        horizon = max_horizon(start, self.recipe.data.lags)
        names = {k: f"rmse_{k}" for k in HORIZONS if k <= horizon}
        found = {name: last_value(values, k, start).metrics[name] for k, name in names.items()}
        return {"last value": found}


def max_horizon(start: int, lags: int) -> int:
    """Return the largest of `HORIZONS` for which there is enough history before `start`."""
    return max(k for k in HORIZONS if k == 1 or start - k + 1 >= lags)


def horizon_errors(values: FloatArray, start: int, found: FloatArray) -> HorizonErrors:
    """Return the RMSE 1, 2, … steps ahead, and that of repeating the last known value."""
    truth = values[start:, None]
    lagged = np.arange(start, len(values))[:, None] - np.arange(1, found.shape[1] + 1)
    both = (found - truth, values[lagged] - truth)
    return HorizonErrors(*(np.sqrt((errors**2).mean(axis=0)) for errors in both))
