r"""GloVe (Pennington et al. 2014): vectors whose products are the logarithms of co-occurrences.

\(X_{ij}\) is how often words i and j stand within a window of each other, a pair at distance d
counted 1/d. With a weight \(f(x) = \min(1, (x / x_{max})^{3/4})\),

  \(J = \tfrac12 \sum_{X_{ij} > 0} f(X_{ij}) (w_i \cdot c_j + b_i + b'_j - \log X_{ij})^2\)

is made small by AdaGrad (squares begin at 1, as the authors' program has it), a pair at a time, in
an order drawn anew for each epoch: pieces of the list are taken at random, and shuffled. A word's
vector is \(w_i + c_i\). What a word has with itself is one
term, met from both sides.

Counting takes the memory of the text's numbers and of one row: where each word stands is listed
first (a counting sort), and then the words are gone through one after the other. What is counted
goes to files as it comes, and is read from there."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.compiled.jit import aligned_zeros, jit_nogil, jit_nogil_no_nrt
from saccade.config import Config
from saccade.data.text.word_corpus import LINE_END, WordCorpus
from saccade.estimators.word_vectors.sampling import (
    Float32Array,
    Int32Array,
    IntArray,
    RngState,
    random_below,
    rng_state,
)

COOCCURRENCE_WORD_CHUNK = 512  # words whose pairs are counted at once
GLOVE_TERMS_PER_BLOCK = 1 << 16  # terms that a thread learns from before it asks for more


class GloVeConfig(Config):
    """Co-occurrences, and the least squares that are fitted to them."""

    name: Literal["glove"] = "glove"
    width: int = Field(100, ge=1)
    window: int = Field(10, ge=1, le=1000)
    epochs: int = Field(15, ge=1)
    # the paper has 0.05 and 100, for billions of words: millions learn little so (docs/scores.md)
    learning_rate: float = Field(0.1, gt=0)
    x_max: float = Field(10.0, gt=0)  # from this count on a pair weighs 1
    power: float = Field(0.75, gt=0, le=1)


class Cooccurrences(NamedTuple):
    """Words that stand near each other, second ≤ first: how much."""

    first: Int32Array
    second: Int32Array
    weight: Float32Array


def count_cooccurrences(
    sentences: WordCorpus,
    window: int,
    *,
    threads: int = 1,
    scratch_dir: Path | None = None,
    on_progress: Callable[[int], None] = lambda more: None,
) -> Cooccurrences:
    """How much each two words stand near each other, within lines.

    They are held in memory, or, in a folder (`scratch_dir`), in files that are mapped into it. `tell` is
    told how many words more are done.
    """
    size = len(sentences.words)
    starts, positions = word_positions(sentences.ids, size)

    def counted(first: int) -> tuple[NDArray[Any], ...]:
        last = min(first + COOCCURRENCE_WORD_CHUNK, size)
        return count_cooccurrence_rows(sentences.ids, starts, positions, first, last, window, size)

    with _Columns(scratch_dir) as columns, ThreadPoolExecutor(threads) as pool:
        for parts in pool.map(counted, range(0, size, COOCCURRENCE_WORD_CHUNK)):
            columns.put(parts)
            on_progress(COOCCURRENCE_WORD_CHUNK)
        return columns.read()


class _Columns:
    """What is counted, as it comes: in memory, or in three files."""

    def __init__(self, scratch_dir: Path | None):
        self.scratch_dir = scratch_dir
        self.parts: list[tuple[NDArray[Any], ...]] = []
        self.files = (
            [] if scratch_dir is None else [path.open("wb") for path in self._paths(scratch_dir)]
        )

    def __enter__(self) -> "_Columns":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files:
            file.close()

    def _paths(self, scratch_dir: Path) -> list[Path]:
        return [scratch_dir / f"pairs.{name}" for name in Cooccurrences._fields]

    def put(self, columns: tuple[NDArray[Any], ...]) -> None:
        if self.scratch_dir is None:
            self.parts.append(columns)
        for file, column in zip(self.files, columns, strict=self.scratch_dir is not None):
            file.write(column.tobytes())

    def read(self) -> Cooccurrences:
        if self.scratch_dir is None:
            return Cooccurrences(*(np.concatenate(each) for each in zip(*self.parts, strict=True)))
        for file in self.files:
            file.flush()
        kinds = (np.int32, np.int32, np.float32)
        return Cooccurrences(
            *(
                _mapped(path, kind)
                for path, kind in zip(self._paths(self.scratch_dir), kinds, strict=True)
            )
        )


def _mapped(path: Path, kind: Any) -> NDArray[Any]:
    return np.memmap(path, kind, "r") if path.stat().st_size else np.empty(0, kind)


@jit_nogil
def word_positions(ids: Int32Array, size: int) -> tuple[IntArray, IntArray]:
    """Where each word stands: word w at positions[starts[w] : starts[w + 1]]."""
    starts = np.zeros(size + 1, np.int64)
    for word in ids:
        if word != LINE_END:
            starts[word + 1] += 1
    starts = np.cumsum(starts)
    positions, filled = np.empty(starts[size], np.int64), starts[:size].copy()
    for position, word in enumerate(ids):
        if word != LINE_END:
            positions[filled[word]] = position
            filled[word] += 1
    return starts, positions


@jit_nogil
def count_cooccurrence_rows(
    ids: Int32Array,
    starts: IntArray,
    positions: IntArray,
    first: int,
    last: int,
    window: int,
    size: int,
) -> tuple[Int32Array, Int32Array, Float32Array]:
    """The pairs of words `first` to `last` with words that are as frequent or more."""
    row, met = np.zeros(size, np.float64), np.empty(size, np.int32)
    one, other, weight = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)
    count = 0
    for word in range(first, last):
        different = 0
        for where in positions[starts[word] : starts[word + 1]]:
            for step in (-1, 1):
                for distance in range(1, window + 1):
                    position = where + step * distance
                    if position < 0 or position >= len(ids) or ids[position] == LINE_END:
                        break
                    near = ids[position]
                    if near <= word:
                        if row[near] == 0:
                            met[different] = near
                            different += 1
                        row[near] += 1 / distance
        if count + different > len(one):
            more = max(2 * len(one), count + different, 4096) - len(one)
            one = np.concatenate((one, np.empty(more, np.int32)))
            other = np.concatenate((other, np.empty(more, np.int32)))
            weight = np.concatenate((weight, np.empty(more, np.float32)))
        for near in np.sort(met[:different]):
            one[count], other[count], weight[count] = word, near, row[near]
            count += 1
            row[near] = 0
    return one[:count], other[:count], weight[:count]


# --- the least squares ----------------------------------------------------------------------------


class GloVeParams(NamedTuple):
    """Vectors of both sides ([0] words, [1] contexts), biases, and AdaGrad's sums of squares."""

    vectors: Float32Array  # (2, V, D)
    biases: Float32Array  # (2, V)
    squares: Float32Array  # (2, V, D)
    bias_squares: Float32Array  # (2, V)


