"""Settings of support vector machines. Does not import numba."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.types.limits import MAX_VALUE


class SVMConfig(Config):
    """Settings of a support vector machine."""

    name: Literal["svm"] = "svm"
    kernel: Literal["linear", "polynomial", "gaussian", "sigmoid"] = "gaussian"
    """Kernel function."""
    cost: float = Field(1.0, gt=0, le=MAX_VALUE)
    """C: cost of a unit of slack; a smaller cost allows more margin violations."""
    gamma: float | None = Field(None, gt=0, le=MAX_VALUE)
    """γ of the kernel; 1 / (D · variance of all inputs) if not set."""
    degree: int = Field(3, ge=1, le=100)
    """d of the polynomial kernel."""
    offset: float = Field(0.0, ge=-MAX_VALUE, le=MAX_VALUE)
    """r of the polynomial and the sigmoid kernel."""
    tolerance: float = Field(1e-3, gt=0, le=MAX_VALUE)
    """Largest violation of the optimality conditions (libsvm: -e)."""
    cache_megabytes: float = Field(200.0, gt=0, le=MAX_VALUE)
    """Memory for rows of the kernel matrix."""
