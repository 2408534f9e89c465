"""look: a run's attention, how far its gradients reach, or how often a text has its words."""

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.learning import Set
from saccade.cli.looking_at_schedules import look_at_schedules
from saccade.cli.printing import errors, print_json, table
from saccade.errors import ConfigError
from saccade.folder import read_settings


def look(
    what: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run's folder, a text file, or schedule.")
    ],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="What to answer; words.")
    ] = None,
    answer: Annotated[
        str | None, typer.Option(help="An answer to read in place of its own.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="cross, encoder or decoder.")] = None,
    layer: Annotated[int | None, typer.Option(help="Counted from 1.", min=1)] = None,
    head: Annotated[int | None, typer.Option(help="Counted from 1.", min=1)] = None,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="How far back a recurrent model learns.")
    ] = False,
    set: Set = None,
    save: Annotated[Path | None, typer.Option(help="A picture: .png, .svg or .pdf.")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""Show where a run looks as it writes its answer; or look at a text itself.

    \b
    saccade look runs/dates "5 de março de 2024"
    saccade look runs/mine "ein Haus" --layer 1 --head 2 --save map.png
    saccade look runs/language --gradients --save gradients.png
    saccade look runs/vectors king queen man woman --save words.png
    saccade look book.txt --save zipf.png
    saccade look schedule --set train.steps=500 --save schedules.png
    """
    if what.is_file():
        _words(what, save, json)
    elif what == Path("schedule") and not what.exists():
        look_at_schedules(set or [], save, json)
    elif set:
        raise ConfigError("--set is for look schedule.")
    elif read_settings(what)["recipe"]["task"] == "vectors":
        _map_of_words(what, text or [], save, json)
    elif gradients:
        _gradients(what, save or what / "report" / "gradients.png", json)
    elif text is None:
        raise ConfigError(f"look needs a text for {what} to answer, or --gradients.")
    else:
        _maps(what, " ".join(text), answer, kind, layer, head, save, json)


def _words(path: Path, save: Path | None, json: bool) -> None:
    """Zipf's law: the n-th word occurs about 1/n times as often as the first."""
    from rich.console import Console

    from saccade.data.lines import read_corpus
    from saccade.look.counts import fits, rank_frequencies, word_ids
    from saccade.look.draw_counts import NAMES, save_zipf

    counts = rank_frequencies(word_ids(read_corpus(path)))
    laws = fits(counts)
    if save is not None:
        try:
            save_zipf(counts, save)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        errors().print(f"Rank against frequency is drawn in {save}.")
    if json:
        print_json(
            {
                NAMES[order]: {
                    "different": len(frequencies),
                    "total": int(frequencies.sum()),
                    **(laws[order]._asdict() if order in laws else {}),
                }
                for order, frequencies in counts.items()
            }
        )
        return
    shown = table("runs of words", "different", "in all", "once", "exponent", "fitted to ranks")
    for order, frequencies in counts.items():
        law = laws.get(order)
        shown.add_row(
            NAMES[order],
            f"{len(frequencies):,}",
            f"{int(frequencies.sum()):,}",
            f"{int((frequencies == 1).sum()):,}",
            f"{law.exponent:.3f}" if law else "too few",
            f"{law.first:,} to {law.last:,}" if law else "",
        )
    Console(highlight=False).print(shown)


def _map_of_words(folder: Path, words: list[str], save: Path | None, json: bool) -> None:
    from rich.console import Console

    from saccade.run import open_run

    if len(words) < 2:
        raise ConfigError(f"look needs two words or more to draw a map of, got {len(words)}.")
    task = open_run(folder).task
    cosines = task.cosines(words)
    if save is not None:
        try:
            for message in task.draw(words, save):
                errors().print(message)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        errors().print(f"A map of {len(words)} words is drawn in {save}.")
    if json:
        print_json({"words": words, "cosines": cosines.tolist()})
        return
    shown = table("", *words)
    for word, row in zip(words, cosines, strict=True):
        shown.add_row(word, *(f"{cosine:.2f}" for cosine in row))
    Console(highlight=False).print(shown)


def _gradients(folder: Path, save: Path, json: bool) -> None:
    import numpy as np
    from rich.console import Console

    from saccade.run import open_run

    run = open_run(folder)
    save.parent.mkdir(parents=True, exist_ok=True)
    norms = np.median(run.gradients(save), axis=0)
    errors().print(f"Gradients are drawn in {save}.")
    if json:
        print_json({"norm_by_distance": norms.tolist()})
        return
    shown = table("steps back", "norm of the gradient", "of the first")
    for distance in sorted({1, 2, 4, 8, 16, 32, 64, 128, len(norms)}):
        if distance <= len(norms):
            norm = norms[distance - 1]
            shown.add_row(str(distance), f"{norm:.3g}", f"{100 * norm / norms[0]:.3g} %")
    Console(highlight=False).print(shown)


def _maps(
    folder: Path,
    text: str,
    answer: str | None,
    kind: str | None,
    layer: int | None,
    head: int | None,
    save: Path | None,
    json: bool,
) -> None:
    from saccade.run import open_run

    seen = open_run(folder).look(text, answer=answer, kind=kind, layer=layer, head=head)
    console = errors()
    if save is not None:
        for message in seen.save(save):
            console.print(message)
        count = len(seen.maps)
        console.print(f"{count} map{'s are' if count > 1 else ' is'} drawn in {save}.")
    if json:
        maps = [
            {
                "kind": k,
                "layer": n,
                "head": h,
                "rows": m.rows,
                "columns": m.columns,
                "weights": m.weights.tolist(),
            }
            for (k, n, h), m in seen.maps.items()
        ]
        print_json({"source": seen.source, "answer": seen.answer, "maps": maps})
        return
    from rich.console import Console

    screen = Console()
    print(f"{seen.source}\n→ {seen.answer}\n")
    print(seen.terminal(min(screen.width, 120), screen.is_terminal))
    if len(seen.maps) > 1:
        console.print(
            f"\nThe first of {len(seen.maps)} maps: --layer and --head choose, --save draws all."
        )
