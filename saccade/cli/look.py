"""`saccade look`: attributions, attention, gradients, graph or word map of a run."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.console import (
    MAX_TERMINAL_WIDTH,
    has_colour,
    make_table,
    print_json,
    stderr_console,
    stdout_console,
)
from saccade.cli.look_episode import print_episode
from saccade.cli.opening import open_run
from saccade.cli.options import JsonOption, RunArgument
from saccade.data.task_roles import takes_paths
from saccade.errors import ConfigError
from saccade.io.run_folder import read_run_settings
from saccade.types.limits import MAX_COUNT, MAX_DEPTH, MAX_WIDTH

if TYPE_CHECKING:
    from saccade.runs.attention_maps import AttentionMaps
    from saccade.runs.explanation import Explanation
    from saccade.runs.heat_maps import HeatMaps
    from saccade.runs.image_explanation import ImageExplanation
    from saccade.runs.picture import Picture

LISTED_DISTANCES = (1, 2, 4, 8, 16, 32, 64, 128)  # steps back in the table of gradient norms
SINGLE_WORD_NEIGHBORS = 10  # on the map of one word
IMAGES_SECTION = "Images"
EPISODES_SECTION = "Episodes (control)"
IMPORTANCE_BAR_WIDTH = 24  # columns of the longest bar


def look_command(
    run: RunArgument,
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT]...",
            help="A text, a row of a table, an image; for word vectors, the words.",
        ),
    ] = None,
    answer: Annotated[
        str | None, typer.Option(help="Use this target instead of the prediction.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Attention: cross, encoder, decoder or self. Other language models: influence, "
            "counts, or a gate or state."
        ),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Layer, counted from 1.", min=1, max=MAX_DEPTH)
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="Head, counted from 1.", min=1, max=MAX_WIDTH)
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Classifiers and tables: contributions, occlusion, gradient, "
            "integrated_gradients or attention; images: grad_cam, occlusion or attention."
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-new-tokens",
            help="Language models: tokens to generate (default 24).",
            min=1,
            max=MAX_COUNT,
        ),
    ] = None,
    importance: Annotated[
        bool,
        typer.Option("--importance", help="Permutation importance of the columns (tables)."),
    ] = False,
    gradients: Annotated[
        bool,
        typer.Option("--gradients", help="Gradient norms against distance (recurrent models)."),
    ] = False,
    graph: Annotated[
        bool,
        typer.Option("--graph", help="Forward and backward pass through a small network (tables)."),
    ] = False,
    row: Annotated[
        int,
        typer.Option(help="--graph: row of the test split, counted from 1.", min=1, max=MAX_COUNT),
    ] = 1,
    filters: Annotated[
        bool,
        typer.Option(
            "--filters",
            help="Kernels of the first convolution.",
            rich_help_panel=IMAGES_SECTION,
        ),
    ] = False,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="LAYER",
            help="Feature maps that this layer computes of the image.",
            rich_help_panel=IMAGES_SECTION,
        ),
    ] = None,
    embedding: Annotated[
        bool,
        typer.Option(
            "--embedding",
            help="Features of the held-out images in two dimensions.",
            rich_help_panel=IMAGES_SECTION,
        ),
    ] = False,
    terminal: Annotated[
        bool,
        typer.Option(
            "--terminal", help="Print an episode as text.", rich_help_panel=EPISODES_SECTION
        ),
    ] = False,
    episode: Annotated[
        int,
        typer.Option(
            help="Number of the test episode, counted from 1.",
            min=1,
            max=MAX_COUNT,
            rich_help_panel=EPISODES_SECTION,
        ),
    ] = 1,
    explore: Annotated[
        bool,
        typer.Option(
            "--explore",
            help="Act with the exploration of the training.",
            rich_help_panel=EPISODES_SECTION,
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Image to write: .png, .svg or .pdf; of an episode also .gif."),
    ] = None,
    json: JsonOption = False,
) -> None:
    r"""Show which words or columns led to a prediction, attention, or how gradients flow.

    \b
    saccade look runs/dates "5 de março de 2024"
    saccade look runs/mine "ein Haus" --layer 1 --head 2 --save map.png
    saccade look runs/gpt "Once upon a" --max-new-tokens 12 --save map.png
    saccade look runs/lstm "Once upon a" --kind forget --save gates.png
    saccade look runs/classify "a quiet, clever film" --save words.png
    saccade look runs/table "39,Private,13" --save columns.png
    saccade look runs/table --importance --save importance.png
    saccade look runs/language --gradients --save gradients.png
    saccade look runs/table --graph --row 3 --save graph.svg
    saccade look runs/vectors king queen man woman --save words.png
    saccade look runs/fasttext walking --answer walked
    saccade look runs/photos cat.jpg --save why.png
    saccade look runs/caption cat.jpg --save words.png
    saccade look runs/photos cat.jpg --features features.0 --save features.png
    saccade look runs/photos --filters --save filters.png
    saccade look runs/photos --embedding --save map.png
    saccade look runs/cart --save play.gif
    saccade look runs/cart --terminal
    saccade look runs/cliff --kind values --save values.png

    Without an input, the command lists what can be shown of a run. For plots that need no run,
    see saccade plot.
    """
    task = read_run_settings(run)["recipe"]["task"]
    is_word_map = answer is None and method is None
    if is_word_map and task == "vectors":
        _print_word_map(run, text or [], save, json)
    elif task == "control" and text is None and _asks_for_episode(kind, terminal, save, json):
        print_episode(run, episode, explore, terminal, save, json)
    elif terminal or explore:
        raise ConfigError(
            f"got --{'terminal' if terminal else 'explore'}; expected a run of the task control "
            "without an input; try without it."
        )
    elif gradients:
        _print_gradients(run, save or run / "report" / "gradients.png", json)
    elif graph:
        _print_graph(run, row, save or run / "report" / "graph.svg", json)
    elif importance:
        _print_importance(run, save, json)
    elif filters:
        _print_tiles(run, None, None, save or run / "report" / "filters.png", json)
    elif embedding:
        _print_embedding(run, save or run / "report" / "embedding.png", json)
    elif text is None and (text := _default_input(run)) is None:
        raise ConfigError(f"got no input; {open_run(run).describe_views()}")
    elif features is not None:
        picture = save or run / "report" / "features.png"
        _print_tiles(run, _one_input(run, text), features, picture, json)
    else:
        options = {
            "answer": answer,
            "kind": kind,
            "layer": layer,
            "head": head,
            "method": method,
            "max_new_tokens": max_new_tokens,
        }
        _print_prediction(run, _one_input(run, text), options, save, json)


def _one_input(run: Path, parts: list[str]) -> str:
    """Return the text of several words, or the path of one image."""
    from saccade.data.images.readers import find_images

    joined = " ".join(parts)  # of a text, or of a path with spaces
    if not takes_paths(read_run_settings(run)["recipe"]["task"]) or os.path.isfile(joined):
        return joined
    found = [path for part in parts for path in find_images(part)]
    if len(found) > 1:
        raise ConfigError(
            f"got {len(found):,} images; expected one; try saccade look {run} {found[0]}"
        )
    return found[0]


def _print_word_map(folder: Path, words: list[str], save: Path | None, json: bool) -> None:
    """Print the cosine similarities of words; plot their projection to two dimensions."""
    from rich.console import Console

    from saccade.plots.render import save_figure
    from saccade.tasks.word_vectors.inspect import MAP_NEIGHBORS, WordVectorInspector

    if not words:
        raise ConfigError("got no words; expected one or more: saccade look RUN king queen.")
    run = open_run(folder)
    cosines = run.model.similarities(words)
    inspector = run.inspector
    assert isinstance(inspector, WordVectorInspector)
    found = inspector.word_map(words, MAP_NEIGHBORS if len(words) > 1 else SINGLE_WORD_NEIGHBORS)
    if save is not None:
        try:
            for message in save_figure(found, save):
                stderr_console().print(message)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        stderr_console().print(f"Wrote a map of {len(words)} words to {save}.")
    if json:
        neighbors = [neighbor._asdict() for neighbor in found.neighbors]
        print_json({"words": words, "cosines": cosines.tolist(), "neighbors": neighbors})
        return
    table = make_table("", *words, "nearest")
    for word, row in zip(words, cosines, strict=True):
        near = [f"{n.word} {n.cosine:.2f}" for n in found.neighbors if n.of == word]
        table.add_row(word, *(f"{cosine:.2f}" for cosine in row), ", ".join(near))
    Console(highlight=False).print(table)


def _print_importance(folder: Path, save: Path | None, json: bool) -> None:
    """Print how much worse the predictions are if a column is shuffled."""
    from rich.console import Console

    result = open_run(folder).importance()
    found = result.importance
    if save is not None:
        for message in result.save(save):
            stderr_console().print(message)
        stderr_console().print(f"Wrote the importance of {len(found.names)} columns to {save}.")
    if json:
        print_json(result.to_dict())
        return
    means = found.drops.mean(1).round(12) + 0.0
    console = Console(highlight=False)
    worse = "lower" if found.metric == "accuracy" else "higher"
    console.print(
        f"{found.metric} {found.score:.4g} on {found.rows:,} held-out rows; {worse} by this much "
        "if a column is shuffled:",
        markup=False,
    )
    largest = max(float(means.max()), 1e-12)
    table = make_table("column", "mean", "range", "")
    for row in found.order():
        drops = found.drops[row]
        bar = "█" * max(0, round(IMPORTANCE_BAR_WIDTH * means[row] / largest))
        spread = f"{drops.min():.3g} to {drops.max():.3g}"
        table.add_row(found.names[row], f"{means[row]:.4g}", spread, bar)
    console.print(table)


def _print_gradients(folder: Path, save: Path, json: bool) -> None:
    import numpy as np
    from rich.console import Console

    run = open_run(folder)
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

    graph = open_run(folder).plot_graph(save, row=row)
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


def _asks_for_episode(kind: str | None, terminal: bool, save: Path | None, json: bool) -> bool:
    return kind is None and (terminal or save is not None or json)


def _default_input(folder: Path) -> list[str] | None:
    """Return the input of a view that is the same for all inputs; None: there is none."""
    default = open_run(folder).inspector.default_input
    return None if default is None else [default]


def _print_prediction(
    folder: Path, text: str, options: dict[str, Any], save: Path | None, json: bool
) -> None:
    """Print what led to a prediction: attributions of a classifier, or attention maps."""
    opened = open_run(folder)
    from saccade.runs.explanation import Explanation
    from saccade.runs.heat_maps import HeatMaps
    from saccade.runs.image_explanation import ImageExplanation

    found = opened.look(text, **options)
    if isinstance(found, Explanation):
        _print_explanation(found, save, json)
    elif isinstance(found, ImageExplanation):
        _print_image_maps(found, save, json)
    elif isinstance(found, HeatMaps):
        _print_heat_maps(found, save, json)
    else:
        _print_attention(found, save, json)


def _print_tiles(
    folder: Path, image: str | None, layer: str | None, save: Path, json: bool
) -> None:
    """Save the filters, or the feature maps of a layer for an image."""
    opened = open_run(folder)
    if image is None or layer is None:
        found = opened.filters()
    else:
        found = opened.feature_maps(image, layer)
    save.parent.mkdir(parents=True, exist_ok=True)
    _save(found, save, found.grid.title)
    if json:
        print_json(found.to_dict())


def _print_embedding(folder: Path, save: Path, json: bool) -> None:
    """Save the map of the features of the held-out images."""
    found = open_run(folder).embedding()
    save.parent.mkdir(parents=True, exist_ok=True)
    _save(found, save, f"the features of {_count(len(found.map.names), 'image')}")
    if json:
        print_json(found.to_dict())


def _print_image_maps(found: "ImageExplanation", save: Path | None, json: bool) -> None:
    _save(found, save, _count(len(found.maps.maps), "map"))
    if json:
        print_json(found.to_dict())
        return
    from saccade.plots.images import format_probability

    print(f"→ {found.maps.output}  {format_probability(found.maps.probability)}\n")
    print(found.terminal(min(stdout_console().width, MAX_TERMINAL_WIDTH)))


def _save(found: "Picture", path: Path | None, what: str) -> None:
    """Save a picture of the result, if a path is given, and report it."""
    if path is not None:
        for message in (*found.save(path), f"Wrote {what} to {path}."):
            stderr_console().print(message)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"


def _print_explanation(found: "Explanation", save: Path | None, json: bool) -> None:
    _save(found, save, "the attribution")
    if json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    screen, of = Console(), found.attribution
    value = f" {of.value:.4g}" if not of.against else ""
    probability = value if of.probability is None else f"  {of.probability:.1%}"
    against = f"  (compared with {of.against})" if of.against else ""
    print(f"→ {of.output}{probability}{against}\n")
    print(found.terminal(min(screen.width, MAX_TERMINAL_WIDTH), screen.is_terminal))


def _print_heat_maps(found: "HeatMaps", save: Path | None, json: bool) -> None:
    _save(found, save, _count(len(found.maps), "map"))
    if json:
        print_json(found.to_dict())
        return
    screen = stdout_console()
    print(f"{found.source}\n→ {found.answer}\n")
    print(found.terminal(min(screen.width, MAX_TERMINAL_WIDTH), has_colour(screen)))
    if len(found.maps) > 1:
        kinds = ", ".join(dict.fromkeys(kind for kind, _ in found.maps))
        note = f"\nShowing 1 of {len(found.maps)} maps; --kind selects of {kinds}."
        stderr_console().print(note)


def _print_attention(found: "AttentionMaps", save: Path | None, json: bool) -> None:
    _save(found, save, _count(len(found.maps), "attention map"))
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
    print(f"{found.source}\n→ {found.answer}\n" if found.answer else f"{found.source}\n")
    print(found.terminal(min(screen.width, MAX_TERMINAL_WIDTH), screen.is_terminal))
    if len(found.maps) > 1:
        stderr_console().print(
            f"\nShowing 1 of {len(found.maps)} maps; --layer and --head select, --save plots all."
        )
