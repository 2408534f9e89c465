r"""Support vector regression with kernels (Drucker et al. 1997, Smola and Schölkopf 2004).

With f(x) = w·φ(x) + b, errors up to ε cost nothing (the ε-insensitive loss), and larger ones C per
unit beyond it:

    primal   minimise ½‖w‖² + C Σ_t max(0, |y_t - f(x_t)| - ε)
    dual     maximise Σ_t y_t (α_t - α*_t) - ε Σ_t (α_t + α*_t)
                      - ½ Σ_st (α_s - α*_s) (α_t - α*_t) K(x_s, x_t)
             where Σ_t (α_t - α*_t) = 0 and 0 ≤ α_t, α*_t ≤ C

α_t is the multiplier of y_t - f(x_t) ≤ ε + ξ_t, α*_t that of f(x_t) - y_t ≤ ε + ξ*_t. This is the
dual of `estimators.svm.smo` with every row twice: signs +1 and p = ε - y for α, signs -1 and
p = ε + y for α*. f(x) = Σ_t (α_t - α*_t) K(x_t, x) + b; rows within ε have α = α* = 0 and are
dropped. Equal to scikit-learn's SVR (libsvm).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.svm.config import SVRConfig
from saccade.estimators.svm.smo import DualConstants
from saccade.estimators.svm.svm import (
    DualFit,
    KernelMachine,
    check_training_data,
    dual_bias,
    dual_fit,
)
from saccade.types.arrays import FloatArray


class SVR(KernelMachine):
    """Regression of a number on rows of numbers; scale columns and target before fitting."""

    config: SVRConfig

    def __init__(self, config: SVRConfig | None = None):
        super().__init__(config or SVRConfig())
        self.fits: list[DualFit] = []  # one, when fitted

    def fit(
        self, inputs: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any] | None = None
    ) -> "SVR":
        """Solve the dual; a row's weight multiplies its C."""
        points, weight = check_training_data(inputs, targets, weights)
        y = np.asarray(targets, np.float64)
        if not weight.any() or not np.isfinite(y).all():
            raise ValueError(
                f"got {len(y)} rows, {int((weight > 0).sum())} of them with weight, and targets "
                f"from {y.min(initial=0):.3g} to {y.max(initial=0):.3g}; expected a row with "
                "weight, and finite targets."
            )
        self._choose_gamma(points)
        epsilon, ones = self.config.epsilon, np.ones(len(y))
        constants = DualConstants(
            np.concatenate([epsilon - y, epsilon + y]),
            np.concatenate([ones, -ones]),
            np.tile(self.config.cost * weight, 2),
        )
        solution = self._solve(points, constants)
        bias = dual_bias(solution, constants)
        above, below = np.split(solution.alpha, 2)
        self.biases, self.fits = np.array([bias]), [dual_fit(solution, constants, bias)]
        self._keep_support(points, (above - below)[None])
        return self

    def predict(self, inputs: NDArray[Any]) -> FloatArray:
        """Return f(x), (N,)."""
        return self.decision_function(inputs)

    def losses(self, inputs: NDArray[Any], targets: NDArray[Any]) -> FloatArray:
        r"""Return max(0, |y - f(x)| - ε), (N,)."""
        errors = np.abs(np.asarray(targets) - self.predict(inputs))
        return np.maximum(errors - self.config.epsilon, 0)

    @classmethod
    def from_arrays(cls, config: SVRConfig, arrays: dict[str, NDArray[Any]]) -> "SVR":
        """Restore a model from the arrays of `to_arrays`."""
        model = cls(config)
        model.load_arrays(arrays, 1)
        return model
