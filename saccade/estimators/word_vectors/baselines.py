r"""Baseline word vectors: one-hot, and truncated SVD of co-occurrence counts.

- **one-hot**: all words are orthogonal, so no word is similar to another.
- **SVD** (latent semantic analysis, Deerwester et al. 1990, on words instead of documents): with
  \(X_{ij}\) the co-occurrences within a window, a pair at distance d counted 1/d, the matrix
  \(M_{ij} = \log(1 + X_{ij})\) is approximated as \(M \approx U S U^T\), and a word's vector is
  its row of \(U \sqrt{|S|}\).

The decomposition is randomized (Halko et al. 2011) and uses only products with M: a random start,
power iterations with re-orthonormalisation, and an exact eigendecomposition of a small matrix."""

from collections.abc import Callable

import numpy as np

from saccade.compiled.jit import jit_nogil
from saccade.estimators.word_vectors.glove import Cooccurrences
from saccade.types.arrays import Float32Array, Int32Array

SVD_OVERSAMPLING = 10  # extra columns, which make the last of the requested ones accurate
SVD_POWER_ITERATIONS = 4


def truncated_svd(
    pairs: Cooccurrences,
    vocab_size: int,
    width: int,
    seed: int,
    on_progress: Callable[[int], None] = lambda more: None,
) -> Float32Array:
    """Return the rows of U √|S|, one per word; on_progress(1) is called after each product."""
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
    eigenvalues, eigenvectors = np.linalg.eigh((small + small.T) / 2)
    largest = np.argsort(-np.abs(eigenvalues))[: min(width, vocab_size)]
    vectors = np.zeros((vocab_size, width), np.float32)
    rows = basis @ eigenvectors[:, largest].astype(np.float32)
    vectors[:, : len(largest)] = rows * np.sqrt(np.abs(eigenvalues[largest])).astype(np.float32)
    return vectors


def _orthonormal(matrix: Float32Array) -> Float32Array:
    basis: Float32Array = np.linalg.qr(matrix)[0]
    return basis


@jit_nogil
def symmetric_sparse_matmul(
    first: Int32Array, second: Int32Array, values: Float32Array, dense: Float32Array
) -> Float32Array:
    """Return M @ dense, where M is symmetric and each pair i ≠ j is stored once."""
    product = np.zeros_like(dense)
    for pair in range(len(values)):
        i, j, value = first[pair], second[pair], values[pair]
        for d in range(dense.shape[1]):
            product[i, d] += value * dense[j, d]
        if i != j:
            for d in range(dense.shape[1]):
                product[j, d] += value * dense[i, d]
    return product


def one_hot_vectors(vocab_size: int) -> Float32Array:
    """Return the identity matrix as float32."""
    return np.eye(vocab_size, dtype=np.float32)
