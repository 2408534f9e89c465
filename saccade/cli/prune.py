"""prune."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import format_metric, make_table, print_json, stderr_console

if TYPE_CHECKING:
    from rich.table import Table

    from saccade.workflows import PruneResult


def prune_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    out: Annotated[Path | None, typer.Option(help="The new run; otherwise RUN-pruned.")] = None,
    tolerance: Annotated[
        float, typer.Option(help="The share of the dev scores that may be lost.")
    ] = 0.005,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""Take out the heads of attention that do not matter, and show what that changes.

    \b
    saccade prune runs/mine
    saccade prune runs/mine --tolerance 0.02 --out runs/smaller

    A head is weighed by the variance of its weights and by the gradient at its output, and goes
    if the dev scores stay with it switched off. The new run is used like any other.
    """
    from saccade.training.progress import show_progress
    from saccade.workflows import prune as prune_run

    with show_progress(stderr_console(), "pruning") as bar:
        found = prune_run(run, out=out, tolerance=tolerance, on_progress=bar.update)
    if json:
        print_json(found.to_dict())
    else:
        _show(found, tolerance)


def _show(found: "PruneResult", tolerance: float) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    scores = [name for name in ("exact", "chrf") if name in found.dev]
    shown = make_table("kind", "layer", "head", "variance", "gradient", "loss", *scores, "verdict")
    for head in found.heads:
        shown.add_row(
            head.kind,
            str(head.layer),
            str(head.head),
            f"{head.variance:.3g}",
            f"{head.gradient:.3g}",
            f"{head.loss:.4g}",
            *(format_metric(name, head.scores[name]) for name in scores),
            head.verdict,
        )
    whole = ", ".join(
        f"{name} {format_metric(name, found.dev[name])}" for name in ("loss", *scores)
    )
    console.print(shown, f"\nLoss and scores are on dev, without the head. With all: {whole}.\n")
    if found.folder is None:
        console.print(
            f"No head can go without a loss of more than {100 * tolerance:g} % of a dev score. "
            "Nothing was written; --tolerance allows for more."
        )
        return
    console.print(_before_and_after(found))
    where = shlex.quote(str(found.folder))
    console.print(
        f"\nThe new run is in {where}. To train it further: saccade train … --init-from {where}"
    )


def _before_and_after(found: "PruneResult") -> "Table":
    assert found.after is not None
    made = make_table("", "before", "after")
    both = (found.before, found.after)
    made.add_row("heads", *(str(one.heads) for one in both))
    made.add_row("parameters", *(f"{one.parameters:,}" for one in both))
    for name in ("loss", "exact", "chrf"):
        if name in found.before.test:
            made.add_row(f"test {name}", *(format_metric(name, one.test[name]) for one in both))
    made.add_row("ms for one input", *(f"{one.milliseconds:.3g}" for one in both))
    return made
