"""Time series, divided and standardised: held-out values lie after the training values."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import FiniteFloat

from saccade.data.series_splits import SeriesSplit, divide_series, group_series, own_span
from saccade.data.source import SyntheticSource, resolve_source
from saccade.data.splits import SPLIT_NAMES
from saccade.data.time_series import SYNTHETIC_SERIES, LoadedSeries, load_series_records
from saccade.errors import ConfigError, DataError
from saccade.io.documents import PositiveNumber, parse_structure
from saccade.models.config import RecurrentForecasterConfig
from saccade.tasks.base import (
    Choice,
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.forecasting.config import ForecastRecipe, SeriesConfig
from saccade.types.arrays import FloatArray

HORIZONS = (1, 4, 16, 64)  # steps ahead that are evaluated and plotted


class Standardizer(NamedTuple):
    """Mean and standard deviation of the training values."""

    mean: FiniteFloat
    deviation: PositiveNumber

    def transform(self, values: FloatArray) -> FloatArray:
        """Return (values - mean) / deviation."""
        return (values - self.mean) / self.deviation

    def inverse_transform(self, values: FloatArray) -> FloatArray:
        """Return values in units of the data."""
        return values * self.deviation + self.mean

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return self._asdict()

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Standardizer":
        """Rebuild a standardiser from plain values."""
        found: Standardizer = parse_structure(Standardizer, values)
        return found


def fit_standardizer(values: FloatArray) -> Standardizer:
    """Fit mean and deviation; the deviation of constant values is taken as 1."""
    return Standardizer(float(values.mean()), float(values.std()) or 1.0)


PreparedSeries = PreparedData[ForecastRecipe, Standardizer, SeriesSplit]


def load_series(config: SeriesConfig) -> LoadedSeries:
    """Generate or read the series."""
    source = resolve_source(config, SYNTHETIC_SERIES, what="series")
    if isinstance(source, SyntheticSource):
        return LoadedSeries(source.generate(config.length, config.noise, seed=config.seed), {}, [])
    return load_series_records(source.name, config)


def prepare_series(recipe: ForecastRecipe, context: PrepareContext[Standardizer]) -> PreparedSeries:
    """Read the series and split it by time; a given standardiser is kept."""
    data = recipe.data
    if data.dev_share + data.test_share >= 1:
        raise ConfigError(
            f"got data.dev_share={data.dev_share} and data.test_share={data.test_share}, which "
            "leave nothing to train on; expected less than 1 together."
        )
    loaded = load_series(data)
    recipe = recipe.with_values(data=data.model_dump(exclude_unset=True) | loaded.columns)
    data = recipe.data
    given = {
        name: load_series_records(path, data, is_other=True)
        for name in SPLIT_NAMES[1:]
        if (path := getattr(data, name)) is not None
    }
    splits, notes = divide_series(loaded, given, data, data.lags)
    train = [span.values for span in splits["train"]]
    recipe, choices = _with_sizes(recipe, min(map(len, train)))
    standardizer = context.preprocessor or fit_standardizer(np.concatenate(train))
    return PreparedData(
        recipe,
        standardizer,
        splits,
        lambda: fingerprint_arrays(*train),
        role_choices(loaded.choices) + choices,
        notes,
    )


def _with_sizes(recipe: ForecastRecipe, shortest: int) -> tuple[ForecastRecipe, list[Choice]]:
    """Set the model's sizes that follow from the data, by the shortest training series."""
    model = recipe.model
    if "lags" in type(model).model_fields:
        values = model.model_dump(exclude_unset=True) | {"lags": recipe.data.lags}
        return recipe.with_values(model=values), []
    if not isinstance(model, RecurrentForecasterConfig) or model.window < shortest:
        return recipe, []
    if "window" in model.model_fields_set:
        raise ConfigError(
            f"got model.window={model.window} with {shortest} training values; a training row is "
            f"one value longer than the window; try {shortest - 1} or less."
        )
    values = model.model_dump(exclude_unset=True) | {"window": shortest - 1}
    reason = f"there are {shortest} training values"
    return recipe.with_values(model=values), [Choice("model.window", shortest - 1, reason)]


def load_series_split(
    recipe: ForecastRecipe, standardizer: Standardizer, data: str | Path | object
) -> SeriesSplit:
    """Read another series, or several; their first values are context and are not predicted."""
    lags = recipe.data.lags
    loaded = load_series_records(data, recipe.data, is_other=True)
    if loaded.cells is not None:
        values = group_series(loaded, recipe.data, lags).values()
        return tuple(own_span(some, lags) for some in values)
    count = len(loaded.series.values)
    if count <= lags:
        raise DataError(
            f"got {count} value{'s' if count > 1 else ''} in {loaded.series.name}; expected "
            f"more than data.lags={lags}."
        )
    return (own_span(loaded.series.values, lags),)
