"""look: a run's attention, how far its gradients reach, a text's words, or an idea by itself."""

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.cli.plot_concepts import CONCEPTS, concept_only_message, look_at_concept
from saccade.cli.plot_schedules import look_at_schedules
from saccade.cli.train import SetOption
from saccade.errors import ConfigError
from saccade.io.run_folder import read_run_settings
from saccade.registry import did_you_mean


def look_command(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help=f"A run's folder, a text file, schedule, {' or '.join(CONCEPTS)}."
        ),
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
    activation: Annotated[str | None, typer.Option(help="depth: tanh if not said.")] = None,
    init: Annotated[
        str | None, typer.Option(help="depth: how weights begin; xavier if not said.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="depth: 50 if not said.", min=1)] = None,
    width: Annotated[int | None, typer.Option(help="depth: 256 if not said.", min=2)] = None,
    norm: Annotated[str | None, typer.Option(help="depth: none, batch, layer or rms.")] = None,
    residual: Annotated[
        bool, typer.Option("--residual", help="depth: with a way around each layer.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="depth: 0 if not said.", min=0)] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="A small network of a table, forward and back.")
    ] = False,
    row: Annotated[int, typer.Option(help="--graph: of the test set, from 1.", min=1)] = 1,
    set: SetOption = None,
    save: Annotated[Path | None, typer.Option(help="A picture: .png, .svg or .pdf.")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""Show where a run looks as it writes its answer; or look at a text or an idea by itself.

    \b
    saccade look runs/dates "5 de março de 2024"
    saccade look runs/mine "ein Haus" --layer 1 --head 2 --save map.png
    saccade look runs/language --gradients --save gradients.png
    saccade look runs/table --graph --row 3 --save graph.svg
    saccade look runs/vectors king queen man woman --save words.png
    saccade look book.txt --save zipf.png
    saccade look activations --save activations.png
    saccade look depth --activation relu --init kaiming --layers 50 --save depth.png
    saccade look schedule --set train.steps=500 --save schedules.png
    """
    own = {"activation": activation, "init": init, "layers": layers, "width": width}
    own |= {"norm": norm, "residual": residual or None, "seed": seed}
    of_a_run = {"answer": answer, "kind": kind, "layer": layer, "head": head}
    of_a_run |= {"gradients": gradients or None, "graph": graph or None}
    chosen = {name: value for name, value in own.items() if value is not None}
    if what == Path("schedule") and not what.exists() and not chosen:
        look_at_schedules(set or [], save, json)
    elif set:
        raise ConfigError("--set is for look schedule.")
    elif str(what) in CONCEPTS and (chosen or not what.exists()):
        if text:
            raise ConfigError(f"look {what} answers nothing, so it takes no text.")
        given = {name: value for name, value in of_a_run.items() if value is not None}
        look_at_concept(str(what), chosen | given, save, json)
    elif chosen:
        raise ConfigError(concept_only_message(chosen))
    elif (
        not what.exists()
        and len(what.parts) == 1
        and (near := did_you_mean(str(what), [*CONCEPTS, "schedule"]))
    ):
        raise ConfigError(f"There is no run and no file {what}.{near}")
    elif what.is_file():
        _words(what, save, json)
    elif read_run_settings(what)["recipe"]["task"] == "vectors":
        _map_of_words(what, text or [], save, json)
    elif gradients:
        _gradients(what, save or what / "report" / "gradients.png", json)
    elif graph:
        _graph(what, row, save or what / "report" / "graph.svg", json)
    elif text is None:
        raise ConfigError(f"look needs a text for {what} to answer, --gradients or --graph.")
    else:
        _maps(what, " ".join(text), answer, kind, layer, head, save, json)


def _words(path: Path, save: Path | None, json: bool) -> None:
    """Zipf's law: the n-th word occurs about 1/n times as often as the first."""
    from rich.console import Console

    from saccade.data.text.corpus import read_text_corpus
    from saccade.inspection.zipf import fit_zipf_by_order, rank_frequencies, word_ids
    from saccade.plots.zipf import NGRAM_NAMES, save_zipf

    counts = rank_frequencies(word_ids(read_text_corpus(path)))
    laws = fit_zipf_by_order(counts)
    if save is not None:
        try:
            save_zipf(counts, save)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        stderr_console().print(f"Rank against frequency is drawn in {save}.")
    if json:
        print_json(
            {
                NGRAM_NAMES[order]: {
                    "different": len(frequencies),
                    "total": int(frequencies.sum()),
                    **(laws[order]._asdict() if order in laws else {}),
                }
                for order, frequencies in counts.items()
            }
        )
        return
    shown = make_table(
        "runs of words", "different", "in all", "once", "exponent", "fitted to ranks"
    )
    for order, frequencies in counts.items():
        law = laws.get(order)
        shown.add_row(
            NGRAM_NAMES[order],
            f"{len(frequencies):,}",
            f"{int(frequencies.sum()):,}",
            f"{int((frequencies == 1).sum()):,}",
            f"{law.exponent:.3f}" if law else "too few",
            f"{law.first:,} to {law.last:,}" if law else "",
        )
    Console(highlight=False).print(shown)


def _map_of_words(folder: Path, words: list[str], save: Path | None, json: bool) -> None:
    from rich.console import Console

    from saccade.runs.run import load_run

    if len(words) < 2:
        raise ConfigError(f"look needs two words or more to draw a map of, got {len(words)}.")
    task = load_run(folder).task
    cosines = task.cosines(words)
    if save is not None:
        try:
            for message in task.plot_words(words, save):
                stderr_console().print(message)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        stderr_console().print(f"A map of {len(words)} words is drawn in {save}.")
    if json:
        print_json({"words": words, "cosines": cosines.tolist()})
        return
    shown = make_table("", *words)
    for word, row in zip(words, cosines, strict=True):
        shown.add_row(word, *(f"{cosine:.2f}" for cosine in row))
    Console(highlight=False).print(shown)


def _gradients(folder: Path, save: Path, json: bool) -> None:
    import numpy as np
    from rich.console import Console

    from saccade.runs.run import load_run

    run = load_run(folder)
    save.parent.mkdir(parents=True, exist_ok=True)
    norms = np.median(run.plot_gradients(save), axis=0)
    stderr_console().print(f"Gradients are drawn in {save}.")
    if json:
        print_json({"norm_by_distance": norms.tolist()})
        return
    shown = make_table("steps back", "norm of the gradient", "of the first")
    for distance in sorted({1, 2, 4, 8, 16, 32, 64, 128, len(norms)}):
        if distance <= len(norms):
            norm = norms[distance - 1]
            shown.add_row(str(distance), f"{norm:.3g}", f"{100 * norm / norms[0]:.3g} %")
    Console(highlight=False).print(shown)


def _graph(folder: Path, row: int, save: Path, json: bool) -> None:
    from rich.console import Console

    from saccade.runs.run import load_run

    graph = load_run(folder).plot_graph(save, row=row)
    stderr_console().print(f"The graph is drawn in {save}.")
    if json:
        layers = [[unit._asdict() for unit in layer] for layer in graph.layers]
        weights = [between.tolist() for between in graph.weights]
        print_json({"title": graph.title, "loss": graph.loss, "layers": layers, "weights": weights})
        return
    console = Console(highlight=False)
    console.print(graph.title, markup=False)
    for layer in graph.layers:
        shown = make_table("unit", *layer[0].figures)
        for unit in layer:
            shown.add_row(unit.name, *(f"{value:.4f}" for value in unit.figures.values()))
        console.print("", shown)


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
    from saccade.runs.run import load_run

    seen = load_run(folder).look(text, answer=answer, kind=kind, layer=layer, head=head)
    console = stderr_console()
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
