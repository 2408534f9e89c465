"""Figures and invariance checks of a forecaster."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.inspection.checks import CheckResult
from saccade.inspection.figures import Figure, ForecastCurves, PlotLine
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.forecasting import ForecastModel
from saccade.tasks.base import Inspector
from saccade.tasks.forecasting.config import ForecastRecipe
from saccade.tasks.forecasting.data import HORIZONS, SeriesSpan, Standardizer
from saccade.tasks.forecasting.evaluate import (
    MAX_FORECAST_VALUES,
    horizon_errors,
    max_horizon,
)
from saccade.tasks.forecasting.predict import MAX_HISTORY_VALUES, ForecastPredictor
from saccade.tasks.neural import device_of
from saccade.tasks.numbers import format_number

Pair = tuple[Tensor, Tensor]


class ForecastInspector(Inspector[SeriesSpan]):
    """Shows forecasts over the held-out time, and checks a forecaster's invariances."""

    def __init__(self, recipe: ForecastRecipe, model: ForecastModel, standardizer: Standardizer):
        self.recipe, self.model, self.standardizer = recipe, model, standardizer
        self.predictor = ForecastPredictor(recipe, model, standardizer)

    def example_input(self, split: SeriesSpan) -> str:
        """Return some held-out values."""
        values, start = split
        count = max(self.recipe.data.lags, 4)
        candidates = np.flatnonzero(values[: len(values) - count] >= 0)
        after = candidates[candidates >= start - count]
        first = int(after[0]) if len(after) else max(start - count, 0)
        row = values[first : first + count].tolist()
        text = " ".join(format_number(value, self.standardizer.deviation) for value in row)
        return text if not text.startswith("-") else f" {text}"  # not an option of a command

    def figures(self, splits: Mapping[str, SeriesSpan]) -> dict[str, Figure]:
        """Return the series with its forecasts, and the error by horizon."""
        values, start = splits["test"]
        values = values[: start + MAX_FORECAST_VALUES]
        times = np.arange(1, len(values) + 1, dtype=np.float64)
        horizon = max_horizon(start, self.recipe.data.lags)
        found = self.predictor.rolling_forecasts(values, start, horizon)
        lines = {
            k: PlotLine(f"{k} ahead", times[start:], found[:, k - 1])
            for k in HORIZONS
            if k <= found.shape[1]
        }
        history = values[max(0, start - MAX_HISTORY_VALUES) : start]
        free_running = self.predictor.forecast(history, len(values) - start)
        free = PlotLine("all the way", times[start:], free_running)
        first = max(0, start - 2 * (len(values) - start))
        series = PlotLine(self.recipe.data_name, times[first:], values[first:])
        errors = horizon_errors(values, start, found)
        return {"forecast.png": ForecastCurves(series, lines, free, errors)}

    @torch.no_grad()
    def checks(self, split: SeriesSpan, count: int) -> Iterator[CheckResult]:
        """Check batch invariance, causality and step-by-step prediction."""
        self.model.eval()
        rows = self._rows(split, count)
        together, _ = self.model.step(rows, self.model.init_state(len(rows)))
        single = torch.cat(
            [self.model.step(row[None], self.model.init_state(1))[0] for row in rows]
        )
        state, steps = self.model.init_state(len(rows)), []
        for column in rows.unbind(dim=1):
            step, state = self.model.step(column[:, None], state)
            steps.append(step)
        yield _compare("batch invariance", [(together, single)])
        yield _compare("causality", self._with_changed_future(rows, together))
        yield _compare("cache consistency", [(together, torch.cat(steps, dim=1))])

    def _with_changed_future(self, rows: Tensor, before: Tensor) -> list[Pair]:
        """Return predictions up to a time, and those when all later values are changed."""
        pairs = []
        for t in range(1, rows.shape[1]):
            changed = torch.cat([rows[:, :t], rows[:, t:] + 1.0], dim=1)
            after, _ = self.model.step(changed, self.model.init_state(len(rows)))
            pairs.append((before[:, :t], after[:, :t]))
        return pairs or [(before[:, :0], before[:, :0])]

    @torch.no_grad()
    def compare_reloaded(self, other: ForecastModel, split: SeriesSpan, count: int) -> CheckResult:
        """Check that the reloaded model predicts the same."""
        rows = self._rows(split, count)
        one, two = (
            model.step(rows, model.init_state(len(rows)))[0] for model in (self.model, other)
        )
        return _compare("reload consistency", [(one, two)])

    def _rows(self, split: SeriesSpan, count: int) -> Float[Tensor, "B T"]:
        values, start = split
        scaled = torch.from_numpy(self.standardizer.transform(values)).float()
        scaled = scaled.to(device_of(self.model))
        lags = self.recipe.data.lags
        length = min(32, len(values) - start + lags, len(values))
        first = max(min(start - lags, len(values) - length), 0)
        starts = np.unique(np.linspace(first, len(values) - length, count).astype(np.int64))
        return scaled.unfold(0, length, 1)[torch.from_numpy(starts)]


def _compare(invariant: str, pairs: list[Pair]) -> CheckResult:
    worst = [float((one - other).detach().abs().max()) for one, other in pairs if one.numel()]
    difference = float(np.max(worst)) if worst else 0.0  # NaN stays NaN
    return CheckResult(invariant, len(pairs[0][0]), difference, LOGIT_TOLERANCE[pairs[0][0].dtype])
