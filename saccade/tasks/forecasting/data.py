"""A time series, split by time and standardised: held-out values lie after the training values."""

from pathlib import Path
from typing import Any, NamedTuple

from saccade.data.source import SyntheticSource, resolve_source
from saccade.data.time_series import (
    SYNTHETIC_SERIES,
    LoadedSeries,
    TimeSeries,
    load_series_records,
)
from saccade.errors import ConfigError, DataError
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

    mean: float
    deviation: float

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
        return Standardizer(**values)


def fit_standardizer(values: FloatArray) -> Standardizer:
    """Fit mean and deviation; the deviation of constant values is taken as 1."""
    return Standardizer(float(values.mean()), float(values.std()) or 1.0)


class SeriesSpan(NamedTuple):
    """Values in order of time; those from `start` on are to be predicted."""

    values: FloatArray  # in units of the data
    start: int


PreparedSeries = PreparedData[ForecastRecipe, Standardizer, SeriesSpan]


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
    series, columns, inferred = load_series(data)
    recipe = recipe.with_values(data=data.model_dump(exclude_unset=True) | columns)
    count = len(series.values)
    train_end, dev_end = (
        round(count * (1 - share)) for share in (data.dev_share + data.test_share, data.test_share)
    )
    _check_length(recipe, series, train_end, dev_end)
    recipe, choices = _with_sizes(recipe, train_end)
    train = series.values[:train_end]
    splits = {
        "train": SeriesSpan(train, min(train_end - 1, data.lags)),
        "dev": SeriesSpan(series.values[:dev_end], train_end),
        "test": SeriesSpan(series.values, dev_end),
    }
    note = (
        f"{series.name}: {train_end:,} values for training, then {dev_end - train_end:,} for dev "
        f"and {count - dev_end:,} for test."
    )
    standardizer = context.preprocessor or fit_standardizer(train)
    return PreparedData(
        recipe,
        standardizer,
        splits,
        lambda: fingerprint_arrays(train),
        role_choices(inferred) + choices,
        [note],
    )


def _check_length(recipe: ForecastRecipe, series: TimeSeries, train_end: int, dev_end: int) -> None:
    count, lags = len(series.values), recipe.data.lags
    if train_end <= lags or dev_end == train_end or count == dev_end:
        raise DataError(
            f"got {count:,} values in {series.name}: {train_end} for training, "
            f"{dev_end - train_end} for dev and {count - dev_end} for test; expected more than "
            f"data.lags={lags} for training and 1 or more for the others; try a longer series, or "
            "fewer lags."
        )


def _with_sizes(recipe: ForecastRecipe, train_end: int) -> tuple[ForecastRecipe, list[Choice]]:
    """Set the model's sizes that follow from the data."""
    model = recipe.model
    if "lags" in type(model).model_fields:
        values = model.model_dump(exclude_unset=True) | {"lags": recipe.data.lags}
        return recipe.with_values(model=values), []
    if not isinstance(model, RecurrentForecasterConfig) or model.window < train_end:
        return recipe, []
    if "window" in model.model_fields_set:
        raise ConfigError(
            f"got model.window={model.window} with {train_end} training values; a training row is "
            f"one value longer than the window; try {train_end - 1} or less."
        )
    values = model.model_dump(exclude_unset=True) | {"window": train_end - 1}
    reason = f"there are {train_end} training values"
    return recipe.with_values(model=values), [Choice("model.window", train_end - 1, reason)]


def load_span(
    recipe: ForecastRecipe, standardizer: Standardizer, data: str | Path | object
) -> SeriesSpan:
    """Read another series; its first values are context and are not predicted."""
    series = load_series_records(data, recipe.data, is_other=True).series
    values = series.values
    lags = recipe.data.lags
    if len(values) <= lags:
        raise DataError(
            f"got {len(values)} value{'s' if len(values) > 1 else ''} in {series.name}; expected "
            f"more than data.lags={lags}."
        )
    return SeriesSpan(values, max(lags, min(lags + HORIZONS[-1] - 1, len(values) // 2)))
