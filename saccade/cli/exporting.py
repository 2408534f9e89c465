"""export, import, and the engines that answer with what export wrote."""

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
    from saccade.run import open_run

    folder = open_run(run).export(to, out, **read_changes(changes or [], "--set"))
    if out is None and to == "ctranslate2":
        command = f"saccade predict {shlex.quote(str(run))} … --engine {to}"
        errors().print(f"To answer with it: {command}", soft_wrap=True)
    print(folder)


def take_in(
    layout: Annotated[str, typer.Argument(metavar="LAYOUT", help="gpt2.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What the other tool wrote.")],
    out: Annotated[Path | None, typer.Option(help="The run's folder; otherwise runs/NAME.")] = None,
) -> None:
    r"""Make a run of a model that another tool has written.

    \b
    saccade import gpt2 some/gpt2 --out runs/gpt2
    saccade predict runs/gpt2 "Once upon a time" --tokens 50
    saccade train language --data book.txt --from runs/gpt2
    """
    from saccade.run import take_in as taken

    place = out or Path("runs") / folder.resolve().name
    taken(layout, folder, place)
    print(place)


def answering_with(engine: str, run: Path, scored: bool) -> tuple[Answer, Callable[[str], str]]:
    """What answers texts, and what shortens one; nothing here loads torch."""
    from saccade.exchange.engine import ENGINES
    from saccade.lookup import pick

    opened = pick(ENGINES, engine, "engine")(run, scored)
    return opened.predict, opened.shortened
