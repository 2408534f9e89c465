r"""Optimizers whose gradient is taken a step ahead of the weights.

With u the weights of the model, at which g is computed, and w the weights behind them:

    nesterov_lookahead   g = ∇f(w - α m),   m ← β m + (1 - β) g,   w ← w - α m
    nadam_lookahead      g = ∇f(w - d),     d = η m̂ / (√ŝ + ε) as in adam,   w ← w - d

u = w - α m or w - d: the last step is repeated before the gradient is taken. `nesterov` and `nadam`
are other forms of the same idea. `nesterov` (Sutskever et al. 2013) takes the gradient β of a step
ahead, of a velocity that is a sum and not an average; `nadam` (Dozat 2016) takes it at the weights
and corrects the momentum term instead. Weight decay is λ u, part of g.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from saccade.optim.param_groups import Params, decay_groups

BETA1, EPSILON = 0.9, 1e-8


class LookAhead(Optimizer):
    """Moves the weights of the model to the point at which the next gradient is taken."""

    def __init__(self, groups: Any, lr: float, beta1: float, beta2: float | None):
        super().__init__(groups, {"lr": lr})
        self.beta1, self.beta2 = beta1, beta2
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight] = {name: torch.zeros_like(weight) for name in self._kept}
                self.state[weight]["step"] = torch.zeros((), dtype=torch.float32)

    @property
    def _kept(self) -> tuple[str, ...]:
        return ("mean", "ahead") if self.beta2 is None else ("mean", "square", "ahead")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Make one step from the gradients of the weights."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    g = weight.grad + group["weight_decay"] * weight
                    update = group["lr"] * self._direction(self.state[weight], g)
                    ahead = self.state[weight]["ahead"]
                    weight += ahead - 2 * update  # back to w, the step, and the same step ahead
                    ahead.copy_(update)

    def _direction(self, state: dict[str, Tensor], g: Tensor) -> Tensor:
        state["step"] += 1
        mean = state["mean"].mul_(self.beta1).add_(g, alpha=1 - self.beta1)
        if self.beta2 is None:
            return mean
        t = float(state["step"])
        square = state["square"].mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
        spread = (square / (1 - self.beta2**t)).sqrt() + EPSILON
        return mean / (1 - self.beta1**t) / spread


def nesterov_lookahead(
    params: Params, lr: float, weight_decay: float = 0.0, momentum: float = 0.9
) -> LookAhead:
    """Nesterov momentum with an averaged velocity, whose gradient is taken at w - α m."""
    return LookAhead(decay_groups(params, weight_decay), lr, momentum, None)


def nadam_lookahead(
    params: Params, lr: float, weight_decay: float = 0.0, beta2: float = 0.999
) -> LookAhead:
    """Adam whose gradient is taken after its last step is repeated."""
    return LookAhead(decay_groups(params, weight_decay), lr, BETA1, beta2)
