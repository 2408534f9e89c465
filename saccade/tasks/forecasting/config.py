"""Settings of the forecasting task."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.source import SourceConfig
from saccade.models.choice import ModelChoice
from saccade.models.config import AutoregressiveForecasterConfig
from saccade.models.registry import FORECASTING_MODELS
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig


class SeriesConfig(SourceConfig):
    """Source of a time series, its split by time, and the forecast horizon."""

    RENAMED: ClassVar[Mapping[str, str]] = {"column": "target"}

    target: str | int | None = None
    """Column of the values, by name or by position from 1; inferred if not set."""
    time: str | int | None = None
    """Column by which the values are sorted; the order of the file if not set."""
    length: int = Field(1000, ge=1)
    """Number of values of a synthetic series."""
    noise: float = Field(0.2, ge=0, allow_inf_nan=False)
    """Standard deviation of the noise of a synthetic series."""
    seed: int = 0
    """Random seed of the noise."""
    lags: int = Field(4, ge=1)
    """τ: number of past values that an autoregressive model depends on."""
    horizon: int = Field(16, ge=1)
    """Number of values predicted for an input."""
    dev_share: float = Field(0.1, gt=0, lt=1)
    """Share of the values held out for dev, before those of test."""
    test_share: float = Field(0.3, gt=0, lt=1)
    """Share of the values held out for test, the last ones."""


class ForecastRecipe(Recipe):
    """Train a forecaster on a time series."""

    task: Literal["forecast"] = "forecast"
    data: SeriesConfig = SeriesConfig()
    model: Annotated[Config, ModelChoice(FORECASTING_MODELS)] = AutoregressiveForecasterConfig()
    train: TrainConfig = TrainConfig()
