"""The kernel regression task. Does not import torch."""

from saccade.data.points import SYNTHETIC_CURVES, Points
from saccade.models.config import KernelRegressionConfig
from saccade.models.registry import KERNEL_MODELS, ModelEntry
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.kernel_regression.config import RegressionRecipe

ALL_KERNEL_MODELS = {
    **KERNEL_MODELS,
    "kernel": ModelEntry(
        KernelRegressionConfig, "saccade.estimators.kernel_regression:KernelRegression"
    ),
}

KERNEL_REGRESSION: AnyTaskSpec = TaskSpec(
    name="kernel-regression",
    summary="curve fitting by kernel regression, as an estimator and as attention",
    recipe=RegressionRecipe,
    models=ALL_KERNEL_MODELS,
    synthetic=SYNTHETIC_CURVES,
    datasets={},
    prepare=import_when_called("saccade.tasks.kernel_regression.data:prepare_points"),
    load_split=import_when_called("saccade.tasks.kernel_regression.data:load_point_split"),
    read_preprocessor=Points.from_json,
    components=import_when_called("saccade.tasks.kernel_regression.components:curve_components"),
)
