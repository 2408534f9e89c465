"""Settings of support vector machines. Does not import numba."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.types.limits import MAX_VALUE


class KernelMachineConfig(Config):
    """Settings of classification and regression by support vectors."""

    kernel: Literal["linear", "polynomial", "gaussian", "sigmoid"] = "gaussian"
    """Kernel function."""
    cost: float = Field(1.0, gt=0, le=MAX_VALUE)
    """C: cost of a unit of slack; a smaller cost allows more margin violations or larger errors."""
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


class SVMConfig(KernelMachineConfig):
    """Settings of a support vector machine."""

    name: Literal["svm"] = "svm"


class SVRConfig(KernelMachineConfig):
    """Settings of support vector regression."""

    name: Literal["svr"] = "svr"
    epsilon: float = Field(0.1, ge=0, le=MAX_VALUE)
    """ε: errors up to it cost nothing; in standard deviations of the target column of a table."""
