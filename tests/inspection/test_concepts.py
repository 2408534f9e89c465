"""Concepts to draw, against their equations."""

import math

import numpy as np
import pytest

from saccade.inspection import concepts
from saccade.nn.attention_scores import ATTENTION_SCORES
from saccade.plots.figure_text import render_heat_map, render_tree
from saccade.plots.tree import node_heights


def test_score_maps_have_a_map_for_every_score() -> None:
    grid = concepts.score_maps(2, 3, 16, 0)
    found = {map.title.partition(":")[0]: map.values for map in grid.maps}
    assert tuple(found) == ATTENTION_SCORES
    for values in found.values():
        np.testing.assert_allclose(values.sum(axis=1), 1)
    logs = np.log(found["dot"])  # the scaled product has the same differences, divided by √16
    differences = logs - logs[:, :1]
    scaled = np.log(found["scaled_dot"])
    np.testing.assert_allclose((scaled - scaled[:, :1]) * 4, differences, atol=1e-9)


def test_position_products_depend_on_the_distance_alone() -> None:
    codes, products, rotary = (map.values for map in concepts.position_maps(9, 6).maps)
    for t in range(9):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            np.testing.assert_allclose(codes[t, 2 * i], math.sin(angle), atol=1e-6)
            np.testing.assert_allclose(codes[t, 2 * i + 1], math.cos(angle), atol=1e-6)
    for s in range(9):
        for t in range(9):
            expected = sum(math.cos((s - t) / 10000 ** (2 * i / 6)) for i in range(3))
            assert products[s, t] == pytest.approx(expected, abs=1e-5)
            assert rotary[s, t] == pytest.approx(expected / 3, abs=1e-5)


def test_losses_have_their_derivatives() -> None:
    panels = {panel.title: panel for panel in concepts.loss_panels().panels}
    for title in ("regression", "classification"):
        slopes = {line.label: line.y for line in panels[f"{title}: derivatives"].lines}
        for line in panels[title].lines:
            if line.label not in slopes:
                assert line.label == "zero_one"
                continue
            numeric = np.gradient(line.y, line.x)
            smooth = np.abs(np.diff(slopes[line.label], append=slopes[line.label][-1])) < 0.5
            smooth &= np.roll(smooth, 1)
            np.testing.assert_allclose(
                slopes[line.label][1:-1][smooth[1:-1]], numeric[1:-1][smooth[1:-1]], atol=0.02
            )


def test_weight_decay_ends_where_the_penalised_loss_is_smallest() -> None:
    path, norm = concepts.weight_decay_paths(0.1, 2000).panels
    A = np.diag(concepts.DECAY_CURVATURE)
    for line, decay, (_, *end) in zip(path.lines, concepts.WEIGHT_DECAYS, path.points, strict=True):
        solved = np.linalg.solve(A + decay * np.eye(2), A @ np.array(concepts.DECAY_OPTIMUM))
        np.testing.assert_allclose([line.x[-1], line.y[-1]], solved, atol=1e-9)
        np.testing.assert_allclose(end, solved)
    assert all(np.diff([line.y[-1] for line in norm.lines]) < 0)


def test_power_iteration_converges_and_products_are_bounded() -> None:
    angle, product = concepts.power_iteration(5, 20, 1).panels
    measured, predicted = (line.y for line in angle.lines)
    slopes = [np.polyfit(np.arange(8, 18), line[8:18], 1)[0] for line in (measured, predicted)]
    assert slopes[0] == pytest.approx(slopes[1], rel=0.05)
    lines = {line.label: line.y for line in product.lines}
    order = [lines[name] for name in ("Π σ_min", "smallest |λ|", "largest |λ|", "Π σ_max")]
    for low, high in zip(order, order[1:], strict=False):
        assert (low <= high + 1e-9).all()


def test_sequential_rows_continue_and_random_ones_do_not() -> None:
    sequential, random = concepts.reading_orders(3, 5, 0).maps
    for row in sequential.values:
        read = row[~np.isnan(row)]
        assert (np.diff(read) == 1).all()
    steps = [np.diff(row[~np.isnan(row)]) for row in random.values]
    assert any((step != 1).any() for step in steps)
    for map in (sequential, random):
        read = np.sort(map.values[~np.isnan(map.values)])
        np.testing.assert_array_equal(read, np.arange(concepts.READ_TOKENS - 1))


def test_prefix_code_tree_has_the_weights_of_its_leaves() -> None:
    code, weights = {"a": "0", "b": "10", "c": "11"}, {"a": 2.0, "b": 1.0, "c": 1.0}
    tree = concepts.prefix_code_tree(code, weights, "title")
    assert [(node.parent, node.label) for node in tree.nodes] == [
        (-1, "•"),
        (0, "a"),
        (0, "•"),
        (2, "b"),
        (2, "c"),
    ]
    assert tree.nodes[2].note == "1  0.5"
    assert node_heights(tree) == [0.75, 0.0, 1.5, 1.0, 2.0]
    assert render_tree(tree, "utf-8").splitlines() == [
        "title",
        "•  1",
        "├ a  0  0.5",
        "└ •  1  0.5",
        "  ├ b  10  0.25",
        "  └ c  11  0.25",
    ]
    assert "|- " not in render_tree(tree, "ascii") and "`" in render_tree(tree, "ascii")


def test_heat_map_text_keeps_the_rows_that_vary_most() -> None:
    grid = concepts.position_maps(40, 4)
    lines = render_heat_map(grid.maps[0], 60, colour=False).splitlines()
    assert lines[-1] == "24 of 40 rows: those that vary most" and len(lines) == 28
    assert "+9" in lines[2] or "-9" in lines[2]
    coloured = render_heat_map(grid.maps[0], 60, colour=True)
    assert "\x1b[48;5;" in coloured
