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
from saccade.data.rows import shuffled
from saccade.data.series import Series, noisy_sine, read_series
from saccade.errors import ConfigError, DataError
from saccade.look.draw_fits import Growth, Line, save_forecasts
from saccade.look.finding import Finding
from saccade.look.laws import TOLERANCE
from saccade.lookup import pick
from saccade.models.forecasters import FORECASTERS, AutoregressiveConfig, LatentConfig, roll
from saccade.tasks.network import Network
from saccade.tasks.numbers import Numbers, answer_of, numbers_in, refuse_search, spelt
from saccade.tasks.task import Choice, Kind, Progress, Scored, anywhere, print_of
from saccade.training.loop import Loss
from saccade.training.settings import TrainConfig

Floats = NDArray[np.float64]

MODELS = dict(FORECASTERS)
SERIES = {"sine": noisy_sine}
AHEAD = (1, 4, 16, 64)  # values ahead that are measured and drawn
HISTORY = 1000  # values that are read before the first forecast
FARTHEST = 1e18  # deviations from the mean: float32 can still square them
MOST = 5000  # values that are foretold in an evaluation


class SeriesConfig(Config):
    """Where a series comes from, and what is foretold of it."""

    made: str | None = None  # the name of a series that is made on the spot
    path: str | None = None  # a file with one number a line, or a table
    column: str | int | None = None  # of a table, by name or number from 1
    length: int = Field(1000, ge=1)  # of a made series
    noise: float = Field(0.2, ge=0, allow_inf_nan=False)  # of a made series
    seed: int = 0  # of the noise
    past: int = Field(4, ge=1)  # τ: the values that an autoregressive model looks back on
    ahead: int = Field(16, ge=1)  # values that are answered to a row of numbers
    dev_share: float = Field(0.1, gt=0, lt=1)
    test_share: float = Field(0.3, gt=0, lt=1)


class ForecastRecipe(Config):
    """A series in, a forecaster out."""

    task: Literal["forecast"] = "forecast"
    data: SeriesConfig = SeriesConfig()
    model: Annotated[AutoregressiveConfig | LatentConfig, Field(discriminator="name")] = (
        AutoregressiveConfig()
    )
    train: TrainConfig = TrainConfig()


class Units(NamedTuple):
    """What 0 and 1 are for a model: mean and standard deviation of what it has learned from."""

    mean: float
    deviation: float

    def inside(self, values: Floats) -> Floats:
        """As the model has them."""
        return (values - self.mean) / self.deviation

    def outside(self, values: Floats) -> Floats:
        """As the data has them."""
        return values * self.deviation + self.mean

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Units":
        """As they were kept."""
        return Units(**values)


def units_of(values: Floats) -> Units:
    """Of a stretch to learn from; where all values are one, the deviation counts as 1."""
    return Units(float(values.mean()), float(values.std()) or 1.0)


class Stretch(NamedTuple):
    """Values in the order of time; those from `start` on are to be foretold."""

    values: Floats  # as the data has them
    start: int


@dataclass
class PreparedSeries:
    """The series of a recipe in its three stretches, and how the settings came about."""

    recipe: ForecastRecipe
    vocabulary: Units
    train: Floats
    stretches: dict[str, Stretch]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self) -> str:
        """A short hash of the values to learn from."""
        return print_of(self.train)


def load_series(config: SeriesConfig) -> Series:
    """Make or read it."""
    if (config.made is None) == (config.path is None):
        raise ConfigError(
            "a recipe for a series needs data.made (a series that is always there) or data.path "
            f"(a file), and not both; it has made={config.made!r} and path={config.path!r}."
        )
    if config.path is not None:
        return read_series(config.path, config.column)
    make = pick(SERIES, str(config.made), "made series")
    return make(config.length, config.noise, seed=config.seed)