def init_glove_params(words: int, width: int, seed: int) -> GloVeParams:
    """As the authors begin: all in ±1/(2 (width + 1)), squares at 1."""
    random = np.random.default_rng([seed, words])
    vectors = aligned_zeros(2 * words, width).reshape(2, words, -1)
    vectors[:, :, :width] = (random.random((2, words, width), np.float32) - 0.5) / (width + 1)
    biases = (random.random((2, words), np.float32) - np.float32(0.5)) / np.float32(width + 1)
    return GloVeParams(vectors, biases, np.ones_like(vectors), np.ones_like(biases))


class GloVeTrainer:
    """The terms of J, and the two sides that are fitted to them."""

    def __init__(self, pairs: Cooccurrences, words: int, config: GloVeConfig, seed: int):
        self.pairs, self.config, self.seed = pairs, config, seed
        self.params = init_glove_params(words, config.width, seed)

    def epoch(
        self,
        number: int,
        threads: int,
        on_progress: Callable[[int], None] = lambda more: None,
    ) -> float:
        """A step for every term, in an order of its own: their mean in passing."""
        terms = 2 * len(self.pairs.first)
        order = np.random.default_rng([self.seed, number]).permutation(
            -(-terms // GLOVE_TERMS_PER_BLOCK)
        )
        parts = iter(order.tolist())
        total = 0.0

        def work(part: int) -> tuple[float, int]:
            last = min((part + 1) * GLOVE_TERMS_PER_BLOCK, terms)
            state = rng_state(self.seed, number, part)
            term_ids = np.arange(part * GLOVE_TERMS_PER_BLOCK, last)
            return glove_adagrad_steps(
                term_ids, state, self.pairs, self.params, *self._shape()
            ), last - part * GLOVE_TERMS_PER_BLOCK

        with ThreadPoolExecutor(threads) as pool:
            while some := list(islice(parts, 16 * threads)):
                for lost, count in pool.map(work, some):
                    total += lost
                    on_progress(count)
        return total / max(terms, 1)

    def _shape(self) -> tuple[float, float, float]:
        return self.config.learning_rate, self.config.x_max, self.config.power

    @property
    def vectors(self) -> Float32Array:
        """w + c."""
        both: Float32Array = self.params.vectors.sum(0)[:, : self.config.width]
        return both


@jit_nogil_no_nrt
def glove_adagrad_steps(
    term_ids: IntArray,
    state: RngState,
    pairs: Cooccurrences,
    params: GloVeParams,
    learning_rate: float,
    x_max: float,
    power: float,
) -> float:
    """A step for each of these, shuffled; a pair has two, i for j, and j for i. Their sum."""
    total, step = 0.0, np.float32(learning_rate)
    for last in range(len(term_ids) - 1, 0, -1):
        other = random_below(state, last + 1)
        term_ids[last], term_ids[other] = term_ids[other], term_ids[last]
    for turn in term_ids:
        pair = turn >> 1
        number = np.float32(np.log(pairs.weight[pair]))
        weight = np.float32(min(1.0, (pairs.weight[pair] / x_max) ** power))
        i, j = pairs.first[pair], pairs.second[pair]
        if turn & 1:
            if i == j:  # that is the same term
                continue
            i, j = j, i
        w, c = params.vectors[0, i], params.vectors[1, j]
        w2, c2 = params.squares[0, i], params.squares[1, j]
        off = params.biases[0, i] + params.biases[1, j] - number
        for d in range(w.shape[0]):
            off += w[d] * c[d]
        pull = weight * off
        total += 0.5 * pull * off
        for d in range(w.shape[0]):
            to_w, to_c = pull * c[d], pull * w[d]
            w[d] -= step * to_w / np.sqrt(w2[d])
            c[d] -= step * to_c / np.sqrt(c2[d])
            w2[d] += to_w * to_w
            c2[d] += to_c * to_c
        for side, word in ((0, i), (1, j)):
            params.biases[side, word] -= step * pull / np.sqrt(params.bias_squares[side, word])
            params.bias_squares[side, word] += pull * pull
    return total
