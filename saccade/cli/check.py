"""check."""

from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.console import make_table, print_json, stderr_console


def check_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    data: Annotated[str | None, typer.Option(help="Pairs; otherwise the run's own.")] = None,
    inputs: Annotated[int, typer.Option(help="How many pairs to try.", min=1)] = 16,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""Show that a run's answers do not depend on what they should not.

    \b
    saccade check runs/dates
    saccade check runs/mine --data test.tsv --json

    Exit code 1 if a law is broken. The findings are kept in the run, as checks.json.
    """
    from saccade.runs.run import load_run
    from saccade.training.progress import show_progress

    opened = load_run(run)
    with show_progress(stderr_console(), "checking (compiling takes longest)") as bar:
        findings = opened.check(data=data, inputs=inputs, on_result=lambda finding: bar(1))
    if json:
        print_json([{**f._asdict(), "verdict": f.verdict} for f in findings])
    else:
        print_check_results(findings)
    if any(finding.verdict == "FAILED" for finding in findings):
        raise typer.Exit(1)


def print_check_results(findings: list[Any]) -> None:
    """The table: law, inputs tried, largest difference, verdict against the tolerance."""
    from rich.console import Console

    shown = make_table("invariant", "inputs", "largest difference", "tolerance", "verdict")
    for f in findings:
        figures = (
            (str(f.num_inputs), f"{f.difference:.2g}", f"{f.tolerance:.0e}")
            if f.num_inputs
            else [""] * 3
        )
        shown.add_row(f.invariant, *figures, f.verdict)
    console = Console(highlight=False, soft_wrap=False)
    console.print(shown)
    for f in findings:
        if f.note:
            console.print(f"{f.invariant}: {f.note}")
