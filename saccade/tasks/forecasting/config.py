"""Settings of the forecasting task."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from saccade.config import Config
from saccade.data.source import SourceConfig
from saccade.data.splits import SplitConfig
from saccade.models.choice import ModelChoice
from saccade.models.config import AutoregressiveForecasterConfig
from saccade.models.registry import FORECASTING_MODELS
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.types.limits import MAX_LENGTH, MAX_SEED, MAX_VALUE


class SeriesConfig(SplitConfig, SourceConfig):
    """Source of a time series, its split by time, and the forecast horizon."""

    RENAMED: ClassVar[Mapping[str, str]] = {"column": "target"}
    WAYS: ClassVar[tuple[str, ...]] = ("split_column", "group_by")  # always in the order of time
    REFUSED: ClassVar[Mapping[str, str]] = {
        "stratify": "a series has no classes, and its last values are held out; try without it"
    }

    target: str | int | None = None
    """Column of the values, by name or by position from 1; inferred if not set."""
    time: str | None = None
    """Column by which the values are sorted; the order of the file if not set."""
    dev: str | None = None
    """File with the values that follow the training values; needs data.test."""
    test: str | None = None
    """File with the values that follow those of training and dev."""
    split_column: str | None = None
    """Column with the split of each value: train, then dev (or validation), then test."""
    group_by: tuple[str, ...] = ()
    """Columns that name the series of each row; whole series are held out."""
    stratify: bool = False
    """Refused: a series has no classes."""
    length: int = Field(1000, ge=1, le=MAX_LENGTH)
    """Number of values of a synthetic series."""
    noise: float = Field(0.2, ge=0, le=MAX_VALUE)
    """Standard deviation of the noise of a synthetic series."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """Random seed of the noise."""
    lags: int = Field(4, ge=1, le=MAX_LENGTH)
    """τ: number of past values that an autoregressive model depends on."""
    horizon: int = Field(16, ge=1, le=MAX_LENGTH)
    """Number of values predicted for an input."""
    dev_share: float = Field(0.1, gt=0, lt=1)
    """Share of the values held out for dev, before those of test."""
    test_share: float = Field(0.3, gt=0, lt=1)
    """Share of the values held out for test, the last ones."""

    @field_validator("time", mode="before")
    @classmethod
    def _name(cls, value: Any) -> Any:
        """Accept a position as a number."""
        return str(value) if isinstance(value, int) else value

    @model_validator(mode="after")
    def _files_in_order(self) -> "SeriesConfig":
        if self.dev and not self.test:
            raise ValueError(
                "got data.dev without data.test; the values after those of dev are test; try "
                "data.test=FILE too, or data.test alone, which holds out the last training values "
                "for dev"
            )
        if self.group_by and self.test:
            raise ValueError(
                "got data.group_by and data.test; a file of values that follow is of one series; "
                "expected one of them"
            )
        return self


class ForecastRecipe(Recipe):
    """Train a forecaster on a time series."""

    task: Literal["forecast"] = "forecast"
    data: SeriesConfig = SeriesConfig()
    model: Annotated[Config, ModelChoice(FORECASTING_MODELS)] = AutoregressiveForecasterConfig()
    train: TrainConfig = TrainConfig()
