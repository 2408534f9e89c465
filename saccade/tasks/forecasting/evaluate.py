"""Forecast errors by horizon, and those of repeating the last value."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saccade.data.series_splits import SeriesSpan, SeriesSplit
from saccade.estimators.baselines import last_value
from saccade.inspection.figures import HorizonErrors
from saccade.models.forecasting import ForecastModel
from saccade.tasks.base import Evaluator
from saccade.tasks.forecasting.config import ForecastRecipe
from saccade.tasks.forecasting.data import HORIZONS, Standardizer
from saccade.tasks.forecasting.predict import ForecastPredictor
from saccade.types.arrays import FloatArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import Evaluation

MAX_FORECAST_VALUES = 5000  # values predicted in an evaluation


class ForecastEvaluator(Evaluator[SeriesSplit]):
    """Root mean squared errors 1, 4, 16 and 64 steps ahead, as far as the data allows."""

    headline = ("rmse_1", "rmse_16")

    def __init__(self, recipe: ForecastRecipe, model: ForecastModel, standardizer: Standardizer):
        self.recipe, self.standardizer = recipe, standardizer
        self.predictor = ForecastPredictor(recipe, model, standardizer)

    def evaluate(
        self,
        split: SeriesSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the error of each horizon in units of the data."""
        self.predictor.parse_options(options or {})
        spans = limit_spans(split, min(limit or MAX_FORECAST_VALUES, MAX_FORECAST_VALUES))
        horizon = max_horizon(spans, self.recipe.data.lags)
        found = [self.predictor.rolling_forecasts(*span, horizon) for span in spans]
        errors = horizon_errors(spans, found)
        count = sum(len(values) - start for values, start in spans)
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

    def floors(self, train: SeriesSplit, split: SeriesSplit) -> dict[str, dict[str, float]]:
        """Return the errors of repeating the last known value."""
        spans = limit_spans(split, MAX_FORECAST_VALUES)
        horizon = max_horizon(spans, self.recipe.data.lags)
        counts = [len(values) - start for values, start in spans]
        found = {}
        for k in HORIZONS:
            if k <= horizon:
                name = f"rmse_{k}"
                errors = [last_value(values, k, start).metrics[name] for values, start in spans]
                found[name] = pooled_rmse(errors, counts)
        return {"last value": found}


def limit_spans(split: SeriesSplit, limit: int) -> SeriesSplit:
    """Return the first values that are predicted, at most `limit` of all series."""
    spans = []
    for values, start in split:
        if limit > 0:
            spans.append(SeriesSpan(values[: start + limit], start))
            limit -= len(values) - start
    return tuple(spans)


def max_horizon(spans: SeriesSplit, lags: int) -> int:
    """Return the largest of `HORIZONS` for which every series has enough history before `start`."""
    start = min(span.start for span in spans)
    return max(k for k in HORIZONS if k == 1 or start - k + 1 >= lags)


def pooled_rmse(errors: Sequence[float], counts: Sequence[int]) -> float:
    """Return the root mean squared error of all values, from those of parts."""
    if len(errors) == 1:
        return errors[0]
    return float(np.sqrt(np.average(np.square(errors), weights=counts)))


def horizon_errors(spans: SeriesSplit, found: Sequence[FloatArray]) -> HorizonErrors:
    """Return the RMSE 1, 2, … steps ahead, and that of repeating the last known value."""
    model, naive = [], []
    for (values, start), predicted in zip(spans, found, strict=True):
        truth = values[start:, None]
        lagged = np.arange(start, len(values))[:, None] - np.arange(1, predicted.shape[1] + 1)
        model.append(predicted - truth)
        naive.append(values[lagged] - truth)
    both = (np.concatenate(errors) for errors in (model, naive))
    return HorizonErrors(*(np.sqrt((errors**2).mean(axis=0)) for errors in both))
