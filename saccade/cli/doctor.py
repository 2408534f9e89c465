"""`saccade doctor`: diagnose distribution shift between two tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import load_torch, make_table, print_json, stderr_console
from saccade.cli.opening import check_file
from saccade.cli.options import ImageOption, JsonOption, parse_overrides
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from saccade.workflows import Diagnosis
    from saccade.workflows.doctor import ColumnComparison

MAX_LISTED_COLUMNS = 10


def doctor_command(
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="TRAIN LIVE", help="Reference and current data, both tables."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Label column.")] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="data.ignore, data.categories, data.encoding, data.delimiter or data.header.",
        ),
    ] = None,
    save: ImageOption = None,
    save_weights: Annotated[
        Path | None,
        typer.Option(help="Write TRAIN with a column of importance weights, if they help."),
    ] = None,
    json: JsonOption = False,
) -> None:
    r"""Diagnose distribution shift between training and current data, and recommend a remedy.

    \b
    saccade doctor --compare train.csv live.csv --target bought
    saccade doctor --compare train.csv live.csv --set data.ignore=id --save shift.png
    saccade doctor --compare train.csv live.csv --target bought --save-weights weighted.csv

    Reports the kind of shift (covariate, label or concept), the columns that differ, and what to
    do. Without labels only the inputs can be compared.
    """
    if compare is None:
        raise ConfigError(
            "doctor needs two tables: saccade doctor --compare train.csv live.csv --target COLUMN"
        )
    for table in compare:
        check_file(table)
    from saccade.config import Config, override_settings
    from saccade.data.records.base import ReadOptions
    from saccade.data.tables.schema import ColumnsConfig
    from saccade.training.progress import show_progress

    load_torch()
    from saccade.workflows import compare_tables

    class TableSettings(ColumnsConfig, ReadOptions):
        """Settings of columns, and how a file is read."""

    class Settings(Config):
        data: TableSettings = TableSettings()

    settings = override_settings(Settings(), dict(parse_overrides(set))).data
    with show_progress(stderr_console(), "comparing the tables") as bar:
        diagnosis = compare_tables(
            *compare,
            label_column=target,
            columns=settings,
            options=settings,
            save=save,
            save_weights=save_weights,
            on_progress=bar.update,
        )
    if json:
        print_json(diagnosis.to_dict())
    else:
        _print_diagnosis(diagnosis)
    for note in diagnosis.notes:
        stderr_console().print(note)


def _print_diagnosis(diagnosis: "Diagnosis") -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"{diagnosis.summary}\n")
    console.print(_columns_table(diagnosis), "")
    if diagnosis.classes:
        console.print(_classes_table(diagnosis), "")
    domains = diagnosis.domains
    console.print(
        f"A classifier separates held-out rows of the two tables with an AUC of {domains.auc:.3f}; "
        f"without a shift it would lie in {domains.low:.3f} to {domains.high:.3f}."
    )
    if diagnosis.losses is not None:
        losses, p = diagnosis.losses, diagnosis.p_values["answers"]
        console.print(
            f"Loss per row of a model of the first table: {losses.source:.3f} on its held-out rows "
            f"({losses.reweighted:.3f} weighted like the inputs of the second table, "
            f"{losses.relabelled:.3f} like its classes), {losses.target:.3f} on the second table; "
            f"p = {p:.2g} for the hypothesis that it predicts both equally well."
        )
    console.print(f"\nNext: {diagnosis.next_step}")
    for command in diagnosis.commands:
        console.print(f"  {command}", soft_wrap=True)


def _columns_table(diagnosis: "Diagnosis") -> "Table":
    """Return a table of the columns that differ, or of the first ones."""
    differing = [column for column in diagnosis.columns if column.differs]
    listed = (differing or diagnosis.columns)[:MAX_LISTED_COLUMNS]
    table = make_table("column", "", *diagnosis.rows, "p", "")
    for column in listed:
        table.add_row(
            column.name,
            "mean" if column.value is None else f"share of {column.value}",
            _format_statistics(column, column.source),
            _format_statistics(column, column.target),
            f"{column.p:.2g}",
            "differs" if column.differs else "",
        )
    if len(diagnosis.columns) > len(listed):
        table.add_row(f"… {len(diagnosis.columns) - len(listed)} more")
    return table


def _format_statistics(column: "ColumnComparison", statistics: dict[str, float | None]) -> str:
    if column.value is not None:
        return f"{statistics['share']:.1%}"
    mean, missing = statistics["mean"], statistics["missing"]
    absent = f"{missing:.1%} missing" if missing else ""
    if mean is None:
        return absent
    return f"{mean:.4g} ± {statistics['deviation']:.3g}" + (f", {absent}" if absent else "")


def _classes_table(diagnosis: "Diagnosis") -> "Table":
    p = diagnosis.p_values["labels"]
    weight_column = ["weight"] if diagnosis.kind == "label" else []
    table = make_table(f"class (p {p:.2g})", *diagnosis.rows, *weight_column)
    for shift in diagnosis.classes:
        weight = "" if shift.weight is None else f"{shift.weight:.3g}"
        shares = [shift.name, f"{shift.source:.1%}", f"{shift.target:.1%}"]
        table.add_row(*shares, *([weight] if weight_column else []))
    return table
