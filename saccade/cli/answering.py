"""predict, evaluate."""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.learning import read_changes
from saccade.cli.printing import errors, print_json, print_line, scores_table
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from saccade.tasks import Prediction

Folder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Beam = Annotated[int, typer.Option(help="Hypotheses kept at each step; 1 is greedy.", min=1)]
AT_ONCE = 1000  # lines that are answered before the next are read


def predict(
    run: Folder,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    file: Annotated[str | None, typer.Option(help="A text file, or - for standard input.")] = None,
    beam: Beam = 1,
    n_best: Annotated[int, typer.Option(help="Answers to show for each, with scores.", min=1)] = 1,
    search: Annotated[
        list[str] | None,
        typer.Option("--search", metavar="NAME=VALUE", help="e.g. no_repeat=3, coverage=0.2."),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw by chance.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 safer, above it bolder.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Only the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Only the likeliest that add up to p.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed, other luck.")] = None,
    json: Json = False,
) -> None:
    r"""Answer texts, one line for each, in order.

    \b
    saccade predict runs/dates "5 de março de 2024"
    saccade predict runs/dates --file dates.txt --beam 5 --n-best 3
    saccade predict runs/language "The " --sample --temperature 0.8 --top-p 0.9 --seed 1
    saccade predict runs/mine --file a.txt --beam 5 --search coverage=0.2 --search no_repeat=3
    cat dates.txt | saccade predict runs/dates --file -

    With --n-best more than 1, a line holds the input's number, the answer's rank, its score and
    its text, with tabs between.
    """
    from saccade.data.files import read_lines
    from saccade.run import open_run
    from saccade.training import counting

    if bool(texts) == (file is not None):
        raise ConfigError("predict needs texts or --file (- for standard input), and not both.")
    opened = open_run(run)
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    how = {
        "beam": beam,
        "n_best": n_best,
        **read_changes(search or [], "--search"),
        **{name: value for name, value in drawn.items() if value is not None},
        **({"sample": True} if sample else {}),
    }
    how = {
        name: value for name, value in how.items() if value != 1 or name not in ("beam", "n_best")
    }
    lines: Iterable[str] = texts or []
    if file is not None:
        lines = read_lines(file)
    number = 0
    with counting(errors(), "answering") as tell:
        for group in _groups(iter(lines)):
            answers = opened.predict(group, first=number + 1, tell=tell, **how)
            for source, answer in zip(group, answers, strict=True):
                number += 1
                _show(number, source, answer, n_best, json)
            sys.stdout.flush()


def _groups(lines: Iterator[str]) -> Iterator[list[str]]:
    while group := list(islice(lines, AT_ONCE)):
        yield group


def _show(number: int, source: str, answer: "Prediction", n_best: int, json: bool) -> None:
    found = (answer, *answer.others)
    if json:
        best, *others = [{**one._asdict(), "others": ()} for one in found]
        print_json({"source": source, **best, "others": others})
    elif n_best == 1:
        print_line(answer.text)
    else:
        for rank, one in enumerate(found, start=1):
            print_line(f"{number}\t{rank}\t{one.score:.4f}\t{one.text}")


def evaluate(
    run: Folder,
    data: Annotated[str | None, typer.Option(help="Pairs; otherwise the run's own.")] = None,
    split: Annotated[str, typer.Option(help="train, dev or test, of the run's own.")] = "test",
    beam: Beam = 1,
    json: Json = False,
) -> None:
    r"""Score a run on held-out pairs.

    \b
    saccade evaluate runs/dates
    saccade evaluate runs/mine --data test.tsv --json
    """
    from saccade.run import open_run
    from saccade.training import counting

    opened = open_run(run)
    with counting(errors(), "answering") as tell:
        scores = opened.evaluate(data, split=split, beam=beam, tell=tell)
    if json:
        print_json(scores)
    else:
        from rich.console import Console

        Console(highlight=False).print(scores_table(scores))
