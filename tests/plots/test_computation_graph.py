"""Computation graphs: no text overlaps another text or a box."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch
from matplotlib.transforms import Bbox

from saccade.inspection.figures import ComputationGraph, GraphUnit
from saccade.plots.computation_graph import (
    GraphEdge,
    computation_graph_figure,
    label_positions,
)
from saccade.plots.style import LabelFont

FONT = LabelFont(["DejaVu Sans"], [])


def graph_of(widths: list[int], large: float = 1.0) -> ComputationGraph:
    generator = np.random.default_rng(0)
    layers = [
        [
            GraphUnit(
                f"a name of some length {unit}"
                if layer in (0, len(widths) - 1)
                else f"{layer}.{unit}",
                {"x": float(generator.normal()), "∂x": -1e-7 * large}
                if layer == 0
                else {"z": -12.34, "a": 0.0, "δ": float(generator.normal(0, 1e-3))},
                None if layer == 0 else float(generator.normal()),
            )
            for unit in range(width)
        ]
        for layer, width in enumerate(widths)
    ]
    weights = [
        large * generator.normal(size=(b, a)) for a, b in zip(widths, widths[1:], strict=False)
    ]
    return ComputationGraph(
        layers, weights, "row 1 of test: true a, predicted b; cross_entropy loss 0.3", 0.3
    )


def overlap_areas(some: list[Bbox], others: list[Bbox]) -> np.ndarray:
    """Return the area that each box shares with each of the others."""
    one, two = (np.array([box.extents for box in boxes]) for boxes in (some, others))
    low = np.maximum(one[:, None, :2], two[None, :, :2])
    high = np.minimum(one[:, None, 2:], two[None, :, 2:])
    return np.clip(high - low, 0, None).prod(axis=2)


@pytest.mark.parametrize("widths", [[2, 1], [4, 5, 3], [12, 8, 8], [1, 8, 1], [3, 8, 8, 8, 2]])
def test_computation_graph_texts_and_boxes_do_not_overlap(widths: list[int]) -> None:
    figure = computation_graph_figure(graph_of(widths), FONT)
    canvas = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    axes = figure.axes[0]
    texts = [text.get_window_extent(renderer) for text in axes.texts]
    boxes = [p.get_window_extent(renderer) for p in axes.patches if isinstance(p, FancyBboxPatch)]
    assert len(boxes) == sum(widths)
    edges = sum(a * b for a, b in zip(widths, widths[1:], strict=False))
    assert len(axes.lines) == edges
    among = overlap_areas(texts, texts)
    areas = among.diagonal().copy()
    np.fill_diagonal(among, 0.0)
    assert among.max() <= 1.0, np.argwhere(among > 1.0)  # at most a pixel
    in_boxes = overlap_areas(texts, boxes)
    assert np.all((in_boxes <= 1.0) | (in_boxes > 0.99 * areas[:, None]))
    assert not np.triu(overlap_areas(boxes, boxes), 1).any()


def test_computation_graph_weights_are_on_their_edges() -> None:
    figure = computation_graph_figure(graph_of([4, 5, 3]), FONT)
    axes = figure.axes[0]
    weights = [text for text in axes.texts if text.get_bbox_patch() is not None]
    assert len(weights) == len(axes.lines) == 35
    for text, line in zip(weights, axes.lines, strict=True):
        x, y = text.get_position()
        distances = []
        for other in axes.lines:
            (x0, x1), (y0, y1) = other.get_data()
            if x0 < x < x1:
                distances.append((abs(y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y), other))
        nearest = min(distances, key=lambda pair: pair[0])
        assert nearest[0] < 1e-9 and nearest[1] is line


def test_label_positions_returns_none_without_room() -> None:
    edges = [GraphEdge((0.0, 0.1 * a), (0.5, 0.1 * b), 1.0) for a in range(6) for b in range(6)]
    assert label_positions(edges) is None
