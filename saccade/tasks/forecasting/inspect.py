"""Figures and invariance checks of a forecaster."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.series_splits import SeriesSplit
from saccade.errors import ConfigError
from saccade.inspection.attribution import Attribution
from saccade.inspection.checks import CheckResult
from saccade.inspection.figures import Figure, ForecastCurves, PlotLine
from saccade.inspection.integrated_gradients import integrated_gradients
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.forecasting import ForecastModel
from saccade.tasks.base import Inspector
from saccade.tasks.forecasting.config import ForecastRecipe
from saccade.tasks.forecasting.data import HORIZONS, Standardizer
from saccade.tasks.forecasting.evaluate import (
    MAX_FORECAST_VALUES,
    horizon_errors,
    limit_spans,
    max_horizon,
)
from saccade.tasks.forecasting.predict import MAX_HISTORY_VALUES, ForecastPredictor
from saccade.tasks.neural import device_of
from saccade.tasks.numbers import format_number

Pair = tuple[Tensor, Tensor]
MAX_ATTRIBUTED_VALUES = 64  # of the last values


class ForecastInspector(Inspector[SeriesSplit]):
    """Shows forecasts over the held-out time, and checks a forecaster's invariances."""

    def __init__(self, recipe: ForecastRecipe, model: ForecastModel, standardizer: Standardizer):
        self.recipe, self.model, self.standardizer = recipe, model, standardizer
        self.predictor = ForecastPredictor(recipe, model, standardizer)
        is_linear = recipe.model.model_dump().get("hidden", 0) is None
        self.attribution_methods = (
            ("contributions",) if is_linear else ("integrated_gradients", "occlusion")
        )

    def example_input(self, split: SeriesSplit) -> str:
        """Return some held-out values."""
        values, start = split[0]
        count = max(self.recipe.data.lags, 4)
        candidates = np.flatnonzero(values[: len(values) - count] >= 0)
        after = candidates[candidates >= start - count]
        first = int(after[0]) if len(after) else max(start - count, 0)
        row = values[first : first + count].tolist()
        text = " ".join(format_number(value, self.standardizer.deviation) for value in row)
        return text if not text.startswith("-") else f" {text}"  # not an option of a command

    def views(self) -> dict[str, str]:
        """Return the contributions of the past values."""
        return {"VALUES": "the contribution of each past value to the next one"}

    @torch.no_grad()
    def attributions(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> Attribution:
        """Return the contribution of each of the last values to the next one.

        A value is left out by replacing it with the training mean.
        """
        if output is not None:
            raise ConfigError(f"got {output!r} as the answer; a forecast is explained as it is.")
        method = method or self.attribution_methods[0]
        values = self.predictor.parse_values(self.predictor.parse(raw, 1), 1)
        limit = min(len(values), max(self.model.input_length, 1), MAX_ATTRIBUTED_VALUES)
        values = values[len(values) - limit :]
        model, deviation = self.model.eval(), self.standardizer.deviation
        row = torch.from_numpy(self.standardizer.transform(values)).float()
        row = row.to(device_of(model))

        def next_value(rows: Tensor) -> Tensor:
            return model.step(rows, model.init_state(len(rows)))[0][:, -1] * deviation

        occluded = row.expand(limit, -1) * (1 - torch.eye(limit, device=row.device))
        both = next_value(torch.stack([row, torch.zeros_like(row)]))
        if method == "integrated_gradients":
            scores = integrated_gradients(next_value, row, torch.zeros_like(row))
        else:  # of a linear model, the exact term of each value
            scores = both[0] - next_value(occluded)
        mean = self.standardizer.mean
        return Attribution(
            parts=[f"t-{age}" if age else "t" for age in range(limit - 1, -1, -1)],
            scores=scores.double().cpu().numpy(),
            output="next value",
            method=method,
            value=float(both[0]) + mean,
            base=float(both[1]) + mean,
            unit="units of the series",
            cells=[format_number(value, deviation) for value in values.tolist()],
            baseline=f"the training mean, {mean:.4g}",
        )

    def figures(self, splits: Mapping[str, SeriesSplit]) -> dict[str, Figure]:
        """Return the (first) series with its forecasts, and the error by horizon."""
        [span] = limit_spans(splits["test"][:1], MAX_FORECAST_VALUES)
        values, start = span
        times = np.arange(1, len(values) + 1, dtype=np.float64)
        horizon = max_horizon((span,), self.recipe.data.lags)
        found = self.predictor.rolling_forecasts(values, start, horizon)
        lines = {
            k: PlotLine(f"{k} ahead", times[start:], found[:, k - 1])
            for k in HORIZONS
            if k <= found.shape[1]
        }
        history = values[max(0, start - MAX_HISTORY_VALUES) : start]
        free_running = self.predictor.forecast(history, len(values) - start)
        free = PlotLine("rollout: reads its own predictions", times[start:], free_running)
        first = max(0, start - 2 * (len(values) - start))
        series = PlotLine(self.recipe.data_name, times[first:], values[first:])
        errors = horizon_errors((span,), [found])
        return {"forecast.png": ForecastCurves(series, lines, free, errors)}

    @torch.no_grad()
    def checks(self, split: SeriesSplit, count: int) -> Iterator[CheckResult]:
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
    def compare_reloaded(self, other: ForecastModel, split: SeriesSplit, count: int) -> CheckResult:
        """Check that the reloaded model predicts the same."""
        rows = self._rows(split, count)
        one, two = (
            model.step(rows, model.init_state(len(rows)))[0] for model in (self.model, other)
        )
        return _compare("reload consistency", [(one, two)])

    def _rows(self, split: SeriesSplit, count: int) -> Float[Tensor, "B T"]:
        values, start = split[0]
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
