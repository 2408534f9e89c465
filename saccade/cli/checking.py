"""check."""

from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.printing import errors, print_json, table


def check(
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
    from saccade.bars import counting
    from saccade.run import open_run

    opened = open_run(run)
    with counting(errors(), "checking (compiling takes longest)") as bar:
        findings = opened.check(data=data, inputs=inputs, tell=lambda finding: bar(1))
    if json:
        print_json([{**f._asdict(), "verdict": f.verdict} for f in findings])
    else:
        show(findings)
    if any(finding.verdict == "BROKEN" for finding in findings):
        raise typer.Exit(1)


def show(findings: list[Any]) -> None:
    """The table: law, inputs tried, largest difference, verdict against the tolerance."""
    from rich.console import Console

    shown = table("law", "tried", "largest difference", "tolerance", "verdict")
    for f in findings:
        figures = (
            (str(f.tried), f"{f.difference:.2g}", f"{f.tolerance:.0e}") if f.tried else [""] * 3
        )
        shown.add_row(f.law, *figures, f.verdict)
    console = Console(highlight=False, soft_wrap=False)
    console.print(shown)
    for f in findings:
        if f.note:
            console.print(f"{f.law}: {f.note}")
