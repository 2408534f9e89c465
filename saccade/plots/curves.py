"""Training curves of a run: loss, scores and learning rate over the steps."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import Record, TrainingCurves
from saccade.plots.style import (
    MUTED_COLOR,
    image_format,
    nested_lines,
    style_axes,
    use_log_axis,
    write_figure,
)

# keys of a record that are no scores; they are drawn in another panel or not at all
NON_SCORE_KEYS = {
    "step",
    "loss",
    "rate",
    "learning_rate",
    "seconds",
    "minutes",
    "epoch",
    "tokens",
    "norm",
    "ratio",
}
SCORE_LABEL = "score (of 100)"
FORMER_METRIC_NAMES = {"taught_bleu": "d2l_bleu"}  # of runs of earlier versions


def save_training_curves(records: Sequence[Record] | TrainingCurves, path: Path) -> list[str]:
    """Draw loss, scores and learning rate over the steps, and mark the step that was kept.

    A dotted line marks the step from which on another optimizer made the updates.

    Where a step was logged twice (a resumed run), the later record counts. Returns warnings.
    """
    curves = records if isinstance(records, TrainingCurves) else TrainingCurves(records)
    format = image_format(path)
    write_figure(curves_figure(curves), path, format)
    values = [value for record in curves.records for value in numeric_values(record)]
    non_finite = sum(not math.isfinite(value) for value in values)
    return [f"Values that are not finite were left out: {non_finite}."] if non_finite else []


def curves_figure(curves: TrainingCurves) -> Figure:
    """Return the figure: one panel per kind of metric that the records have."""
    records = curves.records
    losses = {
        "training": metric_series(records, "loss"),
        "held out": metric_series(records, "dev_loss"),
    }
    scores = {name: metric_series(records, name) for name in score_names(records)}
    rate = {"learning rate": metric_series(records, "learning_rate")}
    panels = [(losses, "loss", 3.0), (scores, SCORE_LABEL, 2.2), (rate, "learning rate", 1.1)]
    filled = [panel for panel in panels if any(len(points) for points in panel[0].values())]
    if not filled:
        raise ValueError(
            f"got {len(records)} records, none with a step and a metric; expected at least one: "
            "train for some steps first."
        )
    heights = [height for _, _, height in filled]
    figure = Figure(figsize=(8, sum(heights) + 0.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(filled), 1, sharex=True, squeeze=False, height_ratios=heights)
    for position, (panel, (lines, name, _)) in enumerate(
        zip(axes.flatten().tolist(), filled, strict=True)
    ):
        if curves.best_step is not None:
            draw_best_step(panel, curves.best_step, labelled=position == 0)
        for step, optimizer in curves.switches.items():
            label = f"{optimizer} from step {step:,}" if position == 0 else None
            panel.axvline(step, color=MUTED_COLOR, lw=1.0, ls=":", zorder=0.5, label=label)
        draw_lines(panel, lines, name)
    axes[-1, 0].set_xlabel("step", color=MUTED_COLOR, fontsize=9)
    figure.align_ylabels()
    return figure


def draw_best_step(axes: Axes, step: int, labelled: bool) -> None:
    """Draw a dashed vertical line at the step whose weights were kept."""
    label = f"kept weights: step {step:,}" if labelled else None
    axes.axvline(step, color=MUTED_COLOR, lw=1.0, ls=(0, (4, 3)), zorder=0.5, label=label)


def numeric_values(record: Record) -> list[int | float]:
    """Return the numbers of a record."""
    return [value for value in record.values() if is_plottable(value)]


def is_plottable(value: object) -> bool:
    """True for numbers; booleans are flags."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def score_names(records: Sequence[Record]) -> list[str]:
    """Return the metrics that are scores: fractions from 0 to 1, BLEU and chrF."""
    names = dict.fromkeys(name for record in records for name in record)
    return [name for name in names if is_score(name, metric_series(records, name))]


def is_score(name: str, points: np.ndarray) -> bool:
    """True for a metric that belongs in the score panel."""
    if name in NON_SCORE_KEYS or name.endswith(("loss", "rate", "perplexity", "width")):
        return False
    if "rmse" in name or not len(points):  # an RMSE is in the units of the data
        return False
    return is_percentage(name) or bool(0 <= points[:, 1].min() <= points[:, 1].max() <= 1)


def is_percentage(name: str) -> bool:
    """True for metrics from 0 to 100 (`d2l_bleu` is from 0 to 1)."""
    return name.removeprefix("dev_") in {"bleu", "chrf"}


def metric_label(name: str) -> str:
    """Return the name of a metric in a legend; earlier names are replaced."""
    for former, current in FORMER_METRIC_NAMES.items():
        name = name.replace(former, current)
    return name.replace("_", " ")


def metric_series(records: Sequence[Record], name: str) -> np.ndarray:
    """Return (N, 2) steps and finite values of a metric, sorted by step."""
    latest = {
        record["step"]: float(record[name])
        for record in records
        if "step" in record and is_plottable(record.get(name)) and math.isfinite(record[name])
    }
    return np.array(sorted(latest.items()), dtype=float).reshape(-1, 2)


def draw_lines(axes: Axes, lines: dict[str, np.ndarray], name: str) -> None:
    """Draw one line per metric, its last value in the legend.

    Scores may coincide at 100: each line is thinner than the one below it.
    """
    is_score_panel = name == SCORE_LABEL
    drawn = {label: points for label, points in lines.items() if len(points)}
    styles = nested_lines(len(drawn), 0.9 if is_score_panel else 0.0)
    for (label, points), (colour, width) in zip(drawn.items(), styles, strict=True):
        factor = 100 if is_score_panel and not is_percentage(label) else 1
        values = points[:, 1] * factor
        marker = "o" if len(points) <= 40 else ""
        label = f"{metric_label(label)} {values[-1]:.4g}"
        axes.plot(
            points[:, 0], values, color=colour, lw=width, marker=marker, ms=2 + width, label=label
        )
    values = np.concatenate([points[:, 1] for points in lines.values()])
    if name == "loss" and values.min() > 0 and values.max() > 20 * values.min():
        use_log_axis(axes)
    if is_score_panel:
        axes.set_ylim(-3, 103)
    style_axes(axes, name, legend=name != "learning rate")
