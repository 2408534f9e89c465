"""`saccade check`: test that predictions do not depend on padding, batching, caching, …."""

from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import make_table, print_json, stderr_console, stdout_console
from saccade.cli.opening import open_run
from saccade.cli.options import (
    DataArgument,
    DataSetOption,
    JsonOption,
    RunArgument,
    data_or_file,
    file_settings,
)
from saccade.types.limits import MAX_COUNT

if TYPE_CHECKING:
    from saccade.inspection.checks import CheckResult


def check_command(
    run: RunArgument,
    file: DataArgument = None,
    data: Annotated[
        str | None, typer.Option(help="Data to check on; default: the run's test split.")
    ] = None,
    set: DataSetOption = None,
    inputs: Annotated[
        int, typer.Option(help="Number of inputs to check.", min=1, max=MAX_COUNT)
    ] = 16,
    json: JsonOption = False,
) -> None:
    r"""Check that a run's predictions do not depend on padding, batching, caching or export.

    \b
    saccade check runs/dates
    saccade check runs/mine --data test.tsv --json

    Exit code 1 if an invariant is violated. The results are saved in the run as checks.json.
    """
    from saccade.training.progress import show_progress
    from saccade.types.progress import ProgressCounter

    data = data_or_file(data, file)
    settings = file_settings(set, data)
    opened = open_run(run, data)
    with show_progress(stderr_console(), "checking (compiling takes longest)") as bar:
        counter = ProgressCounter(bar.update, "checking (compiling takes longest)")
        results = opened.check(
            data=data, set=settings, inputs=inputs, on_result=lambda result: counter.advance(1)
        )
    if json:
        print_json([{**result._asdict(), "verdict": result.verdict} for result in results])
    else:
        print_check_results(results)
    if any(result.verdict == "FAILED" for result in results):
        raise typer.Exit(1)


def print_check_results(results: "list[CheckResult]") -> None:
    """Print a table: invariant, inputs, largest difference, tolerance, verdict; then the notes."""
    table = make_table("invariant", "inputs", "largest difference", "tolerance", "verdict")
    for result in results:
        numbers = (
            (str(result.num_inputs), f"{result.difference:.2g}", f"{result.tolerance:.0e}")
            if result.num_inputs
            else [""] * 3
        )
        table.add_row(result.invariant, *numbers, result.verdict)
    console = stdout_console()
    console.print(table)
    for result in results:
        if result.note:
            console.print(f"{result.invariant}: {result.note}")
