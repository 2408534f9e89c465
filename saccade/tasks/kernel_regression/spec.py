"""The kernel regression task."""

from typing import Any

from saccade.data.points import SYNTHETIC_CURVES, Points
from saccade.estimators.kernel_regression import KernelRegression
from saccade.models.kernel_attention import KernelRegressionConfig
from saccade.models.registry import KERNEL_MODELS, ModelEntry
from saccade.tasks.base import Components, TaskSpec
from saccade.tasks.kernel_regression.config import RegressionRecipe
from saccade.tasks.kernel_regression.data import PointSplit, load_point_split, prepare_points
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

KERNEL_REGRESSION = TaskSpec(
    name="kernel-regression",
    summary="curve fitting by kernel regression, as an estimator and as attention",
    recipe=RegressionRecipe,
    models={**KERNEL_MODELS, "kernel": ModelEntry(KernelRegressionConfig, KernelRegression)},
    synthetic=SYNTHETIC_CURVES,
    datasets={},
    prepare=prepare_points,
    load_split=load_point_split,
    read_preprocessor=Points.from_json,
    components=lambda recipe: BY_SEARCH if recipe.model_name == "kernel" else BY_GRADIENT,
)
