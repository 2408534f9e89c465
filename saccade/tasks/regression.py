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
from saccade.data.points import (
    CURVE_END,
    SYNTHETIC_CURVES,
    Points,
    PointsConfig,
    PointSplits,
    load_points,
    read_points,
)
from saccade.data.samplers import shuffled_batches
from saccade.errors import ConfigError, DataError
from saccade.estimators.kernel_regression import (
    KernelEstimate,
    KernelRegression,
    leave_one_out_error,
    nadaraya_watson,
)
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.kernel_attention import (
    KernelAttention,
    KernelAttentionConfig,
    KernelRegressionConfig,
)
from saccade.plots.attention import save_attention_maps
from saccade.plots.fits import PlotLine, save_regression_fit
from saccade.plots.terminal import AttentionMap
from saccade.seeding import generator
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
    FitContext,
    FittedTask,
    Progress,
    Task,
    TaskSpec,
    fingerprint_arrays,
    ignore_scratch_dir,
)
from saccade.training.config import TrainConfig
from saccade.training.loop import Loss

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

KERNEL_MODELS = {"attention": KernelAttention, "kernel": KernelRegression}
MAX_KERNEL_POINTS = 20_000  # points to learn from: each is compared with every other
MAX_BATCH_WEIGHTS = 1 << 21  # weights of a batch
MAX_MAP_COLUMNS = 60  # of a map; more keys than that are put together
PLOT_POINTS = 200  # places at which a curve is drawn


class RegressionRecipe(Config):
    """Points in, a curve out."""

    task: Literal["kernel-regression"] = "kernel-regression"
    data: PointsConfig = PointsConfig()
    model: Annotated[
        KernelRegressionConfig | KernelAttentionConfig, Field(discriminator="name")
    ] = KernelRegressionConfig()
    train: TrainConfig = TrainConfig()


@dataclass
class PreparedPoints:
    """The points of a recipe, and how the settings came about."""

    recipe: RegressionRecipe
    vocabulary: Points  # what is looked at: keys and values
    splits: PointSplits
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fingerprint(self) -> str:
        """A short hash of the points to learn from."""
        return fingerprint_arrays(self.splits.train.x, self.splits.train.y)


