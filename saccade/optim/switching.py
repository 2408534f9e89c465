r"""One optimizer for the first steps of a training, another one for the rest: Adam, then SGD.

Adaptive optimizers converge fast at first; gradient descent often ends at weights that generalise
better (SWATS, Keskar and Socher 2017). With p a step of the first optimizer and g the gradient it
was made with, the step -γ g of gradient descent has p as its projection on p if

    γ = pᵀ p / (-pᵀ g).

The paper averages γ over the steps. That mean is dominated by steps with pᵀ g near 0, so here
numerator and denominator are averaged, both without the learning rate η of their step:

    γ̄ = Σ_t a_t pᵀp / η_t² / Σ_t a_t (-pᵀg) / η_t,    a_t = 0.99^{T-t},

the factor between the learning rates of the two optimizers. With torch's momentum, a constant
gradient moves the weights by η / (1 - β) times it, so that γ̄ is multiplied by 1 - β.

Decoupled weight decay shrinks the weights by η λ in a step. As a penalty with the larger learning
rate of gradient descent, λ would shrink them γ̄ times as much, and is divided by γ̄ after `adamw`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.optim import Optimizer

from saccade.optim.param_groups import set_learning_rate

ESTIMATE_DECAY = 0.99  # of the averages: the last hundred steps
STATE_KEY = "switch"  # in the state of the first weight


class SwitchState(NamedTuple):
    """Number of steps, and the averages of the estimated learning rate."""

    steps: int = 0
    squares: float = 0.0  # of pᵀ p
    products: float = 0.0  # of -pᵀ g

    @property
    def lr_factor(self) -> float:
        """Learning rate of gradient descent over that of the first optimizer; 1 if unknown."""
        return self.squares / self.products if min(self.squares, self.products) > 0 else 1.0


class SwitchingOptimizer(Optimizer):
    """Delegates its steps to the first optimizer, and after `switch_step` of them to the second.

    The state of the first is dropped at the switch. Parameter groups, state and learning rate are
    those of the active one.

    Args:
        first: makes the first steps.
        second: makes the others, with the same parameters.
        switch_step: number of steps of the first.
        lr_factor: learning rate of the second over that of the first, applied by
            `set_learning_rate`; None: estimated.
        step_length: 1 - β of a second optimizer whose momentum sums gradients; the estimate is
            multiplied by it.
        decoupled_decay: the weight decay of the first is not part of its gradient.
    """

    def __init__(
        self,
        first: Optimizer,
        second: Optimizer,
        switch_step: int,
        lr_factor: float | None = None,
        step_length: float = 1.0,
        decoupled_decay: bool = False,
    ):
        super().__init__([{**group} for group in first.param_groups], {})
        self.first, self.second, self.switch_step = first, second, switch_step
        self.lr_factor, self.step_length = lr_factor, step_length
        self.decoupled_decay = decoupled_decay
        self.switch_state = SwitchState()
        self._select()

    def _select(self) -> None:
        """Take parameter groups and state from the optimizer that makes the next step."""
        self.active = self.first if self.switch_state.steps < self.switch_step else self.second
        self.param_groups, self.state = self.active.param_groups, self.active.state

    def _switch(self) -> None:
        """Drop the state of the first optimizer and set the rates of the second."""
        self.first.state.clear()
        factor = self.lr_factor
        if factor is None:
            factor = self.switch_state.lr_factor * self.step_length
        for before, group in zip(self.first.param_groups, self.second.param_groups, strict=True):
            group["lr_factor"] = factor
            if self.decoupled_decay:
                group["weight_decay"] = before["weight_decay"] * self.step_length / factor
        set_learning_rate(self.second, self.first.param_groups[0]["lr"])

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Make one step of the active optimizer."""
        is_estimated = self.active is self.first and self.lr_factor is None
        before = self._weights_and_gradients() if is_estimated else []
        self.active.step()
        steps, squares, products = self.switch_state
        for group_lr, weight, old, gradient in before:
            move = (weight.detach() - old).flatten() / group_lr
            squares += float(move @ move)
            products -= float(move @ gradient.flatten())
        if is_estimated:
            squares, products = ESTIMATE_DECAY * squares, ESTIMATE_DECAY * products
        self.switch_state = SwitchState(steps + 1, squares, products)
        if steps + 1 == self.switch_step:
            self._switch()
            self._select()

    def _weights_and_gradients(self) -> list[tuple[float, Tensor, Tensor, Tensor]]:
        return [
            (group["lr"], weight, weight.detach().clone(), weight.grad)
            for group in self.param_groups
            for weight in group["params"]
            if weight.grad is not None and group["lr"] > 0
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the active optimizer, with the number of steps."""
        found = self.active.state_dict()
        state = found["state"]
        return {
            **found,
            "state": {**state, 0: {**state.get(0, {}), STATE_KEY: list(self.switch_state)}},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; of the parameter groups, the learning rates only."""
        first = dict(state_dict["state"][0])
        steps, squares, products = first.pop(STATE_KEY)
        self.switch_state = SwitchState(int(steps), float(squares), float(products))
        state = {**state_dict["state"], 0: first}
        self._select()
        if self.active is self.second:
            self._switch()
        groups = self.active.state_dict()["param_groups"]
        for group, saved in zip(groups, state_dict["param_groups"], strict=True):
            group["lr"] = saved["lr"]
        self.active.load_state_dict({"state": state, "param_groups": groups})
        self._select()
