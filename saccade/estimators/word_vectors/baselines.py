r"""What word vectors are held against: no vectors at all, and a matrix of counts made small.

- **one-hot**: every word is at right angles to every other. No word is near another.
- **SVD** (Deerwester et al. 1990 for documents): of the co-occurrences \(X_{ij}\) within a window,
  a pair at distance d counted 1/d, the matrix \(M_{ij} = \log(1 + X_{ij})\) is brought to a low
  rank, \(M \approx U S U^T\), and a word is its row of \(U \sqrt{|S|}\).

The decomposition is Halko et al. 2011's, from products with M alone: a random start, some rounds of
M on an orthonormal basis of what came out, and a small exact one in the end."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.compiled.jit import jit_nogil
from saccade.config import Config
from saccade.estimators.word_vectors.glove import Cooccurrences
from saccade.estimators.word_vectors.sampling import Float32Array, Int32Array

SVD_OVERSAMPLING = 10  # columns than are wanted, so that the last of those are good
SVD_POWER_ITERATIONS = 4


class OneHotConfig(Config):
    """Every word by itself."""

    name: Literal["one_hot"] = "one_hot"


class SVDConfig(Config):
    """Co-occurrences brought to a low rank."""

    name: Literal["svd"] = "svd"
    width: int = Field(100, ge=1)
    window: int = Field(5, ge=1, le=1000)


def truncated_svd(
    pairs: Cooccurrences,
    vocab_size: int,
    width: int,
    seed: int,
    on_progress: Callable[[int], None] = lambda more: None,
) -> Float32Array:
    """The rows of U √|S|, as many as there are words; `tell` is told of each product with M."""
    values = np.log1p(pairs.weight)
    columns = min(width + SVD_OVERSAMPLING, vocab_size)
    start = np.random.default_rng([seed, vocab_size]).standard_normal(
        (vocab_size, columns), np.float32
    )
    basis = _orthonormal(symmetric_sparse_matmul(pairs.first, pairs.second, values, start))
    for _ in range(SVD_POWER_ITERATIONS):
        on_progress(1)
        basis = _orthonormal(symmetric_sparse_matmul(pairs.first, pairs.second, values, basis))
    on_progress(1)
    small = basis.T @ symmetric_sparse_matmul(pairs.first, pairs.second, values, basis)
    sizes, turned = np.linalg.eigh((small + small.T) / 2)
    largest = np.argsort(-np.abs(sizes))[: min(width, vocab_size)]
    found = np.zeros((vocab_size, width), np.float32)
    rows = basis @ turned[:, largest].astype(np.float32)
    found[:, : len(largest)] = rows * np.sqrt(np.abs(sizes[largest])).astype(np.float32)
    return found


def _orthonormal(matrix: Float32Array) -> Float32Array:
    basis: Float32Array = np.linalg.qr(matrix)[0]
    return basis


@jit_nogil
def symmetric_sparse_matmul(
    first: Int32Array, second: Int32Array, values: Float32Array, dense: Float32Array
) -> Float32Array:
    """M times a matrix, where each pair stands for (i, j) and for (j, i)."""
    found = np.zeros_like(dense)
    for pair in range(len(values)):
        i, j, value = first[pair], second[pair], values[pair]
        for d in range(dense.shape[1]):
            found[i, d] += value * dense[j, d]
        if i != j:
            for d in range(dense.shape[1]):
                found[j, d] += value * dense[i, d]
    return found


def one_hot_vectors(vocab_size: int) -> NDArray[np.float32]:
    """One-hot rows."""
    return np.eye(vocab_size, dtype=np.float32)
