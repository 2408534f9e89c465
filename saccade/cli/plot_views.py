"""Plots of `saccade plot`: Markov chains, codes, reading orders, scores, positions, losses."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.cli.console import (
    MAX_TERMINAL_WIDTH,
    has_colour,
    make_table,
    print_json,
    stderr_console,
    stdout_console,
)
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from saccade.inspection.figures import Figure, HeatMap, LinePanels

TABLE_ROWS = 7  # x values of a table of lines


def finish_plot(
    figure: "Figure", lines: Sequence[object], what: str, save: Path | None, json: bool
) -> None:
    """Write the picture if asked for; print the figure as JSON, or text and tables."""
    from saccade.plots.figure_json import figure_to_json

    if save is not None:
        from saccade.plots.render import save_figure

        try:
            messages = save_figure(figure, save)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        for message in [*messages, f"Wrote {what} to {save}."]:
            stderr_console().print(message)
    if json:
        print_json(figure_to_json(figure))
        return
    console = stdout_console()
    for line in lines:
        if isinstance(line, str):
            print(line)  # maps are wider than a narrow console, which would wrap them
        else:
            console.print(line)


def _map_text(map: "HeatMap") -> str:
    from saccade.plots.figure_text import render_heat_map

    console = stdout_console()
    return render_heat_map(map, min(console.width, MAX_TERMINAL_WIDTH), has_colour(console)) + "\n"


def _tables(panels: "LinePanels") -> list[object]:
    """Return a table for each panel: lines at a few x."""
    import numpy as np

    lines: list[object] = []
    for panel in panels.panels:
        table = make_table(panel.x_label, *(line.label for line in panel.lines))
        x = panel.lines[0].x
        for at in np.unique(np.linspace(0, len(x) - 1, TABLE_ROWS).round().astype(int)).tolist():
            table.add_row(f"{x[at]:.3g}", *(f"{line.y[at]:.3g}" for line in panel.lines))
        lines += [f"{panel.title} ({panel.y_label})", table, ""]
    return lines


def read_word_lines(path: str, characters: bool = False) -> Iterator[list[str]]:
    """Yield the lower-cased words of each line of a text, or its characters."""
    from saccade.data.text.corpus import read_text_corpus
    from saccade.data.word_splitting import split_words

    for line in read_text_corpus(Path(path)):
        yield list(line.lower()) if characters else split_words(line.lower())


def read_tokens(path: str, characters: bool = False) -> list[str]:
    """Return the lower-cased words of a text, or its characters."""
    return [token for tokens in read_word_lines(path, characters) for token in tokens]


def plot_markov(
    path: str | None, steps: int, of: tuple[int, bool], save: Path | None, json: bool
) -> None:
    """Print and plot the Markov chain of a text; `of` is the number of states, and their kind."""
    from saccade.estimators.markov import PERIODIC_MODULUS, fit_markov_chain
    from saccade.inspection.concepts import markov_maps

    if path is None:
        raise ConfigError("got no text; expected one: saccade plot markov --data book.txt.")
    states, characters = of
    try:
        chain = fit_markov_chain(read_tokens(path, characters), states)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    powers = sorted({2**k for k in range(steps.bit_length()) if 2**k <= steps} | {steps})
    stationary = chain.stationary()
    figure = markov_maps(chain.states, {k: chain.power(k) for k in powers}, stationary)
    table = make_table("state", "stationary", "most probable next")
    for name, share, row in zip(chain.states, stationary, chain.matrix, strict=True):
        best = (-row).argsort(kind="stable")[:3]
        following = ", ".join(f"{chain.states[at]} {row[at]:.2f}" for at in best if row[at] > 0)
        table.add_row(name, f"{share:.4f}", following)
    rate = chain.second_modulus()
    distances = ", ".join(f"k = {k}: {chain.distance(k):.3g}" for k in powers)
    closing = f"|λ₂| = {rate:.3f}; distance of Pᵏ from the stationary distribution: {distances}."
    if rate >= PERIODIC_MODULUS:
        closing += " The chain is periodic, so that its powers do not converge."
    lines = [_map_text(figure.maps[0]), table, "", closing]
    finish_plot(figure, lines, "the Markov chain", save, json)


def plot_huffman(
    path: str | None,
    weights: str | None,
    code: str | None,
    symbols: int,
    save: Path | None,
    json: bool,
) -> None:
    """Print and plot the Huffman code of weights or of a text's words, or measure another code."""
    from collections import Counter

    from saccade.estimators.prefix_codes import entropy_bits, huffman_code, mean_code_length
    from saccade.inspection.concepts import prefix_code_tree
    from saccade.plots.figure_text import render_tree

    if (path is None) == (weights is None):
        raise ConfigError(
            "got neither or both of a text and --weights; expected one: saccade plot huffman "
            "book.txt, or --weights sun=0.5,rain=0.25,snow=0.25."
        )
    try:
        if weights is not None:
            values = {name: float(text) for name, text in _assignments(weights).items()}
        else:
            counted = Counter(read_tokens(str(path))).most_common(symbols)
            values = {word: float(count) for word, count in counted}
        shortest = huffman_code(values)
        given = shortest if code is None else _assignments(code)
        length, entropy = mean_code_length(given, values), entropy_bits(values)
        optimum = mean_code_length(shortest, values)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    name = "Huffman code" if code is None else "given code"
    title = f"{name}: {length:.4g} bits per symbol; entropy {entropy:.4g}"
    tree = prefix_code_tree(given, values, title)
    table = make_table("symbol", "share", "code")
    total = sum(values.values())
    for symbol, value in values.items():
        table.add_row(symbol, f"{value / total:.4f}", given[symbol])
    lines: list[object] = [table, "", render_tree(tree)]
    if code is not None:
        lines.append(f"Huffman code: {optimum:.4g} bits per symbol.")
    finish_plot(tree, lines, "the code", save, json)


