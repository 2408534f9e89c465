"""`saccade demo`: train a small model and show predictions and attention."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import (
    has_colour,
    load_torch,
    print_json,
    stderr_console,
    stdout_console,
)
from saccade.cli.options import JsonOption
from saccade.cli.training_output import raise_if_stopped, training_options

if TYPE_CHECKING:
    from saccade.runs.run import Run


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    json: JsonOption = False,
) -> None:
    r"""Train a model that reads dates in 46 languages; show predictions and attention.

    \b
    saccade demo
    """
    load_torch()
    from saccade.data.synthetic.dates import date_examples
    from saccade.recipes.translation import dates_recipe
    from saccade.runs.train import train_recipe

    stderr_console().print("Training on dates in 46 languages (a minute or two) …\n")
    options = training_options()._replace(overwrite=True, on_choices=lambda choices: None)
    result = train_recipe(dates_recipe(), out, options)
    raise_if_stopped(result)
    run = result.run
    scores = run.evaluate()
    examples = date_examples()
    predictions = [found.text for found in run.predict([source for source, _ in examples])]
    if json:
        answers = [
            {"source": source, "text": text}
            for (source, _), text in zip(examples, predictions, strict=True)
        ]
        print_json({"run": str(out), "test": scores.to_dict(), "answers": answers})
        return
    count, percent = scores["examples"], 100 * scores["exact"]
    print(f"\nExact match on {count:,.0f} held-out dates: {percent:.2f} %\n")
    for (source, target), text in zip(examples, predictions, strict=True):
        print(f"  {text} {'✓' if text == target else '✗'}  {source}")
    _print_attention(run, examples[0][0])
    where = shlex.quote(str(out))
    print(f"\nPlots:     {out}/report/attention.png and {out}/report/curves.png")
    print(f'Try next:  saccade look {where} "5 de março de 2024" --save map.png')
    print("           saccade list")


def _print_attention(run: "Run", source: str) -> None:
    found = run.attention(source)
    print(f"\nAttention while generating {found.answer}:\n")
    print(found.terminal(80, has_colour(stdout_console())))
    found.save(run.folder / "report" / "attention.png")
