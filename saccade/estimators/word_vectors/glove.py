r"""GloVe (Pennington et al. 2014): word vectors whose dot products fit log co-occurrence counts.

\(X_{ij}\) counts how often words i and j occur within a window of each other, a pair at distance d
counted 1/d. With the weight \(f(x) = \min(1, (x / x_{max})^{3/4})\), the objective

  \(J = \tfrac12 \sum_{X_{ij} > 0} f(X_{ij}) (w_i \cdot c_j + b_i + b'_j - \log X_{ij})^2\)

is minimised by AdaGrad, one term at a time (squared gradients are initialised to 1, as in the
authors' code). The order is new in each epoch: blocks of the list in random order, shuffled within
each block. The vector of a word is \(w_i + c_i\). A pair i ≠ j gives two terms, (i, j) and (j, i);
i = j gives one. A share of the pairs is held out: no step is taken for their terms, whose mean
measures how well the vectors predict counts that they were not fitted to.

Counting needs memory for the text's ids and one row of X: the positions of each word are listed
first (counting sort), then the rows of X are counted one word at a time and, if a scratch folder is
given, appended to memory-mapped files."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.compiled.jit import jit_nogil, jit_nogil_no_nrt
from saccade.data.text.word_corpus import LINE_END, WordCorpus
from saccade.estimators.rows import allocate_rows
from saccade.estimators.word_vectors.config import GloVeConfig
from saccade.estimators.word_vectors.sampling import RngState, random_below, rng_state
from saccade.types.arrays import Float32Array, Int32Array, IntArray

COOCCURRENCE_WORD_CHUNK = 512  # words whose rows of X a thread counts per call
GLOVE_TERMS_PER_BLOCK = 1 << 16  # terms of J that a thread trains on per block
GLOVE_BLOCKS_PER_THREAD = 16  # blocks submitted per thread before results are collected
_HELD_OUT_STREAM = (0, 1)  # of random numbers; those of an epoch are (seed, epoch)


class Cooccurrences(NamedTuple):
    """Non-zero entries of X in the lower triangle (second ≤ first), as coordinates."""

    first: Int32Array
    second: Int32Array
    weight: Float32Array

    def take(self, positions: IntArray) -> "Cooccurrences":
        """Return some of the entries."""
        return Cooccurrences(self.first[positions], self.second[positions], self.weight[positions])


def count_cooccurrences(
    sentences: WordCorpus,
    window: int,
    *,
    threads: int = 1,
    scratch_dir: Path | None = None,
    on_progress: Callable[[int], None] = lambda more: None,
) -> Cooccurrences:
    """Count the co-occurrences of all words within lines, a pair at distance d counted 1/d.

    The result is held in memory or, with `scratch_dir`, in memory-mapped files of that folder.
    `on_progress` is called with the number of words done since the last call.
    """
    size = len(sentences.words)
    starts, positions = word_positions(sentences.ids, size)

    def count_rows(first: int) -> tuple[NDArray[Any], ...]:
        last = min(first + COOCCURRENCE_WORD_CHUNK, size)
        return count_cooccurrence_rows(sentences.ids, starts, positions, first, last, window, size)

    with _ColumnWriter(scratch_dir) as columns, ThreadPoolExecutor(threads) as pool:
        for parts in pool.map(count_rows, range(0, size, COOCCURRENCE_WORD_CHUNK)):
            columns.append(parts)
            on_progress(COOCCURRENCE_WORD_CHUNK)
        return columns.read()


class _ColumnWriter:
    """Collects the three columns of `Cooccurrences`, in memory or in three files."""

    def __init__(self, scratch_dir: Path | None):
        self.scratch_dir = scratch_dir
        self.parts: list[tuple[NDArray[Any], ...]] = []
        self.files = (
            [] if scratch_dir is None else [path.open("wb") for path in self._paths(scratch_dir)]
        )

    def __enter__(self) -> "_ColumnWriter":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files:
            file.close()

    def _paths(self, scratch_dir: Path) -> list[Path]:
        return [scratch_dir / f"pairs.{name}" for name in Cooccurrences._fields]

    def append(self, columns: tuple[NDArray[Any], ...]) -> None:
        if self.scratch_dir is None:
            self.parts.append(columns)
        for file, column in zip(self.files, columns, strict=self.scratch_dir is not None):
            file.write(column.tobytes())

    def read(self) -> Cooccurrences:
        if self.scratch_dir is None:
            columns = zip(*self.parts, strict=True)
            return Cooccurrences(*(np.concatenate(parts) for parts in columns))
        for file in self.files:
            file.flush()
        dtypes = (np.int32, np.int32, np.float32)
        return Cooccurrences(
            *(
                _memory_map(path, np.dtype(dtype))
                for path, dtype in zip(self._paths(self.scratch_dir), dtypes, strict=True)
            )
        )


def _memory_map(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)


@jit_nogil
def word_positions(ids: Int32Array, size: int) -> tuple[IntArray, IntArray]:
    """Return the positions of each word: those of w are positions[starts[w] : starts[w + 1]]."""
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
    """Count rows `first` to `last` of X, columns up to the row's own word (lower triangle)."""
    row, columns = np.zeros(size, np.float64), np.empty(size, np.int32)
    row_ids, column_ids = np.empty(0, np.int32), np.empty(0, np.int32)
    weight = np.empty(0, np.float32)
    count = 0
    for word in range(first, last):
        num_columns = 0
        for center in positions[starts[word] : starts[word + 1]]:
            for step in (-1, 1):
                for distance in range(1, window + 1):
                    position = center + step * distance
                    if position < 0 or position >= len(ids) or ids[position] == LINE_END:
                        break
                    context = ids[position]
                    if context <= word:
                        if row[context] == 0:
                            columns[num_columns] = context
                            num_columns += 1
                        row[context] += 1 / distance
        if count + num_columns > len(row_ids):
            more = max(2 * len(row_ids), count + num_columns, 4096) - len(row_ids)
            row_ids = np.concatenate((row_ids, np.empty(more, np.int32)))
            column_ids = np.concatenate((column_ids, np.empty(more, np.int32)))
            weight = np.concatenate((weight, np.empty(more, np.float32)))
        for context in np.sort(columns[:num_columns]):
            row_ids[count], column_ids[count], weight[count] = word, context, row[context]
            count += 1
            row[context] = 0
    return row_ids[:count], column_ids[:count], weight[:count]


