"""Nearest neighbours: exact against full sorts, and the recall of the graph."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import MissingPackageError
from saccade.estimators import nearest_neighbours
from saccade.estimators.nearest_neighbours import nearest_rows
from saccade.estimators.vector_index import ExactIndex, GraphIndex, build_index, recall


@given(st.integers(0, 7), st.integers(1, 30), st.integers(1, 9), st.integers(0, 1000))
def test_nearest_rows_are_those_of_a_full_stable_sort(
    queries: int, rows: int, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    # few different vectors: many cosines are equal, across blocks too
    one, other = rng.integers(-1, 2, (queries, 2)) * 1.0, rng.integers(-1, 2, (rows, 2)) * 1.0
    similar = nearest_neighbours.unit_vectors(one) @ nearest_neighbours.unit_vectors(other).T
    similar = similar.round(9)  # products of blocks differ in the last place
    expected = np.argsort(-similar, axis=1, kind="stable")[:, :count]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_neighbours, "NEIGHBOUR_ROWS", 4)
        patch.setattr(nearest_neighbours, "NEIGHBOUR_QUERIES", 3)
        found, cosines = nearest_rows(one, other, count)
    np.testing.assert_allclose(cosines, np.take_along_axis(similar, expected, 1), atol=1e-8)
    for row in range(queries):
        assert len({*found[row].tolist()}) == found.shape[1]
        np.testing.assert_allclose(similar[row, found[row]], cosines[row], atol=1e-8)


def test_of_equal_vectors_the_first_is_first() -> None:
    rows = np.repeat(np.eye(3), 5000, axis=0)  # more than a block
    found, cosines = nearest_rows(np.eye(3)[1:2], rows, 4)
    assert found.tolist() == [[5000, 5001, 5002, 5003]] and cosines.tolist() == [[1, 1, 1, 1]]


def test_graph_finds_what_the_exact_search_finds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3000, 24)).astype(np.float32)
    queries = rng.standard_normal((50, 24)).astype(np.float32)
    exact, cosines = build_index(vectors).search(queries, 10)
    graph = build_index(vectors, max_exact=1000)
    assert isinstance(graph, GraphIndex) and len(graph) == 3000
    found, found_cosines = graph.search(queries, 10)
    assert recall(found, exact) > 0.95
    is_same = found == exact
    np.testing.assert_allclose(found_cosines[is_same], cosines[is_same], atol=1e-5)
    graph.save(tmp_path / "graph.usearch")
    again = GraphIndex.load(tmp_path / "graph.usearch").search(queries, 10)
    np.testing.assert_array_equal(again[0], found)


def test_recall_counts_the_exact_rows() -> None:
    assert recall(np.array([[1, 2], [3, 4]]), np.array([[2, 9], [4, 3]])) == 0.75


def test_index_of_fewer_rows_than_asked_for() -> None:
    index = ExactIndex(np.eye(2, dtype=np.float32))
    rows, cosines = index.search(np.array([[0.0, 2.0]], np.float32), 5)
    assert rows.tolist() == [[1, 0]] and cosines.tolist() == [[1, 0]]


def test_graph_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingPackageError, match=r"saccade\[search\]"):
        build_index(np.eye(3, dtype=np.float32), max_exact=2)
