"""doctor."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.cli.train import parse_overrides
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from saccade.workflows import Diagnosis
    from saccade.workflows.doctor import ColumnComparison

MAX_LISTED_COLUMNS = 10  # columns of a table that are listed, if so many differ


def doctor_command(
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="TRAIN LIVE", help="The table learned from, and the one of now."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of the labels.")] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="data.ignore or data.categories."),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="A picture: .png, .svg or .pdf.")] = None,
    save_weights: Annotated[
        Path | None, typer.Option(help="TRAIN with a column of weights, if they help.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""Say what is wrong, and the one thing to do next: has the world moved since training?

    \b
    saccade doctor --compare train.csv live.csv --target bought
    saccade doctor --compare train.csv live.csv --set data.ignore=id --save shift.png
    saccade doctor --compare train.csv live.csv --target bought --save-weights weighted.csv

    Which kind of shift lies between two tables, if any (of inputs, of labels or of concept), which
    columns speak for it, and what helps. Without labels only the inputs can be compared.
    """
    if compare is None:
        raise ConfigError(
            "doctor needs two tables: saccade doctor --compare train.csv live.csv --target COLUMN"
        )
    from saccade.config import Config, override_settings
    from saccade.data.tables.schema import ColumnsConfig
    from saccade.workflows import compare_tables

    class Settings(Config):
        data: ColumnsConfig = ColumnsConfig()

    found = compare_tables(
        *compare,
        label_column=target,
        columns=override_settings(Settings(), parse_overrides(set or [])).data,
        save=save,
        save_weights=save_weights,
    )
    if json:
        print_json(found.to_dict())
    else:
        _show(found)
    for note in found.notes:
        stderr_console().print(note)


def _show(found: "Diagnosis") -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"{found.summary}\n")
    console.print(_columns(found), "")
    if found.classes:
        console.print(_classes(found), "")
    told = found.domains
    console.print(
        f"Rows that were not seen are told apart with an AUC of {told.auc:.3f}; by chance it would "
        f"be {told.low:.3f} to {told.high:.3f}."
    )
    if found.losses is not None:
        losses, p = found.losses, found.p_values["answers"]
        console.print(
            f"A model of the first table loses {losses.source:.3f} a row on its own held-out rows "
            f"({losses.reweighted:.3f} weighted as the inputs of the second, "
            f"{losses.relabelled:.3f} as its classes) and {losses.target:.3f} on the second; that "
            f"its answers are as right there has a p of {p:.2g}."
        )
    console.print(f"\nNext: {found.next_step}")
    for command in found.commands:
        console.print(f"  {command}", soft_wrap=True)


def _columns(found: "Diagnosis") -> "Table":
    """Those that differ, or the first few; the others are counted."""
    differ = [column for column in found.columns if column.differs]
    listed = (differ or found.columns)[:MAX_LISTED_COLUMNS]
    made = make_table("column", "", *found.rows, "p", "")
    for column in listed:
        made.add_row(
            column.name,
            "mean" if column.value is None else f"share of {column.value}",
            _figures(column, column.source),
            _figures(column, column.target),
            f"{column.p:.2g}",
            "differs" if column.differs else "",
        )
    if len(found.columns) > len(listed):
        made.add_row(f"… {len(found.columns) - len(listed)} more")
    return made


def _figures(column: "ColumnComparison", figures: dict[str, float | None]) -> str:
    if column.value is not None:
        return f"{figures['share']:.1%}"
    mean, missing = figures["mean"], figures["missing"]
    absent = f"{missing:.1%} missing" if missing else ""
    if mean is None:
        return absent
    return f"{mean:.4g} ± {figures['deviation']:.3g}" + (f", {absent}" if absent else "")


def _classes(found: "Diagnosis") -> "Table":
    p = found.p_values["labels"]
    weighed = ["weight"] if found.kind == "label" else []
    made = make_table(f"class (p {p:.2g})", *found.rows, *weighed)
    for each in found.classes:
        weight = "" if each.weight is None else f"{each.weight:.3g}"
        shares = [each.name, f"{each.source:.1%}", f"{each.target:.1%}"]
        made.add_row(*shares, *([weight] if weighed else []))
    return made
