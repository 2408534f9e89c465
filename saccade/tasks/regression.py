"""Kernel regression: a noisy curve in, an estimate for any x out, and where it looked.

Two models compute the same: `kernel` fits itself, `attention` is built from the parts of `nn` and
trained by the loop. Both learn the width with which each point is best foretold from the others.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from saccade.config import Config
from saccade.data.curves import CURVES, END, Points, PointsConfig, Splits, load_points, read_points
from saccade.data.rows import shuffled
from saccade.errors import ConfigError, DataError
from saccade.fitted.kernel import Estimate, KernelRegression, attend, leave_one_out_error
from saccade.look.draw import save_maps
from saccade.look.draw_fits import Line, save_fit
from saccade.look.finding import Finding, not_tried
from saccade.look.laws import TOLERANCE
from saccade.look.terminal import Map
from saccade.models.kernel import KernelAttention, KernelAttentionConfig, KernelConfig
from saccade.seeding import generator
from saccade.tasks.network import Network
from saccade.tasks.numbers import Numbers, answer_of, numbers_in, refuse_search, spelt
from saccade.tasks.task import (
    Choice,
    Fitted,
    Fitting,
    Kind,
    Progress,
    Scored,
    Task,
    anywhere,
    print_of,
)
from saccade.training.loop import Loss
from saccade.training.settings import TrainConfig

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

MODELS = {"attention": KernelAttention, "kernel": KernelRegression}
MOST = 20_000  # points to learn from: each is compared with every other
AT_ONCE = 1 << 21  # weights of a batch
COLUMNS = 60  # of a map; more keys than that are put together
GRID = 200  # places at which a curve is drawn


class RegressionRecipe(Config):
    """Points in, a curve out."""

    task: Literal["kernel-regression"] = "kernel-regression"
    data: PointsConfig = PointsConfig()
    model: Annotated[KernelConfig | KernelAttentionConfig, Field(discriminator="name")] = (
        KernelConfig()
    )
    train: TrainConfig = TrainConfig()


@dataclass
class PreparedPoints:
    """The points of a recipe, and how the settings came about."""

    recipe: RegressionRecipe
    vocabulary: Points  # what is looked at: keys and values
    splits: Splits
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self) -> str:
        """A short hash of the points to learn from."""
        return print_of(self.splits.train.x, self.splits.train.y)


def prepare(
    recipe: RegressionRecipe,
    tell: Progress,
    points: Points | None = None,
    name_model: bool = False,
) -> PreparedPoints:
    """Make or read the points, and choose what the recipe leaves open.

    With `points`, those of a run that is there are looked at.
    """
    splits = load_points(recipe.data)
    points = splits.train if points is None else points
    _check(points)
    model = recipe.model.model_dump(exclude_unset=True)
    train = recipe.train.model_dump(exclude_unset=True)
    choices = []
    if recipe.model.first_width is None:
        model["first_width"] = float(f"{np.ptp(points.x) / 5:.1g}")
        reason = "about a fifth of the way from the lowest x to the highest"
        choices.append(Choice("model.first_width", model["first_width"], reason))
    if "device" not in train:  # there are accelerators without float64
        train["device"] = "cpu"
    recipe = recipe.with_values(model=model, train=train)
    _check_reach(recipe, points)
    return PreparedPoints(recipe, points, splits, choices)


def _check(points: Points) -> None:
    if len(points.x) > MOST:
        raise DataError(
            f"{points.name} has {len(points.x):,} points to learn from, and each would be compared "
            f"with every other; {MOST:,} are the most. Take a part of the lines."
        )
    if not np.ptp(points.x):
        raise DataError(
            f"{points.name}: all {len(points.x)} points to learn from are at x = "
            f"{points.x[0]:g}; two places or more were wanted."
        )


def _check_reach(recipe: RegressionRecipe, points: Points) -> None:
    model = recipe.model
    if not isinstance(model, KernelConfig) or model.width is None:
        return
    if not np.isfinite(leave_one_out_error(points.x, points.y, model.width, model.kernel)):
        raise ConfigError(
            f"with model.width={model.width:g} the {model.kernel} kernel leaves some point of "
            f"{points.name} with no other in reach. Make it wider, leave it out to have it "
            "learned, or take the gaussian kernel."
        )


class Regression(Task):
    """What both models have in common; they differ in how they learn their width."""

    points: Points
    splits: Splits | None = None
    given: Points | None = None

    @property
    @abstractmethod
    def width(self) -> float:
        """Of the kernel, as it is now."""

    @abstractmethod
    def look_at(self, queries: Floats) -> Estimate:
        """The estimate at each query, and how much it looked at each point."""

    @abstractmethod
    def left_out(self, most: int | None) -> tuple[float, int]:
        """Mean squared error of points foretold from the others, and of how many of them."""

    def at(self, queries: Floats) -> Floats:
        """The estimate at each query; with no point in reach it is the average of all."""
        values, weights = self.look_at(queries)
        return np.where(weights.sum(axis=1) > 0, values, self.points.y.mean())

    def give(self, prepared: PreparedPoints) -> None:
        """Hand over what was held out."""
        self.splits = prepared.splits

    def add_file(self, path: str | Path) -> str:
        """A file of points as a split; its name is returned."""
        self.given = read_points(path)
        return "given"

    def vocabulary_json(self) -> dict[str, Any]:
        """The points that are looked at."""
        return self.points.to_json()

    # --- scores ----------------------------------------------------------------------------

    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """Errors on held-out points; on those it has learned from, each left out in turn."""
        refuse_search(self.recipe.task, {"beam": beam})
        average = self.points.y.mean()
        if split in ("train", "dev"):
            loss, count = self.left_out(most)
            others = (self.points.y.sum() - self.points.y) / (len(self.points.y) - 1)
            plain = float(((self.points.y - others) ** 2).mean())
            on = "each point learned from, foretold from all the others"
        else:
            points = self._held_out(split)
            count = len(points.x)
            loss = float(((points.y - self.at(points.x)) ** 2).mean())
            plain = float(((points.y - average) ** 2).mean())
            on = "points held out"
        tell(count)
        figures = {"loss": loss, "rmse": loss**0.5, "average_rmse": plain**0.5}
        conventions = {
            "loss": f"mean squared error in units of y², {on}",
            "rmse": "its square root, in units of y",
            "average_rmse": "the same if the plain average of the points were the answer",
            "width": "of the kernel, in units of x",
        }
        if self.splits is not None and self.splits.truth is not None:
            queries = np.linspace(0.0, END, 50, endpoint=False)
            apart = self.at(queries) - self.splits.truth(queries)
            figures["true_rmse"] = float((apart**2).mean() ** 0.5)
            conventions["true_rmse"] = "against the curve without noise, at 50 even places"
        return {**figures, "width": self.width, "examples": float(count)}, conventions

    def goodness(self, scores: dict[str, float]) -> float:
        """The share of the points' variance that is foretold, whatever the units of y."""
        variance = float(self.points.y.var())
        return 1 - scores["loss"] / variance if variance else -scores["loss"]

    def _held_out(self, split: str) -> Points:
        if split == "given":
            assert self.given is not None
            return self.given
        assert self.splits is not None
        return self.splits.test

    # --- answers ---------------------------------------------------------------------------

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        tell: Callable[[int], None] = lambda more: None,
        **how: Any,
    ) -> list[Numbers]:
        """The estimate at each x; a text may hold several, with spaces between."""
        refuse_search(self.recipe.task, how)
        answers, spread = [], float(self.points.y.std())
        for number, text in enumerate(texts, first):
            answers.append(answer_of(self.at(_queries(text, number)).tolist(), spread))
            tell(1)
        return answers

    def maps(self, text: str, answer: str | None = None) -> dict[tuple[str, int, int], Map]:
        """How much each x of the text looks at each point; the points are in the order of x."""
        return {("cross", 1, 1): self.map_of(_queries(text, 1))}

    def map_of(self, queries: Floats) -> Map:
        """Queries by keys; where there are many keys, neighbours are put together."""
        weights, keys = self.look_at(queries).weights, self.points.x
        starts = np.unique(np.linspace(0, len(keys), COLUMNS, endpoint=False).astype(np.int64))
        across = "x of the points (looked at)"
        if len(starts) < len(keys):
            weights = np.add.reduceat(weights, starts, axis=1)
            across += f", about {len(keys) / len(starts):.0f} at a time from"
        spread = float(keys.std())
        return Map(
            weights,
            [spelt(query, spread) for query in queries.tolist()],
            [spelt(key, spread) for key in keys[starts].tolist()],
            f"{self.recipe.model.name}, width {self.width:.3g}",
            across,
            "x that is asked for",
        )

    def first_input(self) -> str:
        """Some x amid the points, to show how a run is asked."""
        amid = self.points.x[len(self.points.x) // 2 :]
        text = spelt(next((x for x in amid.tolist() if x >= 0), amid[0]), float(amid.std()))
        return f" {text}" if text.startswith("-") else text  # no option of a command line

    def pictures(self, folder: Path) -> list[str]:
        """The fit with the first width and with this one, and where it looks."""
        keys, values, model = self.points.x, self.points.y, self.recipe.model
        grid = np.linspace(keys[0], keys[-1], GRID)
        fits = [Line(f"width {self.width:.3g}", grid, self.at(grid))]
        if model.first_width != self.width:
            kernel = getattr(model, "kernel", "gaussian")
            before = attend(grid, keys, values, model.first_width, kernel).values
            fits.insert(0, Line(f"width {model.first_width:.3g}", grid, before))
        truth = None
        if self.splits is not None and self.splits.truth is not None:
            truth = Line("the curve without noise", grid, self.splits.truth(grid))
        points = Line(f"{len(keys)} points", keys, values)
        save_fit(points, fits, folder / "fit.png", truth, float(values.mean()))
        queries = np.linspace(keys[0], keys[-1], 25)
        return save_maps([self.map_of(queries)], folder / "attention.png")

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[Finding]:
        """Try every law on this very model, with places spread evenly over the points."""
        queries = self._some_queries(count)
        together = self.at(queries)
        alone = np.concatenate([self.at(queries[[row]]) for row in range(len(queries))])
        yield self._finding("neighbours change nothing", together, alone)
        name, keys, values = self.points
        mixed = generator(0, "order of the points").permutation(len(keys))
        other = regression(self.recipe, Points(name, keys[mixed], values[mixed]))
        other.load(self.weights())
        law = "the order of the points changes nothing"
        yield self._finding(law, together, other.at(queries))
        yield self._two_ways(queries)

    def _two_ways(self, queries: Floats) -> Finding:
        """The regression as `fitted` has it and as the parts of `nn` have it."""
        law = "attention equals kernel regression"
        kernel = getattr(self.recipe.model, "kernel", "gaussian")
        if kernel != "gaussian":
            return not_tried(law, f"attention has no {kernel} kernel")
        _, keys, values = self.points
        attention = KernelAttention(self.width, torch.from_numpy(keys), torch.from_numpy(values))
        with torch.no_grad():
            by_parts = attention(torch.from_numpy(queries)).numpy()
        fitted = attend(queries, keys, values, self.width, kernel).values
        return self._finding(law, self.at(queries), np.stack([by_parts, fitted]))

    def again(self, other: Any, split: str, count: int) -> Finding:
        """Whether the same task, saved and reopened, gives the same estimates."""
        queries = self._some_queries(count)
        return self._finding("saved and reopened agree", self.at(queries), other.at(queries))

    def _some_queries(self, count: int) -> Floats:
        return np.linspace(self.points.x[0], self.points.x[-1], max(count, 2))

    def _finding(self, law: str, one: Floats, other: Floats) -> Finding:
        """`other` may hold several that must each equal the one."""
        tolerance = TOLERANCE[torch.float64] * max(1.0, float(np.abs(self.points.y).max()))
        return Finding(law, len(one), float(np.abs(one - other).max()), tolerance)


def _queries(text: str, number: int) -> Floats:
    return np.array(numbers_in(text, number, "a number such as 2.5"), np.float64)


class KernelFit(Regression, Fitted):
    """The width is given, or found by a search."""

    def __init__(self, recipe: RegressionRecipe, points: Points):
        super().__init__(recipe)
        assert isinstance(recipe.model, KernelConfig)
        self.points = points
        self.model = KernelRegression(recipe.model.width, recipe.model.kernel)
        self.model.keys, self.model.values = points.x[:, None], points.y

    @property
    def width(self) -> float:
        """Of the kernel."""
        assert self.model.width is not None
        return self.model.width

    def fit(self, around: Fitting) -> None:
        """Find the width of the least error when each point is foretold from the others."""
        around.tell("learning the width", 0, 0)
        self.model.fit(self.points.x, self.points.y)

    def weights(self) -> dict[str, Tensor]:
        """The width."""
        return {"width": torch.tensor(self.width, dtype=torch.float64)}

    def load(self, weights: dict[str, Tensor]) -> None:
        """The width again."""
        if weights.keys() != {"width"}:
            raise RuntimeError(f"a width was wanted, and there is {', '.join(weights)}")
        self.model.width = float(weights["width"])

    def look_at(self, queries: Floats) -> Estimate:
        """As `fitted.kernel` has it."""
        return self.model.predict(queries)

    def left_out(self, most: int | None) -> tuple[float, int]:
        """All the points, each from the others."""
        points = self.points
        error = leave_one_out_error(points.x, points.y, self.width, self.model.kernel)
        return error, len(points.x)


class RowBatch(NamedTuple):
    """Points to be foretold from all the others."""

    rows: Rows

    @property
    def tokens(self) -> int:
        """How many points the batch teaches."""
        return len(self.rows)


class AttentionFit(Regression, Network):
    """The width is learned by gradient steps."""

    model: KernelAttention

    def __init__(self, recipe: RegressionRecipe, points: Points):
        keys, values = torch.from_numpy(points.x), torch.from_numpy(points.y)
        first = recipe.model.first_width
        assert first is not None
        super().__init__(recipe, lambda: KernelAttention(first, keys, values))
        self.points = points

    @property
    def width(self) -> float:
        """Of the Gaussian."""
        return self.model.width

    def batches(self, split: str, start: int = 0) -> Iterator[RowBatch]:
        """All points at once, if there is room; else in an order that depends on the seed."""
        for rows in shuffled(len(self.points.x), self._size(), self.recipe.train.seed, start):
            yield RowBatch(rows)

    def batches_in_epoch(self) -> int:
        """How many batches have all the points once."""
        return -(-len(self.points.x) // self._size())

    def _size(self) -> int:
        """Points of a batch."""
        count = len(self.points.x)
        return min(count, self.recipe.train.batch_tokens, max(1, AT_ONCE // count))

    def loss(self, batch: RowBatch) -> Loss:
        """Σ (y_i − f₋ᵢ(x_i))²: no point sees itself."""
        rows = torch.from_numpy(batch.rows).to(self.device)
        expected = self.model(self.model.keys[rows], rows)
        return Loss((self.model.values[rows] - expected).square().sum())

    @torch.no_grad()
    def look_at(self, queries: Floats) -> Estimate:
        """As attention has it."""
        table = self.model.weights(torch.from_numpy(queries).to(self.device))
        return Estimate((table @ self.model.values).cpu().numpy(), table.cpu().numpy())

    @torch.no_grad()
    def left_out(self, most: int | None) -> tuple[float, int]:
        """At most so many of the points, evenly spread."""
        count = len(self.points.x)
        rows = np.unique(np.linspace(0, count - 1, min(count, most or count)).astype(np.int64))
        size = max(1, AT_ONCE // count)
        parts = [RowBatch(rows[at : at + size]) for at in range(0, len(rows), size)]
        return sum(float(self.loss(part).total) for part in parts) / len(rows), len(rows)


def regression(recipe: RegressionRecipe, points: Points) -> KernelFit | AttentionFit:
    """The task of a recipe, by its model."""
    kind = KernelFit if isinstance(recipe.model, KernelConfig) else AttentionFit
    return kind(recipe, points)


REGRESSION = Kind(
    RegressionRecipe, MODELS, CURVES, {}, anywhere(prepare), regression, Points.from_json
)
