"""Points (x, y) of a curve, those to fit and those held out."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.data.points import Points, load_points, read_points
from saccade.errors import ConfigError, DataError
from saccade.estimators.kernel_regression import leave_one_out_error
from saccade.models.config import KernelRegressionConfig
from saccade.tasks.base import Choice, PrepareContext, PreparedData, fingerprint_arrays
from saccade.tasks.kernel_regression.config import RegressionRecipe
from saccade.types.arrays import FloatArray

MAX_KERNEL_POINTS = 20_000  # training points: each is compared with every other


class PointSplit(NamedTuple):
    """Points to predict; training points are predicted from all others (leave-one-out)."""

    points: Points
    leave_one_out: bool
    truth: Callable[[FloatArray], FloatArray] | None = None  # the curve without noise


PreparedPoints = PreparedData[RegressionRecipe, Points, PointSplit]


def prepare_points(recipe: RegressionRecipe, context: PrepareContext[Points]) -> PreparedPoints:
    """Generate or read the points, and choose the settings left open; given points are kept."""
    loaded = load_points(recipe.data)
    points = context.preprocessor or loaded.train
    _check_points(points)
    model = recipe.model.model_dump(exclude_unset=True)
    train = recipe.train.model_dump(exclude_unset=True)
    choices = []
    if recipe.model.initial_bandwidth is None:
        model["initial_bandwidth"] = float(f"{np.ptp(points.x) / 5:.1g}")
        reason = "about a fifth of the range of x"
        choices.append(Choice("model.initial_bandwidth", model["initial_bandwidth"], reason))
    train.setdefault("device", "cpu")  # there are accelerators without float64
    recipe = recipe.with_values(model=model, train=train)
    _check_bandwidth(recipe, points)
    fitted = PointSplit(points, True, loaded.truth)
    splits = {
        "train": fitted,
        "dev": fitted,
        "test": PointSplit(loaded.test, False, loaded.truth),
    }
    return PreparedData(
        recipe,
        points,
        splits,
        lambda: fingerprint_arrays(loaded.train.x, loaded.train.y),
        choices,
    )


def _check_points(points: Points) -> None:
    if len(points.x) > MAX_KERNEL_POINTS:
        raise DataError(
            f"{points.name}: got {len(points.x):,} training points; expected at most "
            f"{MAX_KERNEL_POINTS:,}, since each is compared with every other; try a part of them."
        )
    if not np.ptp(points.x):
        raise DataError(
            f"{points.name}: got all {len(points.x)} points at x = {points.x[0]:g}; expected two "
            "values of x or more."
        )


def _check_bandwidth(recipe: RegressionRecipe, points: Points) -> None:
    model = recipe.model
    if not isinstance(model, KernelRegressionConfig) or model.bandwidth is None:
        return
    if not np.isfinite(leave_one_out_error(points.x, points.y, model.bandwidth, model.kernel)):
        raise ConfigError(
            f"got model.bandwidth={model.bandwidth:g}, with which the {model.kernel} kernel leaves "
            f"a point of {points.name} without any other in reach; try a larger one, none to have "
            "it fitted, or the gaussian kernel."
        )


def load_point_split(
    recipe: RegressionRecipe, points: Points, data: str | Path | object
) -> PointSplit:
    """Read held-out points."""
    return PointSplit(read_points(data, recipe.data), False)
