"""`saccade prune`: remove attention heads that do not matter."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import format_metric, make_table, print_json, stderr_console
from saccade.cli.opening import open_run
from saccade.cli.options import JsonOption, RunArgument

if TYPE_CHECKING:
    from rich.table import Table

    from saccade.workflows import PruneResult


def prune_command(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the new run; default: RUN-pruned.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Largest relative loss of a dev score.", min=0, max=1)
    ] = 0.005,
    json: JsonOption = False,
) -> None:
    r"""Remove attention heads that do not matter, and report the effect.

    \b
    saccade prune runs/mine
    saccade prune runs/mine --tolerance 0.02 --out runs/smaller

    Heads are ranked by the variance of their attention weights and by the gradient at their
    output, and removed if the dev scores stay within the tolerance. The result is a run like any
    other.
    """
    opened = open_run(run)
    from saccade.training.progress import show_progress
    from saccade.workflows import prune as prune_run

    with show_progress(stderr_console(), "pruning") as bar:
        result = prune_run(opened, out=out, tolerance=tolerance, on_progress=bar.update)
    if json:
        print_json(result.to_dict())
    else:
        _print_result(result, tolerance)


def _print_result(result: "PruneResult", tolerance: float) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    scores = [name for name in ("exact", "chrf") if name in result.dev]
    table = make_table("kind", "layer", "head", "variance", "gradient", "loss", *scores, "verdict")
    for head in result.heads:
        table.add_row(
            head.kind,
            str(head.layer),
            str(head.head),
            f"{head.variance:.3g}",
            f"{head.gradient:.3g}",
            f"{head.loss:.4g}",
            *(format_metric(name, head.scores[name]) for name in scores),
            head.verdict,
        )
    baseline = ", ".join(
        f"{name} {format_metric(name, result.dev[name])}" for name in ("loss", *scores)
    )
    console.print(
        table, f"\nLoss and scores: on dev, without the head. With all heads: {baseline}.\n"
    )
    if result.folder is None:
        console.print(
            f"No head can be removed without losing more than {100 * tolerance:g} % of a dev "
            "score. Nothing was written; a larger --tolerance allows more."
        )
        return
    console.print(_before_and_after(result))
    where = shlex.quote(str(result.folder))
    console.print(
        f"\nThe new run is in {where}. To train it further: saccade train … --init-from {where}"
    )


def _before_and_after(result: "PruneResult") -> "Table":
    assert result.after is not None
    table = make_table("", "before", "after")
    both = (result.before, result.after)
    table.add_row("heads", *(str(quality.heads) for quality in both))
    table.add_row("parameters", *(f"{quality.parameters:,}" for quality in both))
    for name in ("loss", "exact", "chrf"):
        if name in result.before.test:
            cells = (format_metric(name, quality.test[name]) for quality in both)
            table.add_row(f"test {name}", *cells)
    table.add_row("ms per input", *(f"{quality.milliseconds:.3g}" for quality in both))
    return table
