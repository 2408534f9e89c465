r"""Search among vectors by cosine: exact, or by an approximate index of the package usearch.

Up to `MAX_EXACT_VECTORS` all products are computed, in blocks. Above, a graph (HNSW: Malkov and
Yashunin 2018) is searched, which finds most of the nearest vectors in logarithmic time.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from saccade.errors import MissingPackageError
from saccade.estimators.nearest_neighbours import nearest_rows, unit_vectors
from saccade.types.arrays import Float32Array, FloatArray, IntArray

MAX_EXACT_VECTORS = 1_000_000
GRAPH_CONNECTIONS = 32  # of a vector of the graph
ADDED_CANDIDATES = 128  # vectors that are compared when one is added
SEARCHED_CANDIDATES = 256  # and when one is searched for


class VectorIndex(ABC):
    """Rows of vectors that can be searched."""

    kind: str

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def search(self, queries: Float32Array, count: int) -> tuple[IntArray, FloatArray]:
        """Return the `count` rows of largest cosine to each query, and the cosines."""


class ExactIndex(VectorIndex):
    """Compares a query with every row."""

    kind = "exact"

    def __init__(self, vectors: Float32Array):
        self.vectors = vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Float32Array, count: int) -> tuple[IntArray, FloatArray]:
        """Return the `count` rows of largest cosine to each query, and the cosines."""
        return nearest_rows(queries, self.vectors, count)


class GraphIndex(VectorIndex):
    """Approximate search in a graph of neighbours, by usearch."""

    kind = "graph"

    def __init__(self, index: Any):
        self.index = index

    @classmethod
    def build(cls, vectors: Float32Array) -> "GraphIndex":
        """Build the graph of vectors. One thread adds them in order: the graph is always the same.

        The vectors are stored as float32.
        """
        index = _usearch_index()(
            ndim=vectors.shape[1],
            metric="ip",
            dtype="f32",
            connectivity=GRAPH_CONNECTIONS,
            expansion_add=ADDED_CANDIDATES,
            expansion_search=SEARCHED_CANDIDATES,
        )
        units = np.ascontiguousarray(unit_vectors(vectors), np.float32)
        index.add(np.arange(len(units), dtype=np.uint64), units, threads=1)
        return cls(index)

    @classmethod
    def load(cls, path: Path) -> "GraphIndex":
        """Open a saved graph, memory-mapped."""
        return cls(_usearch_index().restore(str(path), view=True))

    def save(self, path: Path) -> None:
        """Write the graph to a file."""
        self.index.save(str(path))

    def __len__(self) -> int:
        return len(self.index)

    def search(self, queries: Float32Array, count: int) -> tuple[IntArray, FloatArray]:
        """Return nearly the `count` rows of largest cosine to each query, and the cosines."""
        count = min(count, len(self))
        units = np.ascontiguousarray(unit_vectors(queries), np.float32)
        found = self.index.search(units, count, threads=1)
        shape = (len(queries), count)
        rows: IntArray = np.asarray(found.keys).reshape(shape).astype(np.int64)
        return rows, 1.0 - np.asarray(found.distances, np.float64).reshape(shape)


def build_index(vectors: Float32Array, max_exact: int = MAX_EXACT_VECTORS) -> VectorIndex:
    """Return an exact index of at most `max_exact` vectors, a graph of more."""
    return ExactIndex(vectors) if len(vectors) <= max_exact else GraphIndex.build(vectors)


def recall(approximate: IntArray, exact: IntArray) -> float:
    """Return the share of the exact nearest rows that an approximate search finds."""
    hits = [len(np.intersect1d(a, b)) for a, b in zip(approximate, exact, strict=True)]
    return float(np.sum(hits) / max(exact.size, 1))


def _usearch_index() -> Any:
    try:
        from usearch.index import Index  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise MissingPackageError(
            "a search among so many vectors needs the package usearch; try pip install "
            "'saccade[search]'."
        ) from None
    return Index
