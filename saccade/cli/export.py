"""`saccade export`: write a run in another tool's format."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import stderr_console
from saccade.cli.opening import open_run
from saccade.cli.options import RunArgument, parse_overrides
from saccade.errors import SaccadeError
from saccade.interop.registry import ENGINES, EXPORTS
from saccade.registry import lookup

if TYPE_CHECKING:
    from saccade.runs.run import Run


def export_command(
    run: RunArgument,
    to: Annotated[
        str,
        typer.Option(
            help=f"Format: {', '.join(sorted(EXPORTS))}.",
            autocompletion=lambda: sorted(EXPORTS),
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File or folder to write; default: RUN/exports/FORMAT."),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="ctranslate2: quantization=int8."),
    ] = None,
) -> None:
    r"""Write a run in another tool's format, and print where.

    \b
    saccade export runs/mine --to ctranslate2
    saccade export runs/mine --to ctranslate2 --set quantization=int8 --out elsewhere
    saccade predict runs/mine "A sentence." --engine ctranslate2
    saccade export runs/text --to huggingface --out elsewhere
    saccade export runs/vectors --to word2vec --out vectors.txt

    ctranslate2 exports a transformer for fast inference on a CPU. huggingface writes a gpt1 or gpt2
    with bpe or character tokens, or a bert, in the layout of transformers, torchvision the weights
    of an image network that it has. The others are formats of word vectors. What a format cannot
    express is refused.
    """
    options = parse_overrides(set)
    lookup(EXPORTS, to, "export format")
    opened = open_run(run)
    folder = opened.export(to, out, **options)
    if out is None and to in ENGINES:
        console = stderr_console()
        for message in _verify(opened):
            console.print(message, soft_wrap=True)
        command = f"saccade predict {shlex.quote(str(run))} … --engine {to}"
        console.print(f"To predict with it: {command}", soft_wrap=True)
    print(folder)


def _verify(run: "Run") -> Iterator[str]:
    """Compare the export with the run, and yield what that means for `predict`."""
    from saccade.interop.ctranslate2.engine import is_verified_export

    try:
        inputs, same = run.verify_export()
    except SaccadeError as error:  # for example the data is gone
        yield f"The export could not be compared with the run: {error}"
        return
    yield f"Its predictions equal those of the run for {same} of {inputs} dev inputs."
    if is_verified_export(run.folder):
        yield "saccade predict uses it for greedy decoding from now on, since it starts faster."
