"""Capabilities of the kernel regression task, by recipe."""

from typing import Any

from saccade.data.points import Points
from saccade.tasks.base import Components
from saccade.tasks.kernel_regression.config import RegressionRecipe
from saccade.tasks.kernel_regression.data import PointSplit
from saccade.tasks.kernel_regression.evaluate import CurveEvaluator
from saccade.tasks.kernel_regression.inspect import CurveInspector
from saccade.tasks.kernel_regression.objective import BandwidthSearch, KernelAttentionObjective
from saccade.tasks.kernel_regression.predict import CurvePredictor
from saccade.tasks.kernel_regression.smoother import build_kernel_model

CurveComponents = Components[RegressionRecipe, Points, Any, PointSplit]

BY_SEARCH = CurveComponents(
    build_model=build_kernel_model,
    predictor=CurvePredictor,
    evaluator=CurveEvaluator,
    inspector=CurveInspector,
    estimator=BandwidthSearch,
)
BY_GRADIENT = CurveComponents(
    build_model=build_kernel_model,
    predictor=CurvePredictor,
    evaluator=CurveEvaluator,
    inspector=CurveInspector,
    objective=KernelAttentionObjective,
)


def curve_components(recipe: RegressionRecipe) -> CurveComponents:
    """Return the capabilities of a recipe: a search for the bandwidth, or training by the loop."""
    return BY_SEARCH if recipe.model_name == "kernel" else BY_GRADIENT
