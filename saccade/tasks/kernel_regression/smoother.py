"""The fitted curve, whichever model computes it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saccade.data.points import Points
from saccade.estimators.kernel_regression import (
    KernelEstimate,
    KernelRegression,
    leave_one_out_error,
)
from saccade.models.config import KernelRegressionConfig
from saccade.models.kernel_attention import KernelAttention
from saccade.tasks.kernel_regression.config import RegressionRecipe
from saccade.tasks.kernel_regression.objective import leave_one_out_loss
from saccade.tasks.neural import build_network, device_of
from saccade.types.arrays import FloatArray


class KernelModel:
    """A kernel regression whose state is its bandwidth."""

    def __init__(self, config: KernelRegressionConfig, points: Points):
        self.regression = KernelRegression(config.bandwidth, config.kernel)
        self.regression.keys, self.regression.values = points.x[:, None], points.y

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the kernel."""
        assert self.regression.bandwidth is not None
        return self.regression.bandwidth

    def state_dict(self) -> dict[str, Tensor]:
        """Return the bandwidth, under the key that run folders use."""
        return {"width": torch.tensor(self.bandwidth, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the bandwidth."""
        if state.keys() != {"width"}:
            raise RuntimeError(f"got {', '.join(state)}; expected width")
        bandwidth = float(state["width"])
        if not 0 < bandwidth < inf:
            raise ValueError(f"got a bandwidth of {bandwidth}; expected a positive number")
        self.regression.bandwidth = bandwidth


AnyKernelModel = KernelModel | KernelAttention


def build_kernel_model(recipe: RegressionRecipe, points: Points) -> AnyKernelModel:
    """Build the model of a recipe."""
    if isinstance(recipe.model, KernelRegressionConfig):
        return KernelModel(recipe.model, points)
    bandwidth = recipe.model.initial_bandwidth
    assert bandwidth is not None
    keys, values = torch.from_numpy(points.x), torch.from_numpy(points.y)
    return build_network(recipe, lambda: KernelAttention(bandwidth, keys, values))


class Smoother(ABC):
    """A curve f(x) = Σ_i α(x, x_i) y_i."""

    def __init__(self, points: Points):
        self.points = points

    @property
    @abstractmethod
    def bandwidth(self) -> float:
        """Current bandwidth of the kernel."""

    @abstractmethod
    def estimate(self, queries: FloatArray) -> KernelEstimate:
        """Return the estimate at each query, and its weight on each point."""

    @abstractmethod
    def leave_one_out(self, limit: int | None) -> tuple[float, int]:
        """Return the mean squared leave-one-out error, and of how many points it is."""

    def predict_at(self, queries: FloatArray) -> FloatArray:
        """Return the estimate at each query; the mean of y where no point is in reach."""
        values, weights = self.estimate(queries)
        return np.where(weights.sum(axis=1) > 0, values, self.points.y.mean())


class _KernelSmoother(Smoother):
    def __init__(self, model: KernelModel, points: Points):
        super().__init__(points)
        self.model = model

    @property
    def bandwidth(self) -> float:
        return self.model.bandwidth

    def estimate(self, queries: FloatArray) -> KernelEstimate:
        return self.model.regression.predict(queries)

    def leave_one_out(self, limit: int | None) -> tuple[float, int]:
        x, y = self.points.x, self.points.y
        return leave_one_out_error(x, y, self.bandwidth, self.model.regression.kernel), len(x)


class _AttentionSmoother(Smoother):
    def __init__(self, model: KernelAttention, points: Points):
        super().__init__(points)
        self.model = model

    @property
    def bandwidth(self) -> float:
        return self.model.bandwidth

    @torch.no_grad()
    def estimate(self, queries: FloatArray) -> KernelEstimate:
        weights = self.model.weights(torch.from_numpy(queries).to(device_of(self.model)))
        return KernelEstimate((weights @ self.model.values).cpu().numpy(), weights.cpu().numpy())

    def leave_one_out(self, limit: int | None) -> tuple[float, int]:
        return leave_one_out_loss(self.model, limit)


def smoother_of(model: AnyKernelModel, points: Points) -> Smoother:
    """Return the curve that a model computes."""
    if isinstance(model, KernelModel):
        return _KernelSmoother(model, points)
    return _AttentionSmoother(model, points)