def prepare_points(
    recipe: RegressionRecipe,
    on_progress: Progress,
    points: Points | None = None,
    auto_model: bool = False,
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
    if recipe.model.initial_bandwidth is None:
        model["initial_bandwidth"] = float(f"{np.ptp(points.x) / 5:.1g}")
        reason = "about a fifth of the way from the lowest x to the highest"
        choices.append(Choice("model.initial_bandwidth", model["initial_bandwidth"], reason))
    if "device" not in train:  # there are accelerators without float64
        train["device"] = "cpu"
    recipe = recipe.with_values(model=model, train=train)
    _check_reach(recipe, points)
    return PreparedPoints(recipe, points, splits, choices)


def _check(points: Points) -> None:
    if len(points.x) > MAX_KERNEL_POINTS:
        raise DataError(
            f"{points.name} has {len(points.x):,} points to learn from, and each would be compared "
            f"with every other; {MAX_KERNEL_POINTS:,} are the most. Take a part of the lines."
        )
    if not np.ptp(points.x):
        raise DataError(
            f"{points.name}: all {len(points.x)} points to learn from are at x = "
            f"{points.x[0]:g}; two places or more were wanted."
        )


def _check_reach(recipe: RegressionRecipe, points: Points) -> None:
    model = recipe.model
    if not isinstance(model, KernelRegressionConfig) or model.bandwidth is None:
        return
    if not np.isfinite(leave_one_out_error(points.x, points.y, model.bandwidth, model.kernel)):
        raise ConfigError(
            f"with model.width={model.bandwidth:g} the {model.kernel} kernel leaves some point of "
            f"{points.name} with no other in reach. Make it wider, leave it out to have it "
            "learned, or take the gaussian kernel."
        )


class KernelRegressionTask(Task):
    """What both models have in common; they differ in how they learn their width."""

    points: Points
    splits: PointSplits | None = None
    given: Points | None = None

    @property
    @abstractmethod
    def bandwidth(self) -> float:
        """Of the kernel, as it is now."""

    @abstractmethod
    def estimate(self, queries: FloatArray) -> KernelEstimate:
        """The estimate at each query, and how much it looked at each point."""

    @abstractmethod
    def leave_one_out(self, limit: int | None) -> tuple[float, int]:
        """Mean squared error of points foretold from the others, and of how many of them."""

    def predict_at(self, queries: FloatArray) -> FloatArray:
        """The estimate at each query; with no point in reach it is the average of all."""
        values, weights = self.estimate(queries)
        return np.where(weights.sum(axis=1) > 0, values, self.points.y.mean())

    def attach_data(self, prepared: PreparedPoints) -> None:
        """Hand over what was held out."""
        self.splits = prepared.splits

    def load_split(self, path: str | Path) -> str:
        """A file of points as a split; its name is returned."""
        self.given = read_points(path)
        return "given"

    def vocabulary_json(self) -> dict[str, Any]:
        """The points that are looked at."""
        return self.points.to_json()

    # --- scores ----------------------------------------------------------------------------

    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """Errors on held-out points; on those it has learned from, each left out in turn."""
        reject_search_options(self.recipe.task, {"beam": beam})
        average = self.points.y.mean()
        if split in ("train", "dev"):
            loss, count = self.leave_one_out(limit)
            others = (self.points.y.sum() - self.points.y) / (len(self.points.y) - 1)
            plain = float(((self.points.y - others) ** 2).mean())
            on = "each point learned from, foretold from all the others"
        else:
            points = self._held_out(split)
            count = len(points.x)
            loss = float(((points.y - self.predict_at(points.x)) ** 2).mean())
            plain = float(((points.y - average) ** 2).mean())
            on = "points held out"
        on_progress(count)
        figures = {"loss": loss, "rmse": loss**0.5, "average_rmse": plain**0.5}
        conventions = {
            "loss": f"mean squared error in units of y², {on}",
            "rmse": "its square root, in units of y",
            "average_rmse": "the same if the plain average of the points were the answer",
            "width": "of the kernel, in units of x",
        }
        if self.splits is not None and self.splits.truth is not None:
            queries = np.linspace(0.0, CURVE_END, 50, endpoint=False)
            apart = self.predict_at(queries) - self.splits.truth(queries)
            figures["true_rmse"] = float((apart**2).mean() ** 0.5)
            conventions["true_rmse"] = "against the curve without noise, at 50 even places"
        return {**figures, "width": self.bandwidth, "examples": float(count)}, conventions

    def selection_score(self, scores: dict[str, float]) -> float:
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
        on_progress: Callable[[int], None] = lambda more: None,
        **how: Any,
    ) -> list[NumericPrediction]:
        """The estimate at each x; a text may hold several, with spaces between."""
        reject_search_options(self.recipe.task, how)
        answers, spread = [], float(self.points.y.std())
        for number, text in enumerate(texts, first):
            answers.append(
                numeric_prediction(self.predict_at(_queries(text, number)).tolist(), spread)
            )
            on_progress(1)
        return answers

    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[tuple[str, int, int], AttentionMap]:
        """How much each x of the text looks at each point; the points are in the order of x."""
        return {("cross", 1, 1): self.attention_map(_queries(text, 1))}

    def attention_map(self, queries: FloatArray) -> AttentionMap:
        """Queries by keys; where there are many keys, neighbours are put together."""
        weights, keys = self.estimate(queries).weights, self.points.x
        starts = np.unique(
            np.linspace(0, len(keys), MAX_MAP_COLUMNS, endpoint=False).astype(np.int64)
        )
        across = "x of the points (looked at)"
        if len(starts) < len(keys):
            weights = np.add.reduceat(weights, starts, axis=1)
            across += f", about {len(keys) / len(starts):.0f} at a time from"
        spread = float(keys.std())
        return AttentionMap(
            weights,
            [format_number(query, spread) for query in queries.tolist()],
            [format_number(key, spread) for key in keys[starts].tolist()],
            f"{self.recipe.model.name}, width {self.bandwidth:.3g}",
            across,
            "x that is asked for",
        )

    def example_input(self) -> str:
        """Some x amid the points, to show how a run is asked."""
        amid = self.points.x[len(self.points.x) // 2 :]
        text = format_number(next((x for x in amid.tolist() if x >= 0), amid[0]), float(amid.std()))
        return f" {text}" if text.startswith("-") else text  # no option of a command line

    def save_plots(self, folder: Path) -> list[str]:
        """The fit with the first width and with this one, and where it looks."""
        keys, values, model = self.points.x, self.points.y, self.recipe.model
        grid = np.linspace(keys[0], keys[-1], PLOT_POINTS)
        fits = [PlotLine(f"width {self.bandwidth:.3g}", grid, self.predict_at(grid))]
        if model.initial_bandwidth != self.bandwidth:
            kernel = getattr(model, "kernel", "gaussian")
            before = nadaraya_watson(grid, keys, values, model.initial_bandwidth, kernel).values
            fits.insert(0, PlotLine(f"width {model.initial_bandwidth:.3g}", grid, before))
        truth = None
        if self.splits is not None and self.splits.truth is not None:
            truth = PlotLine("the curve without noise", grid, self.splits.truth(grid))
        points = PlotLine(f"{len(keys)} points", keys, values)
        save_regression_fit(points, fits, folder / "fit.png", truth, float(values.mean()))
        queries = np.linspace(keys[0], keys[-1], 25)
        return save_attention_maps([self.attention_map(queries)], folder / "attention.png")

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[CheckResult]:
        """Try every law on this very model, with places spread evenly over the points."""
        queries = self._some_queries(count)
        together = self.predict_at(queries)
        alone = np.concatenate([self.predict_at(queries[[row]]) for row in range(len(queries))])
        yield self._finding("neighbours change nothing", together, alone)
        name, keys, values = self.points
        mixed = generator(0, "order of the points").permutation(len(keys))
        other = make_regression_task(self.recipe, Points(name, keys[mixed], values[mixed]))
        other.load(self.weights())
        invariant = "the order of the points changes nothing"
        yield self._finding(invariant, together, other.predict_at(queries))
        yield self._two_ways(queries)

    def _two_ways(self, queries: FloatArray) -> CheckResult:
        """The regression as `fitted` has it and as the parts of `nn` have it."""
        invariant = "attention equals kernel regression"
        kernel = getattr(self.recipe.model, "kernel", "gaussian")
        if kernel != "gaussian":
            return skipped(invariant, f"attention has no {kernel} kernel")
        _, keys, values = self.points
        attention = KernelAttention(
            self.bandwidth, torch.from_numpy(keys), torch.from_numpy(values)
        )
        with torch.no_grad():
            by_parts = attention(torch.from_numpy(queries)).numpy()
        fitted = nadaraya_watson(queries, keys, values, self.bandwidth, kernel).values
        return self._finding(invariant, self.predict_at(queries), np.stack([by_parts, fitted]))

    def compare_reloaded(self, other: Any, split: str, count: int) -> CheckResult:
        """Whether the same task, saved and reopened, gives the same estimates."""
        queries = self._some_queries(count)
        return self._finding(
            "saved and reopened agree", self.predict_at(queries), other.predict_at(queries)
        )

    def _some_queries(self, count: int) -> FloatArray:
        return np.linspace(self.points.x[0], self.points.x[-1], max(count, 2))

    def _finding(self, invariant: str, one: FloatArray, other: FloatArray) -> CheckResult:
        """`other` may hold several that must each equal the one."""
        tolerance = LOGIT_TOLERANCE[torch.float64] * max(1.0, float(np.abs(self.points.y).max()))
        return CheckResult(invariant, len(one), float(np.abs(one - other).max()), tolerance)


def _queries(text: str, number: int) -> FloatArray:
    return np.array(parse_number_list(text, number, "a number such as 2.5"), np.float64)


class FittedKernelTask(KernelRegressionTask, FittedTask):
    """The width is given, or found by a search."""

    def __init__(self, recipe: RegressionRecipe, points: Points):
        super().__init__(recipe)
        assert isinstance(recipe.model, KernelRegressionConfig)
        self.points = points
        self.model = KernelRegression(recipe.model.bandwidth, recipe.model.kernel)
        self.model.keys, self.model.values = points.x[:, None], points.y

    @property
    def bandwidth(self) -> float:
        """Of the kernel."""
        assert self.model.bandwidth is not None
        return self.model.bandwidth

    def fit(self, context: FitContext) -> None:
        """Find the width of the least error when each point is foretold from the others."""
        context.on_progress("learning the width", 0, 0)
        self.model.fit(self.points.x, self.points.y)

    def weights(self) -> dict[str, Tensor]:
        """The width."""
        return {"width": torch.tensor(self.bandwidth, dtype=torch.float64)}

    def load(self, weights: dict[str, Tensor]) -> None:
        """The width again."""
        if weights.keys() != {"width"}:
            raise RuntimeError(f"a width was wanted, and there is {', '.join(weights)}")
        self.model.bandwidth = float(weights["width"])

    def estimate(self, queries: FloatArray) -> KernelEstimate:
        """As `fitted.kernel` has it."""
        return self.model.predict(queries)

    def leave_one_out(self, limit: int | None) -> tuple[float, int]:
        """All the points, each from the others."""
        points = self.points
        error = leave_one_out_error(points.x, points.y, self.bandwidth, self.model.kernel)
        return error, len(points.x)


class PointBatch(NamedTuple):
    """Points to be foretold from all the others."""

    rows: IntArray

    @property
    def tokens(self) -> int:
        """How many points the batch teaches."""
        return len(self.rows)


class AttentionKernelTask(KernelRegressionTask, TrainableTask):
    """The width is learned by gradient steps."""

    model: KernelAttention

    def __init__(self, recipe: RegressionRecipe, points: Points):
        keys, values = torch.from_numpy(points.x), torch.from_numpy(points.y)
        first = recipe.model.initial_bandwidth
        assert first is not None
        super().__init__(recipe, lambda: KernelAttention(first, keys, values))
        self.points = points

    @property
    def bandwidth(self) -> float:
        """Of the Gaussian."""
        return self.model.bandwidth

    def batches(self, split: str, start: int = 0) -> Iterator[PointBatch]:
        """All points at once, if there is room; else in an order that depends on the seed."""
        for rows in shuffled_batches(
            len(self.points.x), self._size(), self.recipe.train.seed, start
        ):
            yield PointBatch(rows)

    def batches_in_epoch(self) -> int:
        """How many batches have all the points once."""
        return -(-len(self.points.x) // self._size())

    def _size(self) -> int:
        """Points of a batch."""
        count = len(self.points.x)
        return min(count, self.recipe.train.batch_tokens, max(1, MAX_BATCH_WEIGHTS // count))

    def loss(self, batch: PointBatch) -> Loss:
        """Σ (y_i − f₋ᵢ(x_i))²: no point sees itself."""
        rows = torch.from_numpy(batch.rows).to(self.device)
        expected = self.model(self.model.keys[rows], rows)
        return Loss((self.model.values[rows] - expected).square().sum())

    @torch.no_grad()
    def estimate(self, queries: FloatArray) -> KernelEstimate:
        """As attention has it."""
        table = self.model.weights(torch.from_numpy(queries).to(self.device))
        return KernelEstimate((table @ self.model.values).cpu().numpy(), table.cpu().numpy())

    @torch.no_grad()
    def leave_one_out(self, limit: int | None) -> tuple[float, int]:
        """At most so many of the points, evenly spread."""
        count = len(self.points.x)
        rows = np.unique(np.linspace(0, count - 1, min(count, limit or count)).astype(np.int64))
        size = max(1, MAX_BATCH_WEIGHTS // count)
        parts = [
            PointBatch(rows[predict_at : predict_at + size])
            for predict_at in range(0, len(rows), size)
        ]
        return sum(float(self.loss(part).total) for part in parts) / len(rows), len(rows)


def make_regression_task(
    recipe: RegressionRecipe, points: Points
) -> FittedKernelTask | AttentionKernelTask:
    """The task of a recipe, by its model."""
    kind = (
        FittedKernelTask
        if isinstance(recipe.model, KernelRegressionConfig)
        else AttentionKernelTask
    )
    return kind(recipe, points)


REGRESSION = TaskSpec(
    RegressionRecipe,
    KERNEL_MODELS,
    SYNTHETIC_CURVES,
    {},
    ignore_scratch_dir(prepare_points),
    make_regression_task,
    Points.from_json,
)
