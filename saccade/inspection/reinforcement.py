"""Values, policies and learning of small worlds as data to draw. No torch."""

from collections.abc import Mapping, Sequence

import numpy as np

from saccade.inspection.figures import (
    HeatMap,
    HeatMapGrid,
    LinePanel,
    LinePanels,
    PlotLine,
    running_mean,
)
from saccade.types.arrays import BoolArray, FloatArray

MAX_LINE_POINTS = 400  # of a line
SMOOTHED_SHARE = 20  # a running mean is over this part of a line
MIN_LABEL_GAP = 0.15  # between labelled points, of the width of a panel
MIN_RESIDUAL = 1e-16  # below it, log10 is cut


def grid_map(
    values: FloatArray,
    texts: Sequence[str],
    grid: tuple[int, int],
    title: str,
    visible: BoolArray | None = None,
) -> HeatMap:
    """Return a map of a grid world: a value (colour) and a text for each cell.

    States that are not visible, because no episode visits them, are blank.
    """
    rows, columns = grid
    hidden = np.zeros(len(values), bool) if visible is None else ~visible
    cells = ["" if is_hidden else text for text, is_hidden in zip(texts, hidden, strict=True)]
    return HeatMap(
        np.where(hidden, np.nan, values).reshape(grid),
        [str(row) for row in range(rows)],
        [str(column) for column in range(columns)],
        title,
        "column",
        "row",
        cells=[cells[row * columns : (row + 1) * columns] for row in range(rows)],
    )


def policy_map(
    action_values: FloatArray,
    arrows: Sequence[str],
    grid: tuple[int, int],
    title: str,
    visible: BoolArray,
) -> HeatMap:
    """Return the value of the best action of each cell, with its arrow."""
    best = action_values.argmax(axis=1)
    values = action_values.max(axis=1)
    texts = [f"{arrows[a]} {v:.3g}" for a, v in zip(best.tolist(), values.tolist(), strict=True)]
    return grid_map(values, texts, grid, title, visible)


def bandit_panels(
    regrets: Mapping[str, FloatArray], best: Mapping[str, FloatArray], constant: float, title: str
) -> LinePanels:
    """Return the mean regret of each method with the lower bound, and how often it is right."""
    steps = len(next(iter(regrets.values())))
    x = np.arange(1, steps + 1, dtype=np.float64)
    at = _thinned(steps)
    lines = [PlotLine(name, x[at], regret[at]) for name, regret in regrets.items()]
    bound = PlotLine("lower bound, ln T times its constant", x[at], constant * np.log(x[at]))
    shares = [PlotLine(name, *_smoothed(x, share)) for name, share in best.items()]
    return LinePanels(
        [
            LinePanel("cumulative regret", [*lines, bound], "step", "regret"),
            LinePanel("best arm taken", shares, "step", "share of the runs"),
        ],
        title,
    )


def planning_panels(
    residuals: Mapping[str, Sequence[float]], evaluations: Sequence[int], title: str
) -> LinePanels:
    """Return the Bellman residual of each planner over its sweeps; points: a new policy."""
    panels = []
    for name, values in residuals.items():
        x = np.arange(1, len(values) + 1, dtype=np.float64)
        y = np.log10(np.maximum(values, MIN_RESIDUAL))
        points, labelled = [], -np.inf
        for number, end in enumerate(np.cumsum(evaluations).tolist()[:-1], start=2):
            if name == "policy iteration" and end - labelled > MIN_LABEL_GAP * len(values):
                points.append((f"policy {number}", float(end), float(y[end - 1])))
                labelled = end
        line = PlotLine(name, x, y)
        panels.append(LinePanel(name, [line], "sweep", "log₁₀ Bellman residual", points))
    return LinePanels(panels, title)


def learning_panels(returns: Mapping[str, FloatArray], title: str) -> LinePanels:
    """Return the mean return of each method over its episodes, smoothed."""
    lines = []
    for name, values in returns.items():
        x = np.arange(1, len(values) + 1, dtype=np.float64)
        lines.append(PlotLine(name, *_smoothed(x, values)))
    return LinePanels([LinePanel("return while learning", lines, "episode", "return")], title)


def visit_maps(
    visits: Mapping[str, FloatArray],
    titles: Mapping[str, str],
    grid: tuple[int, int],
    visible: BoolArray,
    title: str,
) -> HeatMapGrid:
    """Return for each method the share of greedy episodes that visit each cell."""
    maps = []
    for name, shares in visits.items():
        texts = [f"{share:.2f}" if share else "" for share in shares.tolist()]
        map = grid_map(shares, texts, grid, titles[name], visible)
        maps.append(map._replace(limits=(0.0, 1.0)))
    return HeatMapGrid(maps, title)


def error_panels(
    learned: Mapping[str, FloatArray],
    episodes: FloatArray,
    estimated: Mapping[str, FloatArray],
    counts: FloatArray,
    title: str,
) -> LinePanels:
    """Return errors of Q-learning by behaviour, and of off-policy estimates by episodes."""
    return LinePanels(
        [
            LinePanel(
                "Q-learning without ratios: largest error of q",
                [PlotLine(name, episodes, errors) for name, errors in learned.items()],
                "episodes",
                "|q - q*|",
            ),
            LinePanel(
                "estimates with ratios: error of v",
                [PlotLine(name, counts, errors) for name, errors in estimated.items()],
                "log₂ episodes",
                "log₁₀ error",
            ),
        ],
        title,
    )


def _thinned(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, MAX_LINE_POINTS).round().astype(int))


def _smoothed(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means over the points up to each one."""
    window = max(len(y) // SMOOTHED_SHARE, 1)
    at = _thinned(len(y) - window + 1) + window - 1
    return x[at], running_mean(y, window)[at]
