"""How things look on a screen."""

import json
from typing import Any

from rich.console import Console
from rich.table import Table


def stderr_console() -> Console:
    """Where everything goes that is not an answer."""
    # [b] and :b: in a message are somebody's text, not ours to read as bold and as a picture
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """One JSON value on a line of standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def make_table(*columns: str) -> Table:
    """A table in the house's form."""
    made = Table(box=None, pad_edge=False, show_header=bool(columns), header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def scores_table(scores: dict[str, Any]) -> Table:
    """Figures with the convention of each."""
    made = make_table("figure", "value", "counted as")
    conventions = scores.get("conventions", {})
    for name, value in scores.items():
        if isinstance(value, int | float):
            made.add_row(name, format_metric(name, value), conventions.get(name, ""))
    return made


def confusion_table(scores: dict[str, Any], max_classes: int = 20) -> Table | None:
    """How often each class was taken for each, if there are classes and they are few."""
    found = scores.get("confusion")
    if found is None or len(found["classes"]) > max_classes:
        return None
    made = make_table("is ↓  said →", *found["classes"])
    for name, counts in zip(found["classes"], found["counts"], strict=True):
        made.add_row(name, *map(str, counts))
    return made


def format_metric(name: str, value: float) -> str:
    """A figure as people read it."""
    if name.endswith("exact"):
        return f"{100 * value:.2f} %"
    if name in ("examples", "tokens"):
        return f"{value:,.0f}"
    return f"{value:.2f}" if name.startswith(("bleu", "chrf")) else f"{value:.4g}"
