"""`saccade import`: make a run of a model in another tool's format."""

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.console import load_torch
from saccade.cli.opening import check_file
from saccade.interop.registry import IMPORTS
from saccade.registry import lookup


def import_command(
    layout: Annotated[
        str, typer.Argument(metavar="FORMAT", help=f"Format: {', '.join(sorted(IMPORTS))}.")
    ],
    source: Annotated[
        Path, typer.Argument(metavar="PATH", help="File or folder written by the other tool.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/NAME.")] = None,
) -> None:
    r"""Make a run of a model in another tool's format.

    \b
    saccade import gpt2 some/gpt2 --out runs/gpt2
    saccade import bert some/all-MiniLM-L6-v2 --out runs/minilm
    saccade import gpt1 some/openai-gpt --out runs/gpt1
    saccade import glove glove.6B.50d.txt --out runs/glove
    saccade predict runs/gpt2 "Once upon a time" --max-new-tokens 50
    saccade train language --data book.txt --init-from runs/gpt2
    saccade train classify --data reviews.csv --init-from runs/minilm
    """
    lookup(IMPORTS, layout, "import format")
    check_file(source)
    load_torch()
    from saccade.runs.run import import_run

    folder = out or Path("runs") / source.resolve().name
    import_run(layout, source, folder)
    print(folder)