def _assignments(text: str) -> dict[str, str]:
    """Return NAME=VALUE,… as values by name."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise ConfigError(f"got {text!r}; expected NAME=VALUE,NAME=VALUE,… .")
    return {name.strip(): value.strip() for name, _, value in pairs}


def plot_scores(
    queries: int, keys: int, width: int, seed: int, save: Path | None, json: bool
) -> None:
    """Print and plot the weights of every attention score."""
    from saccade.inspection.concepts import score_maps

    figure = score_maps(queries, keys, width, seed)
    lines = [_map_text(map) for map in figure.maps]
    finish_plot(figure, lines, "the attention weights", save, json)


def plot_positions(length: int, width: int, save: Path | None, json: bool) -> None:
    """Print and plot positional encodings and their dot products."""
    from saccade.inspection.concepts import position_maps

    try:
        figure = position_maps(length, width)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    products = figure.maps[1].values
    table = make_table("distance", "dot product p_0 · p_t", "rotary score")
    for distance in (0, 1, 2, 4, 8, 16, 32):
        if distance < length:
            rotary = figure.maps[2].values[0, distance]
            table.add_row(str(distance), f"{products[0, distance]:.4f}", f"{rotary:.4f}")
    finish_plot(figure, [table], "the positional encodings", save, json)


def plot_losses(save: Path | None, json: bool) -> None:
    """Print and plot losses and their derivatives."""
    from saccade.inspection.concepts import loss_panels

    figure = loss_panels()
    finish_plot(figure, _tables(figure), "the losses", save, json)


def plot_temperature(seed: int, save: Path | None, json: bool) -> None:
    """Print and plot effects of the temperature of a contrastive loss."""
    from saccade.inspection.temperature import temperature_panels

    figure = temperature_panels(seed)
    finish_plot(figure, _tables(figure), "the effects of temperature", save, json)


def plot_reading(rows: int, segment: int, seed: int, save: Path | None, json: bool) -> None:
    """Print and plot which positions of a text each batch reads."""
    from saccade.inspection.concepts import reading_orders

    figure = reading_orders(rows, segment, seed)
    lines: list[object] = []
    for map in figure.maps:
        table = make_table(map.title.partition(":")[0], *map.rows)
        starts = [at for at, column in enumerate(map.columns) if column]
        for start, end in zip(starts, [*starts[1:], len(map.columns)], strict=True):
            cells = []
            for row in map.values[:, start:end]:
                read = row[row == row]
                cells.append(f"{read[0]:.0f} to {read[-1]:.0f}" if len(read) else "")
            table.add_row(map.columns[start], *cells)
        lines += [table, ""]
    finish_plot(figure, lines, "the reading orders", save, json)


def plot_weight_decay(rate: float, steps: int, save: Path | None, json: bool) -> None:
    """Print and plot paths of two weights with several weight decays."""
    from saccade.inspection.concepts import weight_decay_paths

    figure = weight_decay_paths(rate, steps)
    table = make_table("weight decay", "w₁", "w₂", "‖w‖", "end of the path: w₁", "w₂")
    path, norm = figure.panels
    for line, length, (_, *end) in zip(path.lines, norm.lines, path.points, strict=True):
        values = (line.x[-1], line.y[-1], length.y[-1], *end)
        table.add_row(line.label, *(f"{value:.4f}" for value in values))
    finish_plot(figure, [f"after {steps} steps:", table], "the paths", save, json)


def plot_powers(size: int, steps: int, seed: int, save: Path | None, json: bool) -> None:
    """Print and plot powers and products of matrices."""
    from saccade.inspection.concepts import power_iteration

    figure = power_iteration(size, steps, seed)
    finish_plot(figure, _tables(figure), "powers and products of matrices", save, json)


def plot_ratios(
    path: str | None, texts: tuple[str, str], window: int, save: Path | None, json: bool
) -> None:
    """Print and plot ratios of co-occurrence probabilities of two words."""
    from saccade.data.text.word_corpus import read_word_corpus
    from saccade.estimators.word_vectors.cooccurrence_ratios import cooccurrence_ratios
    from saccade.inspection.figures import HeatMap, HeatMapGrid

    words, probes = ([part.strip() for part in text.split(",")] for text in texts)
    if path is None or len(words) != 2:
        raise ConfigError(
            f"got {'no text' if path is None else f'{len(words)} words'}; expected a text and two "
            "words: saccade plot ratios book.txt --words ice,steam --probes solid,gas."
        )
    lines = ("".join(f"{word} " for word in line) for line in read_word_lines(path))
    content = "\n".join(lines).encode() + b"\n"
    try:
        corpus = read_word_corpus([content], min_count=1, split="whitespace")
        found = cooccurrence_ratios(corpus, (words[0], words[1]), probes, window)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    names = [f"P(k|{word})" for word in words]
    table = make_table("k", *names, "ratio")
    for probe, one, other, ratio in zip(probes, *found.probabilities, found.ratios, strict=True):
        table.add_row(probe, f"{one:.3g}", f"{other:.3g}", f"{ratio:.3g}")
    map = HeatMap(found.probabilities, names, probes, "co-occurrence probabilities", "k")
    finish_plot(HeatMapGrid([map]), [table], "the probabilities", save, json)
