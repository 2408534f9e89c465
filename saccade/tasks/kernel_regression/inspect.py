"""Attention maps, figures and invariance checks of kernel regression."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from saccade.data.points import Points
from saccade.estimators.kernel_regression import nadaraya_watson
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.figures import AttentionGrid, Figure, KernelFit, PlotLine
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.config import KernelRegressionConfig
from saccade.models.kernel_attention import KernelAttention
from saccade.seeding import generator
from saccade.tasks.base import AttentionKey, Inspector
from saccade.tasks.kernel_regression.config import RegressionRecipe
from saccade.tasks.kernel_regression.data import PointSplit
from saccade.tasks.kernel_regression.predict import parse_queries
from saccade.tasks.kernel_regression.smoother import (
    AnyKernelModel,
    build_kernel_model,
    smoother_of,
)
from saccade.tasks.numbers import format_number
from saccade.types.arrays import FloatArray

MAX_MAP_COLUMNS = 60  # keys of an attention map; neighbours are summed beyond that
PLOT_POINTS = 200


class CurveInspector(Inspector[PointSplit]):
    """Shows a fitted curve and its attention weights."""

    def __init__(self, recipe: RegressionRecipe, model: AnyKernelModel, points: Points):
        self.recipe, self.model, self.points = recipe, model, points
        self.smoother = smoother_of(model, points)

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        config = self.recipe.model
        return config.kernel if isinstance(config, KernelRegressionConfig) else "gaussian"

    def example_input(self, split: PointSplit) -> str:
        """Return an x amid the points."""
        amid = self.points.x[len(self.points.x) // 2 :]
        text = format_number(next((x for x in amid.tolist() if x >= 0), amid[0]), float(amid.std()))
        return f" {text}" if text.startswith("-") else text  # not an option of a command

    def views(self) -> dict[str, str]:
        """Return the attention weights."""
        return {"X": "the weight of each point for an x"}

    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Return the weight of each point for each x of the input; points are in order of x."""
        return {("cross", 1, 1): self.attention_map(parse_queries(text, 1))}

    def attention_map(self, queries: FloatArray) -> AttentionMap:
        """Return the weights (queries by keys); many keys are summed in groups of neighbours."""
        weights, keys = self.smoother.estimate(queries).weights, self.points.x
        starts = np.unique(
            np.linspace(0, len(keys), MAX_MAP_COLUMNS, endpoint=False).astype(np.int64)
        )
        across = "x of the points (keys)"
        if len(starts) < len(keys):
            weights = np.add.reduceat(weights, starts, axis=1)
            across += f", about {len(keys) / len(starts):.0f} at a time from"
        spread = float(keys.std())
        return AttentionMap(
            weights,
            [format_number(query, spread) for query in queries.tolist()],
            [format_number(key, spread) for key in keys[starts].tolist()],
            f"{self.recipe.model_name}, bandwidth {self.smoother.bandwidth:.3g}",
            across,
            "x of the query",
        )

    def figures(self, splits: Mapping[str, PointSplit]) -> dict[str, Figure]:
        """Return the fit with the initial and the final bandwidth, and the attention map."""
        keys, values, model = self.points.x, self.points.y, self.recipe.model
        grid = np.linspace(keys[0], keys[-1], PLOT_POINTS)
        bandwidth = self.smoother.bandwidth
        fits = [PlotLine(f"bandwidth {bandwidth:.3g}", grid, self.smoother.predict_at(grid))]
        initial = model.initial_bandwidth
        if initial is not None and initial != bandwidth:
            before = nadaraya_watson(grid, keys, values, initial, self.kernel).values
            fits.insert(0, PlotLine(f"bandwidth {initial:.3g}", grid, before))
        truth = None
        if (curve := splits["test"].truth) is not None:
            truth = PlotLine("curve without noise", grid, curve(grid))
        points = PlotLine(f"{len(keys)} points", keys, values)
        mean = float(values.mean())
        return {
            "fit.png": KernelFit(points, fits, mean, truth),
            "attention.png": AttentionGrid(
                [self.attention_map(np.linspace(keys[0], keys[-1], 25))]
            ),
        }

    def checks(self, split: PointSplit, count: int) -> Iterator[CheckResult]:
        """Check batch invariance, permutation invariance, and attention against the estimator."""
        queries = self._queries(count)
        together = self.smoother.predict_at(queries)
        single = np.concatenate([self.smoother.predict_at(query[None]) for query in queries])
        yield self._compare("batch invariance", together, single)
        name, keys, values = self.points
        order = generator(0, "order of the points").permutation(len(keys))
        permuted = Points(name, keys[order], values[order])
        other = build_kernel_model(self.recipe, permuted)
        weights = dict(self.model.state_dict())
        if isinstance(other, KernelAttention):
            weights |= {
                name: tensor
                for name, tensor in other.state_dict().items()
                if name in ("keys", "values")
            }
        other.load_state_dict(weights)
        found = smoother_of(other, permuted).predict_at(queries)
        yield self._compare("permutation invariance", together, found)
        yield self._compare_implementations(queries, together)

    def _compare_implementations(self, queries: FloatArray, found: FloatArray) -> CheckResult:
        """Compare the estimator with the layers of `nn`."""
        invariant = "attention equals kernel regression"
        if self.kernel != "gaussian":
            return skipped(invariant, f"attention has no {self.kernel} kernel")
        _, keys, values = self.points
        bandwidth = self.smoother.bandwidth
        attention = KernelAttention(bandwidth, torch.from_numpy(keys), torch.from_numpy(values))
        with torch.no_grad():
            by_layers = attention(torch.from_numpy(queries)).numpy()
        by_estimator = nadaraya_watson(queries, keys, values, bandwidth, self.kernel).values
        return self._compare(invariant, found, np.stack([by_layers, by_estimator]))

    def compare_reloaded(self, other: AnyKernelModel, split: PointSplit, count: int) -> CheckResult:
        """Check that the reloaded model gives the same estimates."""
        queries = self._queries(count)
        found = smoother_of(other, self.points).predict_at(queries)
        return self._compare("reload consistency", self.smoother.predict_at(queries), found)

    def _queries(self, count: int) -> FloatArray:
        return np.linspace(self.points.x[0], self.points.x[-1], max(count, 2))

    def _compare(self, invariant: str, one: FloatArray, other: FloatArray) -> CheckResult:
        """Compare estimates; `other` may hold several rows."""
        tolerance = LOGIT_TOLERANCE[torch.float64] * max(1.0, float(np.abs(self.points.y).max()))
        return CheckResult(invariant, len(one), float(np.abs(one - other).max()), tolerance)
