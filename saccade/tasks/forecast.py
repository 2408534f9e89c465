"""Forecasting: a series of numbers in, those that follow out.

The series is split by time: what is held out lies after what is learned from. A forecast k values
ahead is made by reading k − 1 answers of one's own as if they had been seen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from saccade.config import Config
from saccade.data.samplers import shuffled_batches
from saccade.data.time_series import TimeSeries, noisy_sine, read_series
from saccade.errors import ConfigError, DataError
from saccade.inspection.checks import CheckResult
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.forecasting import (
    FORECASTERS,
    AutoregressiveForecasterConfig,
    RecurrentForecasterConfig,
    rollout,
)
from saccade.plots.fits import HorizonErrors, PlotLine, save_forecasts
from saccade.registry import lookup
from saccade.tasks.network import TrainableTask
from saccade.tasks.numbers import (
    NumericPrediction,
    format_number,
    numeric_prediction,
    parse_number_list,
    reject_search_options,
)
from saccade.tasks.task import (
    Choice,
    Evaluation,
    Progress,
    TaskSpec,
    fingerprint_arrays,
    ignore_scratch_dir,
)
from saccade.training.config import TrainConfig
from saccade.training.loop import Loss

FloatArray = NDArray[np.float64]

FORECAST_MODELS = dict(FORECASTERS)
SYNTHETIC_SERIES = {"sine": noisy_sine}
HORIZONS = (1, 4, 16, 64)  # values ahead that are measured and drawn
MAX_HISTORY_VALUES = 1000  # values that are read before the first forecast
MAX_FORECAST_DEVIATIONS = 1e18  # deviations from the mean: float32 can still square them
MAX_FORECAST_VALUES = 5000  # values that are foretold in an evaluation


class SeriesConfig(Config):
    """Where a series comes from, and what is foretold of it."""

    synthetic: str | None = None  # the name of a series that is made on the spot
    path: str | None = None  # a file with one number a line, or a table
    column: str | int | None = None  # of a table, by name or number from 1
    length: int = Field(1000, ge=1)  # of a made series
    noise: float = Field(0.2, ge=0, allow_inf_nan=False)  # of a made series
    seed: int = 0  # of the noise
    lags: int = Field(4, ge=1)  # τ: the values that an autoregressive model looks back on
    horizon: int = Field(16, ge=1)  # values that are answered to a row of numbers
    dev_share: float = Field(0.1, gt=0, lt=1)
    test_share: float = Field(0.3, gt=0, lt=1)


class ForecastRecipe(Config):
    """A series in, a forecaster out."""

    task: Literal["forecast"] = "forecast"
    data: SeriesConfig = SeriesConfig()
    model: Annotated[
        AutoregressiveForecasterConfig | RecurrentForecasterConfig, Field(discriminator="name")
    ] = AutoregressiveForecasterConfig()
    train: TrainConfig = TrainConfig()


class Standardizer(NamedTuple):
    """What 0 and 1 are for a model: mean and standard deviation of what it has learned from."""

    mean: float
    deviation: float

    def transform(self, values: FloatArray) -> FloatArray:
        """As the model has them."""
        return (values - self.mean) / self.deviation

    def inverse_transform(self, values: FloatArray) -> FloatArray:
        """As the data has them."""
        return values * self.deviation + self.mean

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Standardizer":
        """As they were kept."""
        return Standardizer(**values)


def fit_standardizer(values: FloatArray) -> Standardizer:
    """Of a stretch to learn from; where all values are one, the deviation counts as 1."""
    return Standardizer(float(values.mean()), float(values.std()) or 1.0)


class SeriesSpan(NamedTuple):
    """Values in the order of time; those from `start` on are to be foretold."""

    values: FloatArray  # as the data has them
    start: int


@dataclass
class PreparedSeries:
    """The series of a recipe in its three stretches, and how the settings came about."""

    recipe: ForecastRecipe
    vocabulary: Standardizer
    train: FloatArray
    spans: dict[str, SeriesSpan]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fingerprint(self) -> str:
        """A short hash of the values to learn from."""
        return fingerprint_arrays(self.train)


def load_series(config: SeriesConfig) -> TimeSeries:
    """Make or read it."""
    if (config.synthetic is None) == (config.path is None):
        raise ConfigError(
            "a recipe for a series needs data.synthetic (a series that is always there) or data.path "
            f"(a file), and not both; it has made={config.synthetic!r} and path={config.path!r}."
        )
    if config.path is not None:
        return read_series(config.path, config.column)
    make = lookup(SYNTHETIC_SERIES, str(config.synthetic), "made series")
    return make(config.length, config.noise, seed=config.seed)


def prepare_series(
    recipe: ForecastRecipe,
    on_progress: Progress,
    standardizer: Standardizer | None = None,
    auto_model: bool = False,
) -> PreparedSeries:
    """Make or read the series and cut it by time.

    With `units`, those of a run that is there are kept.
    """
    data = recipe.data
    if data.dev_share + data.test_share >= 1:
        raise ConfigError(
            f"data.dev_share={data.dev_share} and data.test_share={data.test_share} leave nothing "
            "to learn from; they must be under 1 together."
        )
    series = load_series(data)
    count = len(series.values)
    learned, known = (
        round(count * (1 - share)) for share in (data.dev_share + data.test_share, data.test_share)
    )
    _check_length(recipe, series, learned, known)
    recipe, choices = _sized(recipe, learned)
    train = series.values[:learned]
    spans = {
        "train": SeriesSpan(train, min(learned - 1, data.lags)),
        "dev": SeriesSpan(series.values[:known], learned),
        "test": SeriesSpan(series.values, known),
    }
    notes = [
        f"{series.name}: {learned:,} values to learn from, then {known - learned:,} for dev and "
        f"{count - known:,} for test."
    ]
    return PreparedSeries(
        recipe, standardizer or fit_standardizer(train), train, spans, choices, notes
    )


def _check_length(recipe: ForecastRecipe, series: TimeSeries, learned: int, known: int) -> None:
    count, lags = len(series.values), recipe.data.lags
    if learned <= lags or known == learned or count == known:
        raise DataError(
            f"{series.name} has {count:,} values: {learned} to learn from, {known - learned} for "
            f"dev and {count - known} for test. Wanted more than data.lags={lags} of the first and "
            "1 or more of the others: give more values, or look back less."
        )


def _sized(recipe: ForecastRecipe, learned: int) -> tuple[ForecastRecipe, list[Choice]]:
    """The model's own settings that follow from the data."""
    model = recipe.model
    if isinstance(model, AutoregressiveForecasterConfig):
        values = model.model_dump(exclude_unset=True) | {"lags": recipe.data.lags}
        return recipe.with_values(model=values), []
    if model.window < learned:
        return recipe, []
    if "window" in model.model_fields_set:
        raise ConfigError(
            f"model.window is {model.window} and there are {learned} values to learn from; a row "
            f"of training is one value longer than the window: use {learned - 1} or less."
        )
    values = model.model_dump(exclude_unset=True) | {"window": learned - 1}
    reason = f"there are {learned} values to learn from"
    return recipe.with_values(model=values), [Choice("model.window", learned - 1, reason)]


