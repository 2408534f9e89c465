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

from saccade.compiled import compiled
from saccade.config import Config
from saccade.fitted.drawing import Floats, Ids
from saccade.fitted.glove import Pairs

MORE = 10  # columns than are wanted, so that the last of those are good
ROUNDS = 4


class OneHotConfig(Config):
    """Every word by itself."""

    name: Literal["one_hot"] = "one_hot"


class SVDConfig(Config):
    """Co-occurrences brought to a low rank."""

    name: Literal["svd"] = "svd"
    width: int = Field(100, ge=1)
    window: int = Field(5, ge=1, le=1000)


def reduced(
    pairs: Pairs, words: int, width: int, seed: int, tell: Callable[[int], None] = lambda more: None
) -> Floats:
    """The rows of U √|S|, as many as there are words; `tell` is told of each product with M."""
    values = np.log1p(pairs.weight)
    columns = min(width + MORE, words)
    start = np.random.default_rng([seed, words]).standard_normal((words, columns), np.float32)
    basis = _orthonormal(multiplied(pairs.first, pairs.second, values, start))
    for _ in range(ROUNDS):
        tell(1)
        basis = _orthonormal(multiplied(pairs.first, pairs.second, values, basis))
    tell(1)
    small = basis.T @ multiplied(pairs.first, pairs.second, values, basis)
    sizes, turned = np.linalg.eigh((small + small.T) / 2)
    largest = np.argsort(-np.abs(sizes))[: min(width, words)]
    found = np.zeros((words, width), np.float32)
    rows = basis @ turned[:, largest].astype(np.float32)
    found[:, : len(largest)] = rows * np.sqrt(np.abs(sizes[largest])).astype(np.float32)
    return found


def _orthonormal(matrix: Floats) -> Floats:
    basis: Floats = np.linalg.qr(matrix)[0]
    return basis


@compiled
def multiplied(first: Ids, second: Ids, values: Floats, by: Floats) -> Floats:
    """M times a matrix, where each pair stands for (i, j) and for (j, i)."""
    found = np.zeros_like(by)
    for pair in range(len(values)):
        i, j, value = first[pair], second[pair], values[pair]
        for d in range(by.shape[1]):
            found[i, d] += value * by[j, d]
        if i != j:
            for d in range(by.shape[1]):
                found[j, d] += value * by[i, d]
    return found


def apart(words: int) -> NDArray[np.float32]:
    """One-hot rows."""
    return np.eye(words, dtype=np.float32)
