"""export, import, and the engines that answer with what export wrote."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.console import stderr_console
from saccade.cli.train import parse_overrides

PredictFunction = Callable[..., list[Any]]


def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    to: Annotated[str, typer.Option(help="ctranslate2 or huggingface.")],
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
    saccade export runs/text --to huggingface --out elsewhere

    CTranslate2 takes a transformer, and answers fast on a CPU. huggingface is the layout of GPT-2,
    and takes a gpt2 of bytepair or character tokens. What they cannot express is refused.
    """
    from saccade.runs.run import load_run

    folder = load_run(run).export(to, out, **parse_overrides(changes or [], "--set"))
    if out is None and to == "ctranslate2":
        command = f"saccade predict {shlex.quote(str(run))} … --engine {to}"
        stderr_console().print(f"To answer with it: {command}", soft_wrap=True)
    print(folder)


def import_command(
    layout: Annotated[str, typer.Argument(metavar="LAYOUT", help="gpt2.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What the other tool wrote.")],
    out: Annotated[Path | None, typer.Option(help="The run's folder; otherwise runs/NAME.")] = None,
) -> None:
    r"""Make a run of a model that another tool has written.

    \b
    saccade import gpt2 some/gpt2 --out runs/gpt2
    saccade predict runs/gpt2 "Once upon a time" --max-new-tokens 50
    saccade train language --data book.txt --init-from runs/gpt2
    """
    from saccade.runs.run import import_run as taken

    place = out or Path("runs") / folder.resolve().name
    taken(layout, folder, place)
    print(place)


def open_engine(
    engine: str, run: Path, with_scores: bool
) -> tuple[PredictFunction, Callable[[str], str]]:
    """What answers texts, and what shortens one; nothing here loads torch."""
    from saccade.interop.ctranslate2.engine import ENGINES
    from saccade.registry import lookup

    opened = lookup(ENGINES, engine, "engine")(run, with_scores)
    return opened.predict, opened.truncate
