"""predict, evaluate."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.console import confusion_table, print_json, scores_table, stderr_console
from saccade.cli.export import open_engine
from saccade.cli.predict_file import escape_line_breaks, json_line, predict_file
from saccade.cli.resumable_output import ResumableOutput, run_fingerprint
from saccade.cli.train import parse_overrides
from saccade.errors import ConfigError
from saccade.training.progress import show_progress

if TYPE_CHECKING:
    from saccade.types.results import Prediction

REPLACEMENT_CHARACTER = (
    "\N{REPLACEMENT CHARACTER}"  # the bytes of a letter that are there are not all yet
)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
BeamOption = Annotated[int, typer.Option(help="Hypotheses kept at each step; 1 is greedy.", min=1)]


def predict_command(
    run: RunArgument,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    file: Annotated[str | None, typer.Option(help="A text file, or - for standard input.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file for the answers to --file; see below.")
    ] = None,
    beam: BeamOption = 1,
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
    max_new_tokens: Annotated[
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
    json: JsonOption = False,
) -> None:
    r"""Answer texts, one line for each, in order.

    \b
    saccade predict runs/dates "5 de março de 2024"
    saccade predict runs/dates --file dates.txt --beam 5 --n-best 3
    saccade predict runs/language "The " --sample --temperature 0.8 --top-p 0.9 --seed 1
    saccade predict runs/language "The " --max-new-tokens 300 --stop "Changed in"
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
    answer, truncate, can_stream = _opened(run, engine, with_scores=json or n_best > 1)
    if stream and not can_stream:
        raise ConfigError("--stream is for models of text; this run answers all at once.")
    if stream is None:
        alone = file is None and len(texts or []) == 1 and beam == n_best == 1 and not json
        stream = can_stream and alone and sys.stdout.isatty()
    if stream and (file is not None or len(texts or []) != 1 or json):
        raise ConfigError("--stream is for one text, shown as text: leave --file and --json out.")
    said: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "max_new_tokens": max_new_tokens,
        "stop": tuple(stop) if stop else None,
    }
    how = {
        "beam": beam,
        "n_best": n_best,
        **parse_overrides(search or [], "--search"),
        **{name: value for name, value in said.items() if value is not None},
        **({"sample": True} if sample else {}),
    }
    how = {
        name: value for name, value in how.items() if value != 1 or name not in ("beam", "n_best")
    }
    format_answer = partial(_form, n_best=n_best, json=json)
    if stream and texts:
        _stream(texts[0], partial(answer, **how), held_back=max(map(len, stop or [""])))
        return
    if file is None:
        _answer_texts(texts or [], partial(answer, **how), format_answer)
        return
    ask = partial(
        predict_file,
        file,
        partial(answer, **how),
        format_answer,
        truncate,
    )
    if out is None:
        ask(None)
        return
    asked = {"the run's print": run_fingerprint(run), "json": json, "engine": engine, **how}
    with ResumableOutput(out, asked) as output:
        try:
            ask(output)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_how_to_go_on(output)) from None
        output.finish()


def _opened(
    run: Path, engine: str | None, with_scores: bool
) -> tuple[Callable[..., list[Any]], Callable[[str], str], bool]:
    """What answers texts, what shortens one, and whether an answer can be watched."""
    if engine is not None:
        return *open_engine(engine, run, with_scores), False  # before anything loads torch
    from saccade.runs.run import load_run

    opened = load_run(run)
    return opened.predict, opened.task.truncate, opened.task.can_stream


def _stream(text: str, answer: Callable[..., list[Any]], held_back: int) -> None:
    """Show an answer as it is written; what may still be cut off or change is held back."""
    shown = 0

    def show(written: str) -> None:
        nonlocal shown
        sure = len(written.rstrip(REPLACEMENT_CHARACTER)) - held_back
        if sure > shown:
            sys.stdout.write(written[shown:sure])
            sys.stdout.flush()
            shown = sure

    [found] = answer([text], stream=show)
    sys.stdout.write(found.text[shown:] + "\n")


def _answer_texts(
    texts: list[str],
    answer: Callable[..., list[Any]],
    format_answer: Callable[[int, str, Any], str],
) -> None:
    with show_progress(
        stderr_console(), "answering", total=len(texts), unit="sentences"
    ) as on_progress:
        answers = answer(texts, on_progress=on_progress)
    for number, (source, found) in enumerate(zip(texts, answers, strict=True), start=1):
        sys.stdout.write(format_answer(number, source, found))


def _how_to_go_on(output: ResumableOutput) -> str:
    if not output.lines:
        return "Stopped, before anything was answered."
    return (
        f"Stopped. The answers to {output.lines:,} lines are in {output.path}. To go on from there:\n"
        f"  saccade {shlex.join(sys.argv[1:])}"
    )


def _form(number: int, source: str, answer: "Prediction", *, n_best: int, json: bool) -> str:
    """An answer as it is written, with the end of its line."""
    found = (answer, *answer.alternatives)
    if json:
        best, *alternatives = [{**one._asdict(), "alternatives": ()} for one in found]
        return json_line({"source": source, **best, "alternatives": alternatives}) + "\n"
    if n_best == 1:
        return escape_line_breaks(answer.text) + "\n"
    return "".join(
        f"{number}\t{rank}\t{one.score:.4f}\t{escape_line_breaks(one.text)}\n"
        for rank, one in enumerate(found, start=1)
    )


def evaluate_command(
    run: RunArgument,
    data: Annotated[str | None, typer.Option(help="Pairs; otherwise the run's own.")] = None,
    split: Annotated[str, typer.Option(help="train, dev or test, of the run's own.")] = "test",
    beam: BeamOption = 1,
    json: JsonOption = False,
) -> None:
    r"""Score a run on held-out pairs.

    \b
    saccade evaluate runs/dates
    saccade evaluate runs/mine --data test.tsv --json
    """
    from saccade.runs.run import load_run

    opened = load_run(run)
    with show_progress(stderr_console(), "scoring") as on_progress:
        scores = opened.evaluate(data, split=split, beam=beam, on_progress=on_progress)
    if json:
        print_json(scores)
    else:
        from rich.console import Console

        Console(highlight=False).print(scores_table(scores))
        if shown := confusion_table(scores):
            Console(highlight=False).print("", shown)
