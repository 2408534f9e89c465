"""Pictures of trees from left to right: hypotheses of a beam, prefix codes."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import Tree
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    LabelFont,
    image_format,
    write_figure,
)
from saccade.plots.terminal import display_width, truncate_to_width, visible_text

ROW_INCHES, LETTER_INCHES, GAP_INCHES = 0.34, 0.085, 0.45
MAX_NODE_WIDTH = 24  # columns of a label
MAX_DRAWN_NODES = 400


def save_tree(tree: Tree, path: Path) -> list[str]:
    """Draw the tree as PNG, SVG or PDF by the suffix of `path`; return warnings."""
    format = image_format(path)
    if not tree.nodes:
        raise ValueError("got a tree without nodes; give at least one to draw.")
    drawn = Tree(tree.nodes[:MAX_DRAWN_NODES], tree.title)
    font = LabelFont(
        *fonts_for("".join([*(node.label + node.note for node in drawn.nodes), tree.title, "␣…"]))
    )
    write_figure(tree_figure(drawn, font), path, format)
    warnings = [missing_message(font.missing)] if font.missing else []
    if len(drawn.nodes) < len(tree.nodes):
        warnings.append(f"The picture shows {MAX_DRAWN_NODES} of {len(tree.nodes)} nodes.")
    return warnings


def tree_figure(tree: Tree, font: LabelFont) -> Figure:
    """Return the figure: the root on the left, a leaf on each line."""
    texts = [node_text(node.label) for node in tree.nodes]
    depths = [0] * len(tree.nodes)
    for index, node in enumerate(tree.nodes):
        depths[index] = 0 if node.parent < 0 else depths[node.parent] + 1
    widths = [0.0] * (max(depths) + 1)
    for text, node, depth in zip(texts, tree.nodes, depths, strict=True):
        letters = max(display_width(text), display_width(node.note))
        widths[depth] = max(widths[depth], LETTER_INCHES * letters + GAP_INCHES)
    lefts = [sum(widths[:depth]) for depth in range(len(widths))]
    heights = node_heights(tree)
    width, height = sum(widths) + 0.2, ROW_INCHES * (max(heights) + 1) + 0.5
    figure = Figure(figsize=(max(width, 4.0), height), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.axis("off")
    axes.set_xlim(0, max(width, 4.0))
    axes.set_ylim(height - 0.25, -0.5)
    for index, node in enumerate(tree.nodes):
        x, y = lefts[depths[index]], ROW_INCHES * heights[index]
        colour = LINE_COLORS[0] if node.kept else "#c8c8c8"
        if node.parent >= 0:
            start = lefts[depths[node.parent]], ROW_INCHES * heights[node.parent]
            parent_text = texts[node.parent]
            left = start[0] + LETTER_INCHES * display_width(parent_text) + 0.12
            axes.plot([left, x - 0.05], [start[1], y], color=colour, lw=1.2 if node.kept else 0.8)
        label = axes.text(x, y, replace_missing(texts[index], font.missing), va="center")
        font.apply(label, 9.5, TEXT_COLOR if node.kept else MUTED_COLOR)
        if node.note:
            note = axes.text(x, y + 0.13, node.note, va="center")
            font.apply(note, 6.5, MUTED_COLOR)
    if tree.title:
        font.apply(axes.text(0.0, -0.35, replace_missing(tree.title, font.missing)), 11)
    return figure


def node_heights(tree: Tree) -> list[float]:
    """Return the line of each node: leaves below each other, a parent amid its children."""
    children = tree.children()
    heights = [0.0] * len(tree.nodes)
    leaves = 0
    pending = [0]
    order = []
    while pending:  # depth first, without recursion: a beam may be deep
        index = pending.pop()
        order.append(index)
        pending.extend(reversed(children[index]))
    for index in order:
        if not children[index]:
            heights[index] = float(leaves)
            leaves += 1
    for index in reversed(order):
        if children[index]:
            own = [heights[child] for child in children[index]]
            heights[index] = (min(own) + max(own)) / 2
    return heights


def node_text(label: str) -> str:
    """Return the text of a node: visible, and not too long."""
    text = visible_text(label)
    if display_width(text) <= MAX_NODE_WIDTH:
        return text
    return truncate_to_width(text, MAX_NODE_WIDTH - 1) + "…"
