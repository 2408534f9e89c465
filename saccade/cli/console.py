"""Rich consoles, tables and number formats of the command line."""

import json
import math
from typing import Any

from rich.console import Console
from rich.table import Table

from saccade.types.results import Evaluation

COUNT_NAMES = ("examples", "rows", "tokens")


def stderr_console() -> Console:
    """Return the console for everything that is not a result."""
    # no markup: [b] and :b: in a message belong to the user's data
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print one JSON value on a line of standard output; NaN and infinity become null."""
    print(json.dumps(_finite(value), ensure_ascii=False), flush=True)


def _finite(value: Any) -> Any:
    """Replace numbers that JSON cannot hold by None."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _finite(item) for name, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


def make_table(*columns: str) -> Table:
    """Return an empty table without borders."""
    table = Table(box=None, pad_edge=False, show_header=bool(columns), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def scores_table(evaluation: Evaluation) -> Table:
    """Return a table of metrics, the scores of trivial baselines, and conventions."""
    baselines = list(evaluation.floors)
    table = make_table("metric", "value", *baselines, "convention")
    for name, value in evaluation.metrics.items():
        floors = [evaluation.floors[baseline].get(name) for baseline in baselines]
        cells = ["" if floor is None else format_metric(name, floor) for floor in floors]
        convention = evaluation.conventions.get(name, "")
        table.add_row(name, format_metric(name, value), *cells, convention)
    return table


def confusion_table(evaluation: Evaluation, max_classes: int = 20) -> Table | None:
    """Return the confusion matrix as a table; None without classes or with too many."""
    confusion = evaluation.tables.get("confusion")
    if confusion is None or len(confusion["classes"]) > max_classes:
        return None
    table = make_table("true ↓  predicted →", *confusion["classes"])
    for name, counts in zip(confusion["classes"], confusion["counts"], strict=True):
        table.add_row(name, *map(str, counts))
    return table


def format_metric(name: str, value: float) -> str:
    """Format a metric for a table."""
    if name.endswith("exact"):
        return f"{100 * value:.2f} %"
    if name in COUNT_NAMES:
        return f"{value:,.0f}"
    return f"{value:.2f}" if name.startswith(("bleu", "chrf")) else f"{value:.4g}"