# --- held-out pairs -------------------------------------------------------------------------------


def held_out_positions(pairs: int, share: float, seed: int) -> IntArray:
    """Return the sorted positions of the pairs that are held out, a function of the seed.

    The list is cut into as many equal parts as there are positions, with a random one from each,
    so that frequent and rare words have their share.
    """
    count = int(pairs * share)
    edges = np.arange(count + 1) * pairs // max(count, 1)
    random = np.random.default_rng([seed, *_HELD_OUT_STREAM])
    positions: IntArray = random.integers(edges[:-1], edges[1:])
    return positions


def glove_loss(
    pairs: Cooccurrences, params: "GloVeParams | GloVeFit", x_max: float, power: float
) -> float:
    """Return the mean of the terms of J for some pairs, both (i, j) and (j, i); 0 without pairs."""
    total, terms = 0.0, 0
    for start in range(0, len(pairs.first), GLOVE_TERMS_PER_BLOCK):
        chunk = slice(start, start + GLOVE_TERMS_PER_BLOCK)
        first, second = pairs.first[chunk], pairs.second[chunk]
        count = pairs.weight[chunk].astype(np.float64)
        weight = np.minimum(1.0, (count / x_max) ** power)
        for i, j, is_term in (
            (first, second, np.ones(len(first), bool)),
            (second, first, first != second),  # the diagonal has one term only
        ):
            dots = np.einsum("pd,pd->p", params.vectors[0, i], params.vectors[1, j])
            residual = dots + params.biases[0, i] + params.biases[1, j] - np.log(count)
            total += float((0.5 * weight * residual**2)[is_term].sum())
            terms += int(is_term.sum())
    return total / max(terms, 1)


# --- weighted least squares by AdaGrad ------------------------------------------------------------


class GloVeParams(NamedTuple):
    """Word vectors [0] and context vectors [1], biases, and AdaGrad's sums of squared gradients."""

    vectors: Float32Array  # (2, V, D)
    biases: Float32Array  # (2, V)
    squares: Float32Array  # (2, V, D)
    bias_squares: Float32Array  # (2, V)


def init_glove_params(words: int, width: int, seed: int) -> GloVeParams:
    """Initialise as the authors' code: weights uniform in ±1/(2 (width + 1)), squares 1."""
    random = np.random.default_rng([seed, words])
    vectors = allocate_rows(2 * words, width).reshape(2, words, -1)
    vectors[:, :, :width] = (random.random((2, words, width), np.float32) - 0.5) / (width + 1)
    biases = (random.random((2, words), np.float32) - np.float32(0.5)) / np.float32(width + 1)
    return GloVeParams(vectors, biases, np.ones_like(vectors), np.ones_like(biases))


