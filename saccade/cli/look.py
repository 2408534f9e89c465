"""`saccade look`: attributions, attention, gradients, graph or word map of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.cli.options import ImageOption, JsonOption, RunArgument
from saccade.errors import ConfigError
from saccade.io.run_folder import read_run_settings

if TYPE_CHECKING:
    from saccade.runs.attention_maps import AttentionMaps
    from saccade.runs.explanation import Explanation

LISTED_DISTANCES = (1, 2, 4, 8, 16, 32, 64, 128)  # steps back in the table of gradient norms
MAX_TERMINAL_WIDTH = 120


def look_command(
    run: RunArgument,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT]...", help="The input; for word vectors, the words."),
    ] = None,
    answer: Annotated[
        str | None, typer.Option(help="Use this target instead of the prediction.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Attention: cross, encoder, decoder or self.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Layer, counted from 1.", min=1)] = None,
    head: Annotated[int | None, typer.Option(help="Head, counted from 1.", min=1)] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Classifiers: contributions, occlusion, gradient, integrated_gradients or "
            "attention."
        ),
    ] = None,
    gradients: Annotated[
        bool,
        typer.Option("--gradients", help="Gradient norms against distance (recurrent models)."),
    ] = False,
    graph: Annotated[
        bool,
        typer.Option("--graph", help="Forward and backward pass through a small network (tables)."),
    ] = False,
    row: Annotated[
        int, typer.Option(help="--graph: row of the test split, counted from 1.", min=1)
    ] = 1,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Show which words led to a label, the attention of a run, or how its gradients flow.

    \b
    saccade look runs/dates "5 de março de 2024"
    saccade look runs/mine "ein Haus" --layer 1 --head 2 --save map.png
    saccade look runs/classify "a quiet, clever film" --save words.png
    saccade look runs/language --gradients --save gradients.png
    saccade look runs/table --graph --row 3 --save graph.svg
    saccade look runs/vectors king queen man woman --save words.png

    For plots that need no run, see saccade plot.
    """
    if read_run_settings(run)["recipe"]["task"] == "vectors":
        _print_word_map(run, text or [], save, json)
    elif gradients:
        _print_gradients(run, save or run / "report" / "gradients.png", json)
    elif graph:
        _print_graph(run, row, save or run / "report" / "graph.svg", json)
    elif text is None:
        raise ConfigError(f"look needs an input for {run}, or --gradients or --graph.")
    else:
        _print_prediction(run, " ".join(text), answer, kind, layer, head, method, save, json)


def _print_word_map(folder: Path, words: list[str], save: Path | None, json: bool) -> None:
    """Print the cosine similarities of words; plot their projection to two dimensions."""
    from rich.console import Console

    from saccade.inspection.figures import WordMap
    from saccade.plots.render import save_figure
    from saccade.runs.run import load_run

    if len(words) < 2:
        raise ConfigError(f"got {len(words)} words; look needs two or more for a map.")
    model = load_run(folder).model
    cosines = model.similarities(words)
    if save is not None:
        try:
            for message in save_figure(WordMap(words, model.unit_vectors_of(words)), save):
                stderr_console().print(message)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        stderr_console().print(f"Wrote a map of {len(words)} words to {save}.")
    if json:
        print_json({"words": words, "cosines": cosines.tolist()})
        return
    table = make_table("", *words)
    for word, row in zip(words, cosines, strict=True):
        table.add_row(word, *(f"{cosine:.2f}" for cosine in row))
    Console(highlight=False).print(table)


def _print_gradients(folder: Path, save: Path, json: bool) -> None:
    import numpy as np
    from rich.console import Console

    from saccade.runs.run import load_run

    run = load_run(folder)
    save.parent.mkdir(parents=True, exist_ok=True)
    norms = np.median(run.plot_gradients(save), axis=0)
    stderr_console().print(f"Wrote gradient norms to {save}.")
    if json:
        print_json({"norm_by_distance": norms.tolist()})
        return
    table = make_table("steps back", "gradient norm", "relative to 1 step")
    for distance in sorted({*LISTED_DISTANCES, len(norms)}):
        if distance <= len(norms):
            norm = norms[distance - 1]
            table.add_row(str(distance), f"{norm:.3g}", f"{100 * norm / norms[0]:.3g} %")
    Console(highlight=False).print(table)


def _print_graph(folder: Path, row: int, save: Path, json: bool) -> None:
    from rich.console import Console

    from saccade.runs.run import load_run

    graph = load_run(folder).plot_graph(save, row=row)
    stderr_console().print(f"Wrote the computation graph to {save}.")
    if json:
        layers = [[unit._asdict() for unit in layer] for layer in graph.layers]
        weights = [matrix.tolist() for matrix in graph.weights]
        print_json({"title": graph.title, "loss": graph.loss, "layers": layers, "weights": weights})
        return
    console = Console(highlight=False)
    console.print(graph.title, markup=False)
    for layer in graph.layers:
        table = make_table("unit", *layer[0].figures)
        for unit in layer:
            table.add_row(unit.name, *(f"{value:.4f}" for value in unit.figures.values()))
        console.print("", table)


def _print_prediction(
    folder: Path,
    text: str,
    answer: str | None,
    kind: str | None,
    layer: int | None,
    head: int | None,
    method: str | None,
    save: Path | None,
    json: bool,
) -> None:
    """Print what led to a prediction: attributions of a classifier, or attention maps."""
    from saccade.runs.explanation import Explanation
    from saccade.runs.run import load_run

    found = load_run(folder).look(
        text, answer=answer, kind=kind, layer=layer, head=head, method=method
    )
    if isinstance(found, Explanation):
        _print_explanation(found, save, json)
    else:
        _print_attention(found, save, json)


def _print_explanation(found: "Explanation", save: Path | None, json: bool) -> None:
    if save is not None:
        for message in found.save(save):
            stderr_console().print(message)
        stderr_console().print(f"Wrote the attribution to {save}.")
    if json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    screen, of = Console(), found.attribution
    probability = "" if of.probability is None else f"  {of.probability:.1%}"
    against = f"  (compared with {of.against})" if of.against else ""
    print(f"→ {of.output}{probability}{against}\n")
    print(found.terminal(min(screen.width, MAX_TERMINAL_WIDTH), screen.is_terminal))


def _print_attention(found: "AttentionMaps", save: Path | None, json: bool) -> None:
    messages = stderr_console()
    if save is not None:
        for message in found.save(save):
            messages.print(message)
        count = len(found.maps)
        messages.print(f"Wrote {count} attention map{'s' if count > 1 else ''} to {save}.")
    if json:
        maps = [
            {
                "kind": map_kind,
                "layer": map_layer,
                "head": map_head,
                "rows": attention.rows,
                "columns": attention.columns,
                "weights": attention.weights.tolist(),
            }
            for (map_kind, map_layer, map_head), attention in found.maps.items()
        ]
        print_json({"source": found.source, "answer": found.answer, "maps": maps})
        return
    from rich.console import Console

    screen = Console()
    print(f"{found.source}\n→ {found.answer}\n")
    print(found.terminal(min(screen.width, MAX_TERMINAL_WIDTH), screen.is_terminal))
    if len(found.maps) > 1:
        messages.print(
            f"\nShowing 1 of {len(found.maps)} maps; --layer and --head select, --save plots all."
        )
