"""export, and the engines that answer with what it wrote."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.learning import read_changes
from saccade.cli.printing import errors

Answer = Callable[..., list[Any]]


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    to: Annotated[str, typer.Option(help="ctranslate2.")],
    out: Annotated[
        Path | None, typer.Option(help="A folder; otherwise one in RUN, where engines look.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="quantization=int8.")
    ] = None,
) -> None:
    r"""Write a run for another tool, and print the folder.

    \b
    saccade export runs/mine --to ctranslate2
    saccade export runs/mine --to ctranslate2 --set quantization=int8 --out elsewhere
    saccade predict runs/mine "A sentence." --engine ctranslate2

    CTranslate2 takes a transformer, and answers fast on a CPU. What it cannot express is refused.
    """
    from saccade.run import open_run

    folder = open_run(run).export(to, out, **read_changes(changes or [], "--set"))
    if out is None:
        command = f"saccade predict {shlex.quote(str(run))} … --engine {to}"
        errors().print(f"To answer with it: {command}", soft_wrap=True)
    print(folder)


def answering_with(engine: str, run: Path, scored: bool) -> tuple[Answer, Callable[[str], str]]:
    """What answers texts, and what shortens one; nothing here loads torch."""
    from saccade.exchange.engine import ENGINES
    from saccade.lookup import pick

    opened = pick(ENGINES, engine, "engine")(run, scored)
    return opened.predict, opened.shortened
