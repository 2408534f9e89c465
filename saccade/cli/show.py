"""`saccade show`: settings, provenance, figures, size and state of a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import format_metric, make_table, print_json, stdout_console
from saccade.cli.options import JsonOption, RunArgument
from saccade.cli.settings import format_value
from saccade.io.memory import format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from saccade.runs.summary import RunSummary

MAX_LISTED_FILES = 12


def show_command(
    run: RunArgument,
    all: Annotated[
        bool, typer.Option("--all", help="All settings and files, not only those that differ.")
    ] = False,
    json: JsonOption = False,
) -> None:
    r"""Show what is known about a run: settings, provenance, figures, size, state.

    \b
    saccade show runs/dates
    saccade show runs/dates --all
    saccade show runs/dates --json
    """
    from saccade.runs.summary import summarise_run

    summary = summarise_run(run)
    if json:
        print_json(summary.to_dict())
        return
    console = stdout_console()
    console.print(f"{summary.folder}: {summary.task}, {summary.model}; {summary.state}\n")
    if scores := _scores_table(summary):
        console.print(scores, "")
    listed = summary.settings if all else summary.changed_settings
    title = "setting" if all else "setting (not default)"
    table = make_table(title, "value", "default")
    for setting in listed:
        cells = (setting.path, format_value(setting.value), format_value(setting.default))
        table.add_row(*cells)
    console.print(table, "")
    table = make_table("provenance", "")
    for name, value in summary.provenance.items():
        table.add_row(name, str(value))
    console.print(table, "")
    console.print(_size_table(summary, all), "")
    for command in summary.commands:
        console.print(f"  {command}", soft_wrap=True)


def _scores_table(summary: "RunSummary") -> "Table | None":
    """Return the metrics on dev and test, next to the baselines on test; None without any."""
    if not summary.dev and not summary.test:
        return None
    step = summary.dev.get("step")
    columns = [f"dev (step {step:,})" if step is not None else "dev", "test", *summary.floors]
    table = make_table("metric", *columns)
    for name in dict.fromkeys([*summary.dev, *summary.test]):
        if name != "step":
            values = [source.get(name) for source in (summary.dev, summary.test)]
            values += [floor.get(name) for floor in summary.floors.values()]
            table.add_row(name, *("" if v is None else format_metric(name, v) for v in values))
    return table


def _size_table(summary: "RunSummary", all: bool) -> "Table":
    table = make_table("size", "")
    if summary.parameters is not None:
        table.add_row("parameters", f"{summary.parameters:,}")
    table.add_row("folder", format_bytes(summary.bytes))
    files = sorted(summary.files.items(), key=lambda item: -item[1])
    listed = files if all else files[:MAX_LISTED_FILES]
    for name, size in listed:
        table.add_row(f"  {name}", format_bytes(size))
    if len(files) > len(listed):
        table.add_row(f"  … {len(files) - len(listed)} more files", "")
    return table
