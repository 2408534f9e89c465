"""`saccade search`: the hypotheses of a beam as a tree, and exhaustive search."""

from typing import Annotated

import typer

from saccade.cli.console import make_table, print_json, stderr_console, stdout_console
from saccade.cli.opening import open_run
from saccade.cli.options import BeamOption, ImageOption, JsonOption, RunArgument
from saccade.types.limits import MAX_LENGTH, MAX_PENALTY


def search_command(
    run: RunArgument,
    text: Annotated[list[str], typer.Argument(metavar="INPUT...", help="A source or a prompt.")],
    beam: BeamOption = 3,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Search all sequences as well (small sizes).")
    ] = False,
    max_new_tokens: Annotated[
        int | None,
        typer.Option("--max-new-tokens", help="Tokens to generate.", min=1, max=MAX_LENGTH),
    ] = None,
    length_penalty: Annotated[
        float, typer.Option(help="α; 0 ranks by the log-probability.", min=0, max=MAX_PENALTY)
    ] = 1.0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Show the hypotheses of a beam search as a tree, and compare with exhaustive search.

    \b
    saccade search runs/dates "5 de março de 2024" --beam 3 --save tree.png
    saccade search runs/language "Once upon" --max-new-tokens 2 --exhaustive
    """
    found = open_run(run).search(
        " ".join(text),
        beam=beam,
        exhaustive=exhaustive,
        max_new_tokens=max_new_tokens,
        length_penalty=length_penalty,
    )
    if save is not None:
        for message in [*found.save(save), f"Wrote the tree of {beam} hypotheses to {save}."]:
            stderr_console().print(message)
    if json:
        print_json(found.to_dict())
        return
    print(found.terminal(), end="\n\n")
    table = make_table("", "score", "log-probability", "text")
    for name, several in (("beam", found.hypotheses), ("exhaustive", found.exhaustive)):
        for rank, one in enumerate(several, start=1):
            numbers = (f"{one[key]:.4f}" for key in ("score", "log_probability"))
            table.add_row(f"{name} {rank}", *numbers, one["text"])
    stdout_console().print(table)
    if found.exhaustive:
        same = found.exhaustive[0]["text"] == found.hypotheses[0]["text"]
        print("The beam found the best sequence." if same else "The beam missed the best sequence.")
