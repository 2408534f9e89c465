"""Settings of the kernel regression task."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.data.points import PointsConfig
from saccade.models.config import KernelAttentionConfig, KernelRegressionConfig
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig


class RegressionRecipe(Recipe):
    """Fit a curve to points by kernel regression.

    Two models compute the same function: `kernel` searches for its bandwidth, `attention` is built
    from the layers of `nn` and trained by the loop. Both minimise the leave-one-out error.
    """

    task: Literal["kernel-regression"] = "kernel-regression"
    data: PointsConfig = PointsConfig()
    model: Annotated[
        KernelRegressionConfig | KernelAttentionConfig, Field(discriminator="name")
    ] = KernelRegressionConfig()
    train: TrainConfig = TrainConfig()
