"""One episode of an agent as data: pictures, values, actions and rewards. No torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.inspection.figures import LinePanel, LinePanels, PlotLine
from saccade.types.arrays import BoolArray, FloatArray, IntArray

MAX_OPEN_SHARE = 0.05  # of a discounted return, after the time limit ended an episode


@dataclass(frozen=True, eq=False)
class EpisodeRecord:
    """Values, actions and rewards of each step of an episode."""

    world: str
    model: str
    quantity: str  # of the numbers: "value", "probability" or "mean" (of continuous actions)
    names: Sequence[str]  # of the actions, or of their components
    numbers: FloatArray  # (T, A)
    actions: IntArray | FloatArray  # index of the action taken (T), or the vectors (T, A)
    rewards: FloatArray  # (T)
    discount: float
    is_cut_off: bool  # the time limit ended the episode
    predicted: FloatArray | None = None  # value of the step, where the agent has one (T)
    frames: Sequence[NDArray[np.uint8]] = ()  # pictures before each step (Y, X, 3)
    texts: Sequence[str] = ()  # the same as text, of environments that have it

    @property
    def total(self) -> float:
        """Undiscounted return."""
        return float(self.rewards.sum())

    @property
    def returns(self) -> FloatArray:
        """Discounted return that was obtained from each step on."""
        found, following = np.empty_like(self.rewards), 0.0
        for step in range(len(found) - 1, -1, -1):
            following = self.rewards[step] + self.discount * following
            found[step] = following
        return found

    @property
    def is_known(self) -> BoolArray:
        """Steps whose return is known: what a time limit cut off has hardly any weight."""
        left = np.arange(len(self.rewards), 0, -1)
        if not self.is_cut_off:
            return np.ones(len(left), bool)
        return np.asarray(self.discount**left < MAX_OPEN_SHARE)

    @property
    def overestimation(self) -> float | None:
        """Mean of the predicted value minus the return obtained; None: nothing to compare."""
        if self.predicted is None or not self.is_known.any():
            return None
        return float((self.predicted - self.returns)[self.is_known].mean())

    def panels(self) -> LinePanels:
        """Return the numbers of the actions, and values next to the returns obtained."""
        steps = np.arange(1, len(self.rewards) + 1, dtype=np.float64)
        lines = [
            PlotLine(name, steps, column)
            for name, column in zip(self.names, self.numbers.T, strict=True)
        ]
        panels = [
            LinePanel(f"{self.quantity.capitalize()} of each action", lines, "step", self.quantity),
            LinePanel(
                f"Rewards, {self.total:.4g} in total",
                [PlotLine("sum so far", steps, self.rewards.cumsum())],
                "step",
                "reward",
            ),
        ]
        if self.predicted is not None:
            known = self.is_known
            obtained = PlotLine("return obtained", steps[known], self.returns[known])
            over = self.overestimation
            title = "Value" if over is None else f"Value, {over:+.3g} against the return obtained"
            values = PlotLine("predicted value", steps, self.predicted)
            panels.insert(1, LinePanel(title, [values, obtained], "step", "discounted return"))
        return LinePanels(panels, f"{self.model} in {self.world}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; without pictures."""
        return {
            "world": self.world,
            "return": self.total,
            "length": len(self.rewards),
            "truncated": self.is_cut_off,
            "overestimation": self.overestimation,
            "actions": self.actions.tolist(),
            "rewards": self.rewards.tolist(),
            self.quantity: self.numbers.tolist(),
            "names": [*self.names],
            "values": None if self.predicted is None else self.predicted.tolist(),
        }