class GloVeTrainer:
    """Fits GloVe vectors to co-occurrence counts."""

    def __init__(self, pairs: Cooccurrences, words: int, config: GloVeConfig, seed: int):
        self.pairs, self.config, self.seed = pairs, config, seed
        self.params = init_glove_params(words, config.width, seed)
        self._positions = held_out_positions(len(pairs.first), config.dev_share or 0.0, seed)
        self.held_out = pairs.take(self._positions)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restore parameters; RuntimeError if they are of another shape or type."""
        params = GloVeParams(*(state[name] for name in GloVeParams._fields))
        for name, found, expected in zip(params._fields, params, self.params, strict=True):
            if (found.shape, found.dtype) != (expected.shape, expected.dtype):
                raise RuntimeError(
                    f"got {name} of shape {found.shape} and {found.dtype}; expected "
                    f"{expected.shape} and {expected.dtype}"
                )
        self.params = params

    def epoch(
        self,
        number: int,
        threads: int,
        on_progress: Callable[[int], None] = lambda more: None,
    ) -> float:
        """Take one step for each term of J that is not held out; return their mean, each before
        its own step.
        """
        terms = 2 * len(self.pairs.first)
        order = np.random.default_rng([self.seed, number]).permutation(
            -(-terms // GLOVE_TERMS_PER_BLOCK)
        )
        blocks = iter(order.tolist())
        total = 0.0

        def work(block: int) -> tuple[float, int]:
            first = block * GLOVE_TERMS_PER_BLOCK
            last = min(first + GLOVE_TERMS_PER_BLOCK, terms)
            state = rng_state(self.seed, number, block)
            loss = glove_adagrad_steps(
                self._trained_terms(first, last),
                state,
                self.pairs,
                self.params,
                self.config.learning_rate,
                self.config.x_max,
                self.config.power,
            )
            return loss, last - first

        with ThreadPoolExecutor(threads) as pool:
            while batch := list(islice(blocks, GLOVE_BLOCKS_PER_THREAD * threads)):
                for loss, count in pool.map(work, batch):
                    total += loss
                    on_progress(count)
        return total / max(terms - 2 * len(self._positions), 1)

    def _trained_terms(self, first: int, last: int) -> IntArray:
        """Return the terms of a block without those of pairs that are held out."""
        low, high = np.searchsorted(self._positions, (first // 2, -(-last // 2)))
        held_out = 2 * self._positions[low:high] - first
        return np.delete(np.arange(first, last), np.concatenate([held_out, held_out + 1]))

    def held_out_loss(self) -> float | None:
        """Return the mean of the held-out terms of J; None if no pair is held out."""
        if not len(self.held_out.first):
            return None
        return glove_loss(self.held_out, self.params, self.config.x_max, self.config.power)

    def fitted(self) -> "GloVeFit":
        """Return the parameters of J without padding, and the held-out pairs."""
        vectors = np.ascontiguousarray(self.params.vectors[:, :, : self.config.width])
        return GloVeFit(vectors, self.params.biases, *self.held_out)

    @property
    def vectors(self) -> Float32Array:
        """The vector of each word, w + c, without padding."""
        summed: Float32Array = self.params.vectors.sum(0)[:, : self.config.width]
        return summed


class GloVeFit(NamedTuple):
    """The parameters of J after training, and the pairs that it is measured on."""

    vectors: Float32Array  # (2, V, D)
    biases: Float32Array  # (2, V)
    held_out_first: Int32Array
    held_out_second: Int32Array
    held_out_weight: Float32Array

    def check(self, words: int, width: int) -> None:
        """Raise a RuntimeError for shapes, types or values that these arrays cannot have."""
        first, second, weight = self[2:]
        expected = ((2, words, width), (2, words), *[(len(first),)] * 3)
        dtypes = ("float32", "float32", "int32", "int32", "float32")
        for name, array, shape, dtype in zip(self._fields, self, expected, dtypes, strict=True):
            if array.shape != shape or str(array.dtype) != dtype:
                raise RuntimeError(
                    f"got {name} of shape {array.shape} and {array.dtype}; expected {shape} and "
                    f"{dtype}"
                )
        ids = np.concatenate([first, second])
        if ((ids < 0) | (ids >= words)).any() or not (weight > 0).all():
            raise RuntimeError(
                f"got held-out pairs with ids or counts out of range; expected ids below {words:,} "
                "and counts above 0"
            )

    def loss(self, x_max: float, power: float) -> float:
        """Return the mean of the held-out terms of J."""
        return glove_loss(Cooccurrences(*self[2:]), self, x_max, power)


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
    """Shuffle some terms of J in place, take one AdaGrad step for each, and return their sum.

    Terms 2p and 2p + 1 are those of pair p: (i, j) and (j, i).
    """
    total, step = 0.0, np.float32(learning_rate)
    for last in range(len(term_ids) - 1, 0, -1):  # Fisher–Yates
        swapped = random_below(state, last + 1)
        term_ids[last], term_ids[swapped] = term_ids[swapped], term_ids[last]
    for term in term_ids:
        pair = term >> 1
        log_count = np.float32(np.log(pairs.weight[pair]))
        weight = np.float32(min(1.0, (pairs.weight[pair] / x_max) ** power))
        i, j = pairs.first[pair], pairs.second[pair]
        if term & 1:
            if i == j:  # the diagonal has one term only
                continue
            i, j = j, i
        w, c = params.vectors[0, i], params.vectors[1, j]
        w2, c2 = params.squares[0, i], params.squares[1, j]
        residual = params.biases[0, i] + params.biases[1, j] - log_count
        for d in range(w.shape[0]):
            residual += w[d] * c[d]
        grad = weight * residual  # ∂J/∂(w · c)
        total += 0.5 * grad * residual
        for d in range(w.shape[0]):
            grad_w, grad_c = grad * c[d], grad * w[d]
            w[d] -= step * grad_w / np.sqrt(w2[d])
            c[d] -= step * grad_c / np.sqrt(c2[d])
            w2[d] += grad_w * grad_w
            c2[d] += grad_c * grad_c
        for side, word in ((0, i), (1, j)):
            params.biases[side, word] -= step * grad / np.sqrt(params.bias_squares[side, word])
            params.bias_squares[side, word] += grad * grad
    return total