class SeriesBatch(NamedTuple):
    """Rows of values, each one longer than what the model reads."""

    starts: NDArray[np.int64]
    values: Float[Tensor, "B T"]
    tokens: int  # answers that count


class ForecastTask(TrainableTask):
    """A model, the units it works in and, where they are needed, the stretches of a series."""

    def __init__(self, recipe: ForecastRecipe, standardizer: Standardizer):
        super().__init__(recipe, lambda: FORECAST_MODELS[recipe.model.name](recipe.model))
        self.standardizer = standardizer
        self.spans: dict[str, SeriesSpan] = {}
        self.train = np.zeros(0)

    def attach_data(self, prepared: PreparedSeries) -> None:
        """Hand over the data that training and evaluating need."""
        self.spans, self.train = dict(prepared.spans), prepared.train

    def load_split(self, path: str | Path) -> str:
        """A file with another series as a split; of its first values none is foretold."""
        values = read_series(path, self.recipe.data.column).values
        lags = self.recipe.data.lags
        if len(values) <= lags:
            raise DataError(
                f"{path} has {len(values)} value{'s' if len(values) > 1 else ''}; more than the "
                f"{lags} that are looked back on were wanted (data.lags)."
            )
        start = max(lags, min(lags + HORIZONS[-1] - 1, len(values) // 2))
        self.spans["given"] = SeriesSpan(values, start)
        return "given"

    def vocabulary_json(self) -> dict[str, Any]:
        """The units."""
        return self.standardizer._asdict()

    # --- training --------------------------------------------------------------------------

    def batches(self, split: str, start: int = 0) -> Iterator[SeriesBatch]:
        """Rows of the training stretch, without end; each begins where its number says."""
        model: Any = self.model
        rows, size = self._training_rows()
        each = model.input_length - model.first_scored
        for starts in shuffled_batches(len(rows), size, self.recipe.train.seed, start):
            yield SeriesBatch(starts, rows[torch.from_numpy(starts)], len(starts) * each)

    def batches_in_epoch(self) -> int:
        """How many batches have all the rows once."""
        rows, size = self._training_rows()
        return -(-len(rows) // size)

    def _training_rows(self) -> tuple[Float[Tensor, "N T"], int]:
        """All rows to learn from, and how many make a batch."""
        model: Any = self.model
        values = torch.from_numpy(self.standardizer.transform(self.train)).float()
        rows = values.unfold(0, model.input_length + 1, 1)
        each = model.input_length - model.first_scored
        return rows, max(1, min(len(rows), self.recipe.train.batch_tokens // each))

    def loss(self, batch: SeriesBatch) -> Loss:
        """Squared errors one value ahead, summed, in the model's units."""
        model: Any = self.model
        values = batch.values.to(self.device)
        expected, _ = model.step(values[:, :-1], model.init_state(len(values)))
        return Loss((expected - values[:, 1:])[:, model.first_scored :].square().sum())

    def describe_batch(self, batch: SeriesBatch) -> str:
        """Which values a batch begins with."""
        shown = ", ".join(str(start + 1) for start in batch.starts[:5])
        more = f" and {len(batch.starts) - 5} more" if len(batch.starts) > 5 else ""
        return f"{self.name}, rows that begin with value {shown}{more}"

    # --- forecasts -------------------------------------------------------------------------

    @torch.no_grad()
    def rolling_forecasts(self, values: FloatArray, start: int, horizon: int) -> FloatArray:
        """(N, ahead): each value from `start` on, foretold 1, 2, … values before it came.

        Row n is about the value at start + n, whichever column: so that the columns can be
        compared. The first of them are made from values before `start`.
        """
        model: Any = self.model
        model.eval()
        first = start - horizon + 1  # of the origins: an origin's own value is not known yet
        transform = torch.from_numpy(self.standardizer.transform(values)).float().to(self.device)
        read, state = model.step(
            transform[None, max(0, first - MAX_HISTORY_VALUES) : first], model.init_state(1)
        )
        expected, states = [read[0, -1:]], [state]
        for origin in range(first + 1, len(values)):
            read, state = model.step(transform[None, origin - 1 : origin], state)
            expected.append(read[0])
            states.append(state)
        rolled = (
            rollout(model, torch.cat(expected), torch.cat(states), horizon).double().cpu().numpy()
        )
        places = np.arange(len(values) - start)[:, None] + horizon - 1
        steps = np.arange(horizon)
        return self.standardizer.inverse_transform(rolled[places - steps, steps])

    @torch.no_grad()
    def forecast(self, values: FloatArray, horizon: int) -> FloatArray:
        """(ahead,): what follows a row of values, each answer read as if it had been seen."""
        model: Any = self.model
        model.eval()
        transform = torch.from_numpy(self.standardizer.transform(values)).float().to(self.device)
        read, state = model.step(transform[None], model.init_state(1))
        rolled = rollout(model, read[:, -1], state, horizon)[0]
        return self.standardizer.inverse_transform(rolled.double().cpu().numpy())

    def max_horizon(self, start: int) -> int:
        """How many values ahead can be measured: of those of `AHEAD`, as the values allow."""
        return max(k for k in HORIZONS if k == 1 or start - k + 1 >= self.recipe.data.lags)

    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """Errors 1, 4, 16 and 64 values ahead, as far as the data allows."""
        reject_search_options(self.recipe.task, {"beam": beam})
        values, start = self.spans[split]
        values = values[: start + min(limit or MAX_FORECAST_VALUES, MAX_FORECAST_VALUES)]
        growth = error_growth(
            values, start, self.rolling_forecasts(values, start, self.max_horizon(start))
        )
        count = len(values) - start
        on_progress(count)
        figures = {"loss": float((growth.errors[0] / self.standardizer.deviation) ** 2)}
        conventions = {"loss": "mean squared error 1 ahead over the variance learned from"}
        for k in HORIZONS:
            if k > len(growth.errors):
                break
            figures[f"rmse_{k}"] = float(growth.errors[k - 1])
            figures[f"naive_rmse_{k}"] = float(growth.naive[k - 1])
            own = "" if k == 1 else f", reading {k - 1} of its own answers"
            conventions[f"rmse_{k}"] = f"{k} ahead{own}, in units of the data"
            conventions[f"naive_rmse_{k}"] = f"the value {k} before taken for the answer"
        return {**figures, "examples": float(count)}, conventions

    # --- answers ---------------------------------------------------------------------------

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        **how: Any,
    ) -> list[NumericPrediction]:
        """The values that follow each row of numbers, as many as `data.horizon` says."""
        reject_search_options(self.recipe.task, how)
        data = self.recipe.data
        least = data.lags if self.recipe.model.name == "autoregressive" else 1
        answers = []
        for number, text in enumerate(texts, first):
            values = parse_number_list(
                text, number, 'numbers with spaces between, such as "0.1 0.2"'
            )
            if len(values) < least:
                raise DataError(
                    f"input {number} has {len(values)} number{'s' if len(values) > 1 else ''}; "
                    f"this model looks back on {least}: give {least} or more, the newest last."
                )
            if (
                np.abs(self.standardizer.transform(np.array(values))).max()
                > MAX_FORECAST_DEVIATIONS
            ):
                raise DataError(
                    f"input {number} has a number beyond all reason for this model, whose values "
                    f"lie around {self.standardizer.mean:g} ± {self.standardizer.deviation:g}. Mend it."
                )
            found = self.forecast(np.array(values), data.horizon).tolist()
            answers.append(numeric_prediction(found, self.standardizer.deviation))
            on_progress(1)
        return answers

    def example_input(self) -> str:
        """Some held-out values, to show how a run is asked."""
        values, start = self.spans["test"]
        count = max(self.recipe.data.lags, 4)
        places = np.flatnonzero(values[: len(values) - count] >= 0)
        after = places[places >= start - count]
        at = int(after[0]) if len(after) else max(start - count, 0)
        row = values[at : at + count].tolist()
        text = " ".join(format_number(value, self.standardizer.deviation) for value in row)
        return text if not text.startswith("-") else f" {text}"  # no option of a command line

    def save_plots(self, folder: Path) -> list[str]:
        """The series, forecasts over the held-out time, and how their error grows."""
        values, start = self.spans["test"]
        values = values[: start + MAX_FORECAST_VALUES]
        times = np.arange(1, len(values) + 1, dtype=np.float64)
        found = self.rolling_forecasts(values, start, self.max_horizon(start))
        lines = {
            k: PlotLine(f"{k} ahead", times[start:], found[:, k - 1])
            for k in HORIZONS
            if k <= found.shape[1]
        }
        alone = self.forecast(
            values[max(0, start - MAX_HISTORY_VALUES) : start], len(values) - start
        )
        free = PlotLine("all the way", times[start:], alone)
        back = max(0, start - 2 * (len(values) - start))
        series = PlotLine(self.name, times[back:], values[back:])
        growth = error_growth(values, start, found)
        save_forecasts(series, lines, free, growth, folder / "forecast.png")
        return []

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[CheckResult]:
        """Try every law on this very model, with rows spread evenly over a stretch."""
        self.model.eval()
        yield from self._findings(self._rows(split, count))

    @torch.no_grad()
    def _findings(self, rows: Float[Tensor, "B T"]) -> list[CheckResult]:
        model: Any = self.model
        together, _ = model.step(rows, model.init_state(len(rows)))
        alone = torch.cat([model.step(row[None], model.init_state(1))[0] for row in rows])
        state, steps = model.init_state(len(rows)), []
        for column in rows.unbind(dim=1):
            answers, state = model.step(column[:, None], state)
            steps.append(answers)
        return [
            _finding("neighbours change nothing", [(together, alone)]),
            _finding("the future is not seen", self._changed(rows, together)),
            _finding("step by step equals all at once", [(together, torch.cat(steps, dim=1))]),
        ]

    def _changed(self, rows: Tensor, before: Tensor) -> list[tuple[Tensor, Tensor]]:
        """What was expected before a value, and what is when it and all later ones are others."""
        model: Any = self.model
        pairs = []
        for t in range(1, rows.shape[1]):
            changed = torch.cat([rows[:, :t], rows[:, t:] + 1.0], dim=1)
            after, _ = model.step(changed, model.init_state(len(rows)))
            pairs.append((before[:, :t], after[:, :t]))
        return pairs or [(before[:, :0], before[:, :0])]

    @torch.no_grad()
    def compare_reloaded(self, other: Any, split: str, count: int) -> CheckResult:
        """Whether the same task, saved and reopened, expects the same."""
        rows = self._rows(split, count)
        models: list[Any] = [self.model, other.model]
        one, two = (model.step(rows, model.init_state(len(rows)))[0] for model in models)
        return _finding("saved and reopened agree", [(one, two)])

    def _rows(self, split: str, count: int) -> Float[Tensor, "B T"]:
        values, start = self.spans[split]
        transform = torch.from_numpy(self.standardizer.transform(values)).float().to(self.device)
        length = min(32, len(values) - start + self.recipe.data.lags, len(values))
        first = min(start - self.recipe.data.lags, len(values) - length)
        places = np.unique(np.linspace(max(first, 0), len(values) - length, count).astype(np.int64))
        return transform.unfold(0, length, 1)[torch.from_numpy(places)]


def error_growth(values: FloatArray, start: int, found: FloatArray) -> HorizonErrors:
    """The error 1, 2, … values ahead, and that of taking the value so many before."""
    wanted = values[start:, None]
    places = np.arange(start, len(values))[:, None] - np.arange(1, found.shape[1] + 1)
    both = (found - wanted, values[places] - wanted)
    return HorizonErrors(*(np.sqrt((errors**2).mean(axis=0)) for errors in both))


def _finding(invariant: str, pairs: list[tuple[Tensor, Tensor]]) -> CheckResult:
    worst = [float((one - other).abs().max()) for one, other in pairs if one.numel()]
    difference = float(np.max(worst)) if worst else 0.0  # of NaN numpy makes NaN
    return CheckResult(invariant, len(pairs[0][0]), difference, LOGIT_TOLERANCE[pairs[0][0].dtype])


FORECAST = TaskSpec(
    ForecastRecipe,
    FORECAST_MODELS,
    SYNTHETIC_SERIES,
    {},
    ignore_scratch_dir(prepare_series),
    ForecastTask,
    Standardizer.from_json,
    transferable_data_settings=("lags",),
)