def prepare(
    recipe: ForecastRecipe, tell: Progress, units: Units | None = None, name_model: bool = False
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
    stretches = {
        "train": Stretch(train, min(learned - 1, data.past)),
        "dev": Stretch(series.values[:known], learned),
        "test": Stretch(series.values, known),
    }
    notes = [
        f"{series.name}: {learned:,} values to learn from, then {known - learned:,} for dev and "
        f"{count - known:,} for test."
    ]
    return PreparedSeries(recipe, units or units_of(train), train, stretches, choices, notes)


def _check_length(recipe: ForecastRecipe, series: Series, learned: int, known: int) -> None:
    count, past = len(series.values), recipe.data.past
    if learned <= past or known == learned or count == known:
        raise DataError(
            f"{series.name} has {count:,} values: {learned} to learn from, {known - learned} for "
            f"dev and {count - known} for test. Wanted more than data.past={past} of the first and "
            "1 or more of the others: give more values, or look back less."
        )


def _sized(recipe: ForecastRecipe, learned: int) -> tuple[ForecastRecipe, list[Choice]]:
    """The model's own settings that follow from the data."""
    model = recipe.model
    if isinstance(model, AutoregressiveConfig):
        values = model.model_dump(exclude_unset=True) | {"past": recipe.data.past}
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


class RowsBatch(NamedTuple):
    """Rows of values, each one longer than what the model reads."""

    starts: NDArray[np.int64]
    values: Float[Tensor, "B T"]
    tokens: int  # answers that count


class Forecast(Network):
    """A model, the units it works in and, where they are needed, the stretches of a series."""

    def __init__(self, recipe: ForecastRecipe, units: Units):
        super().__init__(recipe, lambda: MODELS[recipe.model.name](recipe.model))
        self.units = units
        self.stretches: dict[str, Stretch] = {}
        self.train = np.zeros(0)

    def give(self, prepared: PreparedSeries) -> None:
        """Hand over the data that training and evaluating need."""
        self.stretches, self.train = dict(prepared.stretches), prepared.train

    def add_file(self, path: str | Path) -> str:
        """A file with another series as a split; of its first values none is foretold."""
        values = read_series(path, self.recipe.data.column).values
        past = self.recipe.data.past
        if len(values) <= past:
            raise DataError(
                f"{path} has {len(values)} value{'s' if len(values) > 1 else ''}; more than the "
                f"{past} that are looked back on were wanted (data.past)."
            )
        start = max(past, min(past + AHEAD[-1] - 1, len(values) // 2))
        self.stretches["given"] = Stretch(values, start)
        return "given"

    def vocabulary_json(self) -> dict[str, Any]:
        """The units."""
        return self.units._asdict()

    # --- training --------------------------------------------------------------------------

    def batches(self, split: str, start: int = 0) -> Iterator[RowsBatch]:
        """Rows of the training stretch, without end; each begins where its number says."""
        model: Any = self.model
        rows, size = self._training_rows()
        each = model.reads - model.first
        for starts in shuffled(len(rows), size, self.recipe.train.seed, start):
            yield RowsBatch(starts, rows[torch.from_numpy(starts)], len(starts) * each)

    def batches_in_epoch(self) -> int:
        """How many batches have all the rows once."""
        rows, size = self._training_rows()
        return -(-len(rows) // size)

    def _training_rows(self) -> tuple[Float[Tensor, "N T"], int]:
        """All rows to learn from, and how many make a batch."""
        model: Any = self.model
        values = torch.from_numpy(self.units.inside(self.train)).float()
        rows = values.unfold(0, model.reads + 1, 1)
        each = model.reads - model.first
        return rows, max(1, min(len(rows), self.recipe.train.batch_tokens // each))

    def loss(self, batch: RowsBatch) -> Loss:
        """Squared errors one value ahead, summed, in the model's units."""
        model: Any = self.model
        values = batch.values.to(self.device)
        expected, _ = model.step(values[:, :-1], model.start(len(values)))
        return Loss((expected - values[:, 1:])[:, model.first :].square().sum())

    def where(self, batch: RowsBatch) -> str:
        """Which values a batch begins with."""
        shown = ", ".join(str(start + 1) for start in batch.starts[:5])
        more = f" and {len(batch.starts) - 5} more" if len(batch.starts) > 5 else ""
        return f"{self.name}, rows that begin with value {shown}{more}"

    # --- forecasts -------------------------------------------------------------------------

    @torch.no_grad()
    def forecasts(self, values: Floats, start: int, ahead: int) -> Floats:
        """(N, ahead): each value from `start` on, foretold 1, 2, … values before it came.

        Row n is about the value at start + n, whichever column: so that the columns can be
        compared. The first of them are made from values before `start`.
        """
        model: Any = self.model
        model.eval()
        first = start - ahead + 1  # of the origins: an origin's own value is not known yet
        inside = torch.from_numpy(self.units.inside(values)).float().to(self.device)
        read, state = model.step(inside[None, max(0, first - HISTORY) : first], model.start(1))
        expected, states = [read[0, -1:]], [state]
        for origin in range(first + 1, len(values)):
            read, state = model.step(inside[None, origin - 1 : origin], state)
            expected.append(read[0])
            states.append(state)
        rolled = roll(model, torch.cat(expected), torch.cat(states), ahead).double().cpu().numpy()
        places = np.arange(len(values) - start)[:, None] + ahead - 1
        steps = np.arange(ahead)
        return self.units.outside(rolled[places - steps, steps])

    @torch.no_grad()
    def go_on(self, values: Floats, ahead: int) -> Floats:
        """(ahead,): what follows a row of values, each answer read as if it had been seen."""
        model: Any = self.model
        model.eval()
        inside = torch.from_numpy(self.units.inside(values)).float().to(self.device)
        read, state = model.step(inside[None], model.start(1))
        rolled = roll(model, read[:, -1], state, ahead)[0]
        return self.units.outside(rolled.double().cpu().numpy())

    def farthest(self, start: int) -> int:
        """How many values ahead can be measured: of those of `AHEAD`, as the values allow."""
        return max(k for k in AHEAD if k == 1 or start - k + 1 >= self.recipe.data.past)

    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """Errors 1, 4, 16 and 64 values ahead, as far as the data allows."""
        refuse_search(self.recipe.task, {"beam": beam})
        values, start = self.stretches[split]
        values = values[: start + min(most or MOST, MOST)]
        growth = growth_of(values, start, self.forecasts(values, start, self.farthest(start)))
        count = len(values) - start
        tell(count)
        figures = {"loss": float((growth.errors[0] / self.units.deviation) ** 2)}
        conventions = {"loss": "mean squared error 1 ahead over the variance learned from"}
        for k in AHEAD:
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
        tell: Callable[[int], None] = lambda more: None,
        **how: Any,
    ) -> list[Numbers]:
        """The values that follow each row of numbers, as many as `data.ahead` says."""
        refuse_search(self.recipe.task, how)
        data = self.recipe.data
        least = data.past if self.recipe.model.name == "autoregressive" else 1
        answers = []
        for number, text in enumerate(texts, first):
            values = numbers_in(text, number, 'numbers with spaces between, such as "0.1 0.2"')
            if len(values) < least:
                raise DataError(
                    f"input {number} has {len(values)} number{'s' if len(values) > 1 else ''}; "
                    f"this model looks back on {least}: give {least} or more, the newest last."
                )
            if np.abs(self.units.inside(np.array(values))).max() > FARTHEST:
                raise DataError(
                    f"input {number} has a number beyond all reason for this model, whose values "
                    f"lie around {self.units.mean:g} ± {self.units.deviation:g}. Mend it."
                )
            found = self.go_on(np.array(values), data.ahead).tolist()
            answers.append(answer_of(found, self.units.deviation))
            tell(1)
        return answers

    def first_input(self) -> str:
        """Some held-out values, to show how a run is asked."""
        values, start = self.stretches["test"]
        count = max(self.recipe.data.past, 4)
        places = np.flatnonzero(values[: len(values) - count] >= 0)
        after = places[places >= start - count]
        at = int(after[0]) if len(after) else max(start - count, 0)
        row = values[at : at + count].tolist()
        text = " ".join(spelt(value, self.units.deviation) for value in row)
        return text if not text.startswith("-") else f" {text}"  # no option of a command line

    def pictures(self, folder: Path) -> list[str]:
        """The series, forecasts over the held-out time, and how their error grows."""
        values, start = self.stretches["test"]
        values = values[: start + MOST]
        times = np.arange(1, len(values) + 1, dtype=np.float64)
        found = self.forecasts(values, start, self.farthest(start))
        lines = {
            k: Line(f"{k} ahead", times[start:], found[:, k - 1])
            for k in AHEAD
            if k <= found.shape[1]
        }
        alone = self.go_on(values[max(0, start - HISTORY) : start], len(values) - start)
        free = Line("all the way", times[start:], alone)
        back = max(0, start - 2 * (len(values) - start))
        series = Line(self.name, times[back:], values[back:])
        growth = growth_of(values, start, found)
        save_forecasts(series, lines, free, growth, folder / "forecast.png")
        return []

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[Finding]:
        """Try every law on this very model, with rows spread evenly over a stretch."""
        self.model.eval()
        yield from self._findings(self._rows(split, count))

    @torch.no_grad()
    def _findings(self, rows: Float[Tensor, "B T"]) -> list[Finding]:
        model: Any = self.model
        together, _ = model.step(rows, model.start(len(rows)))
        alone = torch.cat([model.step(row[None], model.start(1))[0] for row in rows])
        state, steps = model.start(len(rows)), []
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
            after, _ = model.step(changed, model.start(len(rows)))
            pairs.append((before[:, :t], after[:, :t]))
        return pairs or [(before[:, :0], before[:, :0])]

    @torch.no_grad()
    def again(self, other: Any, split: str, count: int) -> Finding:
        """Whether the same task, saved and reopened, expects the same."""
        rows = self._rows(split, count)
        models: list[Any] = [self.model, other.model]
        one, two = (model.step(rows, model.start(len(rows)))[0] for model in models)
        return _finding("saved and reopened agree", [(one, two)])

    def _rows(self, split: str, count: int) -> Float[Tensor, "B T"]:
        values, start = self.stretches[split]
        inside = torch.from_numpy(self.units.inside(values)).float().to(self.device)
        length = min(32, len(values) - start + self.recipe.data.past, len(values))
        first = min(start - self.recipe.data.past, len(values) - length)
        places = np.unique(np.linspace(max(first, 0), len(values) - length, count).astype(np.int64))
        return inside.unfold(0, length, 1)[torch.from_numpy(places)]


def growth_of(values: Floats, start: int, found: Floats) -> Growth:
    """The error 1, 2, … values ahead, and that of taking the value so many before."""
    wanted = values[start:, None]
    places = np.arange(start, len(values))[:, None] - np.arange(1, found.shape[1] + 1)
    both = (found - wanted, values[places] - wanted)
    return Growth(*(np.sqrt((errors**2).mean(axis=0)) for errors in both))


def _finding(law: str, pairs: list[tuple[Tensor, Tensor]]) -> Finding:
    worst = [float((one - other).abs().max()) for one, other in pairs if one.numel()]
    difference = float(np.max(worst)) if worst else 0.0  # of NaN numpy makes NaN
    return Finding(law, len(pairs[0][0]), difference, TOLERANCE[pairs[0][0].dtype])


FORECAST = Kind(
    ForecastRecipe,
    MODELS,
    SERIES,
    {},
    anywhere(prepare),
    Forecast,
    Units.from_json,
    kept=("past",),
)
