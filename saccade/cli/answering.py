"""predict, evaluate."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.bars import counting
from saccade.cli.answering_files import answer_file, json_line, one_line
from saccade.cli.exporting import answering_with
from saccade.cli.kept_answers import KeptAnswers, print_of_run
from saccade.cli.learning import read_changes
from saccade.cli.printing import confusion_table, errors, print_json, scores_table
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from saccade.predictions import Prediction

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # the bytes of a letter that are there are not all yet

Folder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Beam = Annotated[int, typer.Option(help="Hypotheses kept at each step; 1 is greedy.", min=1)]


def predict(
    run: Folder,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    file: Annotated[str | None, typer.Option(help="A text file, or - for standard input.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file for the answers to --file; see below.")
    ] = None,
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
    tokens: Annotated[
        int | None, typer.Option(help="A text goes on for so many, over line ends.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="A text ends before this one; may be given often.")
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Show a text as it is written."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="ctranslate2, once `saccade export` has written for it.")
    ] = None,
    json: Json = False,
) -> None:
    r"""Answer texts, one line for each, in order.

    \b
    saccade predict runs/dates "5 de março de 2024"
    saccade predict runs/dates --file dates.txt --beam 5 --n-best 3
    saccade predict runs/language "The " --sample --temperature 0.8 --top-p 0.9 --seed 1
    saccade predict runs/language "The " --tokens 300 --stop "Changed in"
    saccade predict runs/mine --file a.txt --beam 5 --search coverage=0.2 --search no_repeat=3
    cat dates.txt | saccade predict runs/dates --file -
    saccade predict runs/mine --file big.txt.gz --out answers.txt

    With --out the answers are kept as they come: a command that was stopped, even by kill -9, goes
    on where it was when it is typed again. A file that is already there is not written over.

    A line of --file that is longer than the model takes is cut, and what is not UTF-8 is read as
    �; that is said, and the file goes on.

    With --n-best more than 1, a line holds the input's number, the answer's rank, its score and
    its text, with tabs between.
    """
    if bool(texts) == (file is not None):
        raise ConfigError("predict needs texts or --file (- for standard input), and not both.")
    if out is not None and file is None:
        raise ConfigError("--out is for the answers to a --file; those to texts are shown.")
    answer, shorten, streams = _opened(run, engine, scored=json or n_best > 1)
    if stream and not streams:
        raise ConfigError("--stream is for models of text; this run answers all at once.")
    if stream is None:
        alone = file is None and len(texts or []) == 1 and beam == n_best == 1 and not json
        stream = streams and alone and sys.stdout.isatty()
    if stream and (file is not None or len(texts or []) != 1 or json):
        raise ConfigError("--stream is for one text, shown as text: leave --file and --json out.")
    said: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "tokens": tokens,
        "stop": tuple(stop) if stop else None,
    }
    how = {
        "beam": beam,
        "n_best": n_best,
        **read_changes(search or [], "--search"),
        **{name: value for name, value in said.items() if value is not None},
        **({"sample": True} if sample else {}),
    }
    how = {
        name: value for name, value in how.items() if value != 1 or name not in ("beam", "n_best")
    }
    form = partial(_form, n_best=n_best, json=json)
    if stream and texts:
        _stream(texts[0], partial(answer, **how), held_back=max(map(len, stop or [""])))
        return
    if file is None:
        _answer_texts(texts or [], partial(answer, **how), form)
        return
    ask = partial(
        answer_file,
        file,
        partial(answer, **how),
        form,
        shorten,
    )
    if out is None:
        ask(None)
        return
    asked = {"the run's print": print_of_run(run), "json": json, "engine": engine, **how}
    with KeptAnswers(out, asked) as kept:
        try:
            ask(kept)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_how_to_go_on(kept)) from None
        kept.finish()


def _opened(
    run: Path, engine: str | None, scored: bool
) -> tuple[Callable[..., list[Any]], Callable[[str], str], bool]:
    """What answers texts, what shortens one, and whether an answer can be watched."""
    if engine is not None:
        return *answering_with(engine, run, scored), False  # before anything loads torch
    from saccade.run import open_run

    opened = open_run(run)
    return opened.predict, opened.task.shortened, opened.task.streams


def _stream(text: str, answer: Callable[..., list[Any]], held_back: int) -> None:
    """Show an answer as it is written; what may still be cut off or change is held back."""
    shown = 0

    def show(written: str) -> None:
        nonlocal shown
        sure = len(written.rstrip(REPLACEMENT)) - held_back
        if sure > shown:
            sys.stdout.write(written[shown:sure])
            sys.stdout.flush()
            shown = sure

    [found] = answer([text], stream=show)
    sys.stdout.write(found.text[shown:] + "\n")


def _answer_texts(
    texts: list[str], answer: Callable[..., list[Any]], form: Callable[[int, str, Any], str]
) -> None:
    with counting(errors(), "answering", total=len(texts), unit="sentences") as tell:
        answers = answer(texts, tell=tell)
    for number, (source, found) in enumerate(zip(texts, answers, strict=True), start=1):
        sys.stdout.write(form(number, source, found))


def _how_to_go_on(kept: KeptAnswers) -> str:
    if not kept.lines:
        return "Stopped, before anything was answered."
    return (
        f"Stopped. The answers to {kept.lines:,} lines are in {kept.path}. To go on from there:\n"
        f"  saccade {shlex.join(sys.argv[1:])}"
    )


def _form(number: int, source: str, answer: "Prediction", *, n_best: int, json: bool) -> str:
    """An answer as it is written, with the end of its line."""
    found = (answer, *answer.others)
    if json:
        best, *others = [{**one._asdict(), "others": ()} for one in found]
        return json_line({"source": source, **best, "others": others}) + "\n"
    if n_best == 1:
        return one_line(answer.text) + "\n"
    return "".join(
        f"{number}\t{rank}\t{one.score:.4f}\t{one_line(one.text)}\n"
        for rank, one in enumerate(found, start=1)
    )


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

    opened = open_run(run)
    with counting(errors(), "scoring") as tell:
        scores = opened.evaluate(data, split=split, beam=beam, tell=tell)
    if json:
        print_json(scores)
    else:
        from rich.console import Console

        Console(highlight=False).print(scores_table(scores))
        if shown := confusion_table(scores):
            Console(highlight=False).print("", shown)
