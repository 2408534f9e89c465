"""Rich consoles, tables and number formats of the command line."""

import json
import math
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from saccade.training.progress import is_live
from saccade.types.results import Evaluation

MAX_TERMINAL_WIDTH = 120  # columns of a map
COUNT_NAMES = ("examples", "rows", "tokens")
_UNSAFE_IN_JSON = re.compile("[\x85\u2028\u2029\ud800-\udfff]")  # json.dumps keeps them
_quiet = False


def set_quiet(quiet: bool) -> None:
    """Print nothing but results and errors from now on (--quiet), or everything."""
    global _quiet
    _quiet = quiet


def stderr_console() -> Console:
    """Return the console for everything that is not a result."""
    # no markup: [b] and :b: in a message belong to the user's data
    return Console(stderr=True, highlight=False, markup=False, emoji=False, quiet=_quiet)


def stdout_console() -> Console:
    """Return the console for results; it has colours as NO_COLOR, FORCE_COLOR and TERM allow."""
    return Console(highlight=False, markup=False, emoji=False)


def has_colour(console: Console) -> bool:
    """Return True if a console prints colours."""
    return console.color_system is not None and not console.no_color


@contextmanager
def transient_line(text: str) -> Iterator[None]:
    """Show a line in a terminal until the block ends; elsewhere nothing."""
    console = stderr_console()
    if _quiet or not is_live(console):
        yield
        return
    sys.stderr.write(text)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r" + " " * len(text) + "\r")
        sys.stderr.flush()


def load_torch() -> None:
    """Import torch, which takes seconds, with a line in the terminal meanwhile."""
    if "torch" not in sys.modules:
        with transient_line("Loading PyTorch …"):
            import torch  # noqa: F401


def json_line(value: Any) -> str:
    """Return a value as JSON without line breaks; NaN and infinity become null.

    Every character can be read back, those that end a line in some readers too.
    """
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(value: Any) -> None:
    """Print one JSON value on a line of standard output."""
    print(json_line(value), flush=True)


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


def scores_table(evaluation: Evaluation, headline: Collection[str] | None = None) -> Table:
    """Return a table of metrics, the scores of trivial baselines, and conventions.

    With `headline`, only these metrics and the number of examples.
    """
    listed = None if headline is None else {*headline, *COUNT_NAMES}
    baselines = list(evaluation.floors)
    table = make_table("metric", "value", *baselines, "convention")
    for name, value in evaluation.metrics.items():
        if listed is not None and name not in listed:
            continue
        floors = [evaluation.floors[baseline].get(name) for baseline in baselines]
        cells = ["" if floor is None else format_metric(name, floor) for floor in floors]
        convention = evaluation.conventions.get(name, "")
        table.add_row(name, format_metric(name, value), *cells, convention)
    omitted: dict[str, list[str]] = {}
    for name, reason in evaluation.omitted.items():
        if listed is None or name in listed:
            omitted.setdefault(reason, []).append(name)
    for reason, names in omitted.items():  # each reason once
        table.add_row("\n".join(names), "–", *("" for _ in baselines), f"left out: {reason}")
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


MAX_LISTED_MISTAKES = 5


def listed_tables(evaluation: Evaluation, all: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of rows that an evaluation has, by title: mistakes, with `all` also scores.

    Of the mistakes a few are listed unless all are asked for.
    """
    mistakes = evaluation.tables.get("mistakes", [])
    tables = {"Most confident mistakes:": mistakes[: None if all else MAX_LISTED_MISTAKES]}
    if all:
        tables["By class:"] = evaluation.tables.get("classes", [])
        tables["By confidence:"] = evaluation.tables.get("reliability", [])
    return {title: rows for title, rows in tables.items() if rows}


def rows_table(rows: list[dict[str, Any]]) -> Table:
    """Return a table with a column for each key of the rows."""
    table = make_table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table


def format_metric(name: str, value: float) -> str:
    """Format a metric for a table."""
    if name.endswith("exact"):
        return f"{100 * value:.2f} %"
    if name in COUNT_NAMES:
        return f"{value:,.0f}"
    return f"{value:.2f}" if name.startswith(("bleu", "chrf")) else f"{value:.4g}"
