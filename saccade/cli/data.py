"""`saccade data`: format, columns, roles and suggested task of a data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.cli.options import DataSetOption, ImageOption, JsonOption, read_options
from saccade.cli.roles import with_role_options
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from saccade.data.records.base import ReadOptions, Records
    from saccade.data.records.profile import ColumnProfile
    from saccade.data.records.summary import DataSummary

EXAMPLE_WIDTH = 36  # characters of an example
MAX_COLUMN_ROWS = 40
MAX_CLASS_ROWS = 12
CLASS_BAR_WIDTH = 24
SPARK_BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_BINS = 8


@with_role_options
def data_command(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file, a folder or two parallel files (a.en,a.de)."),
    ],
    set: DataSetOption = None,
    save: ImageOption = None,
    json: JsonOption = False,
    *,
    columns: dict[str, str],
) -> None:
    r"""Show how a data set is read: format, columns, roles, class balance, suggested task.

    \b
    saccade data reviews.csv
    saccade data reviews.csv --text review --label stars --save reviews.png
    saccade data pairs.en,pairs.de
    saccade data photos/
    saccade data table.txt --set data.delimiter=';' --set data.header=false

    Reads the whole file once, in constant memory. The number of distinct values is exact up to
    65,536, beyond that an estimate within about 0.4 %, marked with ~.
    """
    from saccade.data.records.summary import summarise_data
    from saccade.training.progress import show_progress
    from saccade.types.progress import ProgressCounter

    options = read_options(set)
    from saccade.data.images.readers import find_image_table, has_images

    if has_images(file) and (table := find_image_table(file)) is not None:
        file = table
    elif has_images(file):
        if save is not None:
            raise ConfigError("got --save for images; expected a table; try without --save.")
        _print_images(file, options, json)
        return
    if save is not None:
        _check_image(save)
    with show_progress(stderr_console(), "reading", unit="rows") as bar:
        counter = ProgressCounter(bar.update, "reading")
        summary = summarise_data(file, options, columns, counter.advance)
    if json:
        print_json(summary.to_dict())
    else:
        _print_summary(summary)
    if save is not None:
        _save(summary, save)


def _print_images(file: str, options: "ReadOptions", json: bool) -> None:
    """Print number, sizes and classes of the images of a folder or an archive."""
    from saccade.data.images.summary import summarise_images

    found = summarise_images(file, options)
    if json:
        print_json(found._asdict())
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    for line in found.lines():
        console.print(line, soft_wrap=True)
    table = make_table("class", "images")
    for label, count in list(found.classes.items())[:MAX_CLASS_ROWS]:
        table.add_row(label, f"{count:,}")
    console.print("", table, "")
    console.print(f"Try: {found.command}", soft_wrap=True)


def _check_image(path: Path) -> None:
    """Refuse a picture of an unknown format before the file is read."""
    from saccade.plots.style import image_format

    try:
        image_format(path)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _save(summary: "DataSummary", path: Path) -> None:
    from saccade.inspection.data_overview import data_overview
    from saccade.plots.render import save_figure

    figure = data_overview(summary)
    if not (figure.lengths or figure.classes or figure.missing):
        stderr_console().print("No picture: the file has no texts, classes or missing values.")
        return
    for line in [*save_figure(figure, path), f"The picture is in {path}."]:
        stderr_console().print(line, soft_wrap=True)


def _print_summary(summary: "DataSummary") -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_heading(summary), soft_wrap=True)
    for note in summary.records.notes:
        console.print(note, soft_wrap=True)
    console.print("", _columns_table(summary), "")
    if (label := summary.label) is not None and label.counts:
        console.print(_classes_table(label), "")
    for doubt in summary.doubts:
        console.print(f"! {doubt}", soft_wrap=True)
    _print_task(summary, console)


def _print_task(summary: "DataSummary", console: "Console") -> None:
    suggestion = summary.suggestion
    if suggestion is None:
        console.print("No task suits this file: no column has values that differ.")
        return
    console.print(f"\nTask: {suggestion.task}, since {suggestion.reason}.", soft_wrap=True)
    for choice in summary.roles:
        console.print(f"  {choice.role}: {choice.column!r}, {choice.reason}", soft_wrap=True)
    console.print(f"\nNext:\n  {suggestion.command}", soft_wrap=True)


def _heading(summary: "DataSummary") -> str:
    """Return name, format, rows and size in one line."""
    records = summary.records
    columns = len(records.columns)
    parts = [
        f"{records.name}: {records.format}",
        records.encoding,
        _separator(records),
        None if records.delimiter is None else f"{'a' if records.has_header else 'no'} header",
        f"{columns} column{'' if columns == 1 else 's'}",
        f"{summary.profile.rows:,} rows",
        _duplicates(summary),
        None if summary.size is None else _format_size(summary.size),
    ]
    return ", ".join(part for part in parts if part)


def _duplicates(summary: "DataSummary") -> str | None:
    about = "" if summary.profile.is_exact else "~"
    count = summary.profile.duplicates
    return f"{about}{count:,} of them repeated" if count else None


def _separator(records: "Records") -> str | None:
    from saccade.data.records.delimited_rows import DELIMITER_NAMES

    if records.delimiter is None:
        return None
    return f"separated by {DELIMITER_NAMES.get(records.delimiter, repr(records.delimiter))}"


def _format_size(size: int) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size = size / 1000  # type: ignore[assignment]
    raise AssertionError


def _columns_table(summary: "DataSummary") -> "Table":
    columns = list(summary.profile.columns.values())
    table = make_table("column", "kind", "role", "missing", "distinct", "values", "examples")
    for number in (3, 4):
        table.columns[number].justify = "right"
    for column in columns[:MAX_COLUMN_ROWS]:
        about = "" if column.is_exact else "~"
        table.add_row(
            _one_line(column.name, EXAMPLE_WIDTH),
            column.kind,
            summary.role_of(column.name),
            _missing(column),
            f"{about}{column.distinct:,}",
            _describe_values(column),
            _examples(column),
        )
    if len(columns) > MAX_COLUMN_ROWS:
        table.add_row(f"… {len(columns) - MAX_COLUMN_ROWS} more")
    return table


def _missing(column: "ColumnProfile") -> str:
    if not column.missing:
        return ""
    return f"{column.missing:,} ({column.missing / column.rows:.1%})"


def _describe_values(column: "ColumnProfile") -> str:
    """Return the lengths and the script of texts, or the range of numbers."""
    from saccade.data.tables.csv import pluralise

    if column.kind == "text":
        lengths = column.characters
        script = column.script + ("" if column.has_spaces else ", no spaces")
        words = f" ({pluralise(column.words.median, 'word')})" if column.has_spaces else ""
        return (
            f"{_sparkline(column.length_counts)} {lengths.low:,}–{lengths.high:,} characters, "
            f"median {lengths.median:,}{words}" + (f"; {script}" if script else "")
        )
    if column.minimum is not None and column.maximum is not None:
        return f"{_format_number(column.minimum)} to {_format_number(column.maximum)}"
    return ""


def _format_number(number: float) -> str:
    is_integer = number == int(number) and abs(number) < 1e15
    return f"{number:,.0f}" if is_integer else f"{number:,.4g}"


def _sparkline(counts: dict[int, int]) -> str:
    """Return a histogram of lengths as block characters, on a logarithmic axis."""
    import numpy as np

    lengths = np.array(list(counts), np.float64)
    edges = np.geomspace(max(1.0, lengths.min()), lengths.max() + 1, SPARK_BINS + 1)
    heights = np.histogram(
        np.clip(lengths, edges[0], np.nextafter(edges[-1], 0)), edges, weights=list(counts.values())
    )[0]
    levels = np.ceil(heights / heights.max() * (len(SPARK_BLOCKS) - 1)).astype(int)
    return "".join(SPARK_BLOCKS[level] for level in levels)


def _examples(column: "ColumnProfile") -> str:
    return " | ".join(_one_line(example, EXAMPLE_WIDTH) for example in column.examples)


def _one_line(text: str, width: int) -> str:
    """Return the start of a text without line ends and control characters."""
    line = "".join(
        letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split())
    )
    return line if len(line) <= width else line[: width - 1] + "…"


def _classes_table(label: "ColumnProfile") -> "Table":
    from saccade.data.records.profile import class_shares

    shares = class_shares(label)
    table = make_table(_one_line(label.name, EXAMPLE_WIDTH), "rows", "share", "")
    table.columns[1].justify = table.columns[2].justify = "right"
    for value, count, share in shares[:MAX_CLASS_ROWS]:
        bar = "█" * max(1, round(CLASS_BAR_WIDTH * share / shares[0][2]))
        table.add_row(_one_line(value, EXAMPLE_WIDTH), f"{count:,}", f"{share:.1%}", bar)
    if len(shares) > MAX_CLASS_ROWS:
        rest = sum(count for _, count, _ in shares[MAX_CLASS_ROWS:])
        table.add_row(f"… {len(shares) - MAX_CLASS_ROWS} more", f"{rest:,}")
    return table
