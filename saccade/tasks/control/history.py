"""Episodes of a training: their returns over the environment steps."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from saccade.inspection.figures import Figure, LinePanel, LinePanels, PlotLine, running_mean


class History:
    """Environment step, return and length of every episode that has ended."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float]] = []

    def add(self, step: int, total: float, length: int) -> None:
        """Record the end of an episode."""
        self.rows.append((step, total, length))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the episodes so far."""
        return {"history": torch.tensor(self.rows, dtype=torch.float64).reshape(-1, 3)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.rows = [tuple(row) for row in state["history"].tolist()]

    def figures(self, extra: list[LinePanel]) -> dict[str, Figure]:
        """Return the returns and lengths of the episodes over the environment steps."""
        if not self.rows:
            return {}
        steps, returns, lengths = np.array(self.rows).T
        panels = [
            _panel("Return of each training episode", steps, returns, "return"),
            _panel("Length of each training episode", steps, lengths, "steps"),
            *extra,
        ]
        return {"episodes.png": LinePanels(panels)}


def _panel(title: str, steps: np.ndarray, values: np.ndarray, label: str) -> LinePanel:
    window = min(50, len(values))
    lines = [
        PlotLine("episode", steps, values),
        PlotLine(f"mean of {window}", steps, running_mean(values, window)),
    ]
    return LinePanel(title, lines, "environment steps", label)
