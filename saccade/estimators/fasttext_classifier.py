r"""fastText's classifier (Joulin et al. 2017): the mean of a text's rows, and a label from it.

A text is the bag of its words, and of its n-grams of words (hashed into buckets). With h their
mean,

- **softmax**: \(p = \mathrm{softmax}(U h)\), \(\ell = -\log p_y\);
- **one against all**: \(-\sum_l [\,l \in y\,] \log\sigma(u_l \cdot h) + [\,l \notin y\,]
  \log\sigma(-u_l \cdot h)\), for texts with several labels;
- **hierarchical softmax**: Huffman's tree over the labels, as for words.

Each text is one step; the rate falls in a line to zero. As in fastText every row of the bag moves
by e over the size of the bag, and a text with several labels learns one of them at a time
(softmax, tree), drawn at random.

Every step changes the rows of labels, and two threads that write to one row wait for each other:
so each has its own copy of them, if they are few, brought together with the others' now and then.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.compiled.jit import aligned_zeros, jit_nogil, jit_nogil_no_nrt
from saccade.config import Config
from saccade.estimators.word_vectors.kernels import (
    SIGMOID_TABLE,
    mean_rows,
    merge_copies,
    row_dot,
    scatter_add,
    sgd_pair,
    sigmoid_from_table,
)
from saccade.estimators.word_vectors.sampling import (
    Float32Array,
    HuffmanPaths,
    Int32Array,
    IntArray,
    RngState,
    huffman_paths,
    random_below,
    rng_state,
)

LABEL_LOSSES = {"softmax": 0, "one_vs_all": 1, "hierarchical_softmax": 2}
SOFTMAX_LOSS, ONE_VS_ALL_LOSS, HIERARCHICAL_SOFTMAX_LOSS = LABEL_LOSSES.values()
TEXTS_PER_BLOCK = 1024  # texts that a thread learns from before it asks for more
BLOCKS_PER_THREAD = 8  # blocks that are handed to each thread at once
MAX_COPIED_LABELS = 256  # labels of whose rows each thread has its own copy
TEXTS_PER_MERGE = 256  # texts after which the copies are brought together
_MIX, _BEGIN = np.uint64(116049371), np.uint64(0x9E3779B97F4A7C15)


class FastTextClassifierConfig(Config):
    """A linear classifier over the mean of a text's rows."""

    name: Literal["fasttext"] = "fasttext"
    width: int = Field(100, ge=1)
    word_ngrams: int = Field(1, ge=1, le=10)  # words in a row that count as one more
    buckets: int = Field(2_000_000, ge=1)
    loss: Literal["softmax", "one_vs_all", "hierarchical_softmax"] = "softmax"
    epochs: int = Field(5, ge=1)
    learning_rate: float = Field(0.1, gt=0)


class Bags(NamedTuple):
    """Texts as bags of rows: of text t rows[starts[t] : starts[t + 1]]."""

    starts: IntArray
    rows: Int32Array


class LabelledBags(NamedTuple):
    """Texts as bags of rows, and their labels: of text t rows[starts[t] : starts[t + 1]]."""

    starts: IntArray
    rows: Int32Array
    label_starts: IntArray
    labels: Int32Array


class ClassifierBuffers(NamedTuple):
    """What a thread writes to as it goes."""

    h: Float32Array
    e: Float32Array
    p: Float32Array  # the labels' shares
    labels: Int32Array  # whose rows it has for its own: all of them, or if there are many none
    label_rows: Float32Array  # (2, labels, width) these rows, and as they were


def train_on_texts(
    texts: LabelledBags,
    order: IntArray,
    paths: HuffmanPaths,
    inputs: Float32Array,
    outputs: Float32Array,
    loss_code: int,
    rates: NDArray[np.float64],
    state: RngState,
    table: Float32Array,
) -> float:
    """A step for each text, in this order, the rate falling from rates[0] to rates[1]; Σ −log p."""
    width, size = inputs.shape[1], outputs.shape[0]
    labels = np.arange(size if size <= MAX_COPIED_LABELS else 0, dtype=np.int32)
    room = ClassifierBuffers(
        h=np.empty(width, np.float32),
        e=np.empty(width, np.float32),
        p=np.empty(size, np.float32),
        labels=labels,
        label_rows=np.zeros((2, len(labels), width), np.float32),
    )
    return _learn_labels(texts, order, paths, inputs, outputs, loss_code, rates, state, table, room)


@jit_nogil_no_nrt
def _learn_labels(
    texts: LabelledBags,
    order: IntArray,
    paths: HuffmanPaths,
    inputs: Float32Array,
    everyones: Float32Array,
    loss_code: int,
    rates: NDArray[np.float64],
    state: RngState,
    table: Float32Array,
    room: ClassifierBuffers,
) -> float:
    h, e, p, labels, label_rows = room
    width, size = inputs.shape[1], everyones.shape[0]
    outputs = label_rows[0] if len(labels) > 0 else everyones
    total = 0.0
    for turn, text in enumerate(order):
        if turn % TEXTS_PER_MERGE == 0:
            merge_copies(everyones, labels, label_rows)
        rows = texts.rows[texts.starts[text] : texts.starts[text + 1]]
        own = texts.labels[texts.label_starts[text] : texts.label_starts[text + 1]]
        if len(rows) == 0 or len(own) == 0:
            continue
        learning_rate = np.float32(rates[0] + (rates[1] - rates[0]) * turn / len(order))
        mean_rows(h, inputs, rows)
        e[:] = 0
        if loss_code == ONE_VS_ALL_LOSS:
            for label in range(size):
                is_own = np.float32(0)
                for one in own:
                    if one == label:
                        is_own = np.float32(1)
                u = outputs[label]
                said = sigmoid_from_table(row_dot(h, u), table)
                total += negative_log(said if is_own == 1 else 1 - said)
                sgd_pair(h, e, u, (is_own - said) * learning_rate)
        else:
            label = own[random_below(state, len(own)) if len(own) > 1 else 0]
            if loss_code == SOFTMAX_LOSS:
                softmax_into(h, outputs, p)
                total += negative_log(p[label])
                for other in range(size):
                    wanted = np.float32(1) if other == label else np.float32(0)
                    sgd_pair(h, e, outputs[other], (wanted - p[other]) * learning_rate)
            else:
                for place in range(paths.starts[label], paths.starts[label + 1]):
                    u, code_bits = outputs[paths.nodes[place]], paths.code_bits[place]
                    said = sigmoid_from_table(row_dot(h, u), table)
                    total += negative_log(said if code_bits == 1 else 1 - said)
                    sgd_pair(h, e, u, (code_bits - said) * learning_rate)
        share = np.float32(1) / np.float32(len(rows))
        for d in range(width):
            e[d] *= share
        scatter_add(e, inputs, rows)
    merge_copies(everyones, labels, label_rows)
    return total


@jit_nogil_no_nrt
def negative_log(share: float | np.float32) -> float:
    """−log p, of a p that may be nothing."""
    return -np.log(max(float(share), 1e-30))


@jit_nogil_no_nrt
def softmax_into(h: Float32Array, outputs: Float32Array, p: Float32Array) -> None:
    """p: the softmax of the products of h with all rows."""
    largest = np.float32(-np.inf)
    for label in range(len(p)):
        p[label] = row_dot(h, outputs[label])
        largest = max(largest, p[label])
    total = np.float32(0)
    for label in range(len(p)):
        p[label] = np.exp(p[label] - largest)
        total += p[label]
    for label in range(len(p)):
        p[label] /= total


# --- texts as bags --------------------------------------------------------------------------------


@jit_nogil
def word_ngram_buckets(
    ids: Int32Array, starts: IntArray, max_n: int, buckets: int
) -> tuple[IntArray, IntArray]:
    """The buckets of every text's n-grams of 2 to `longest` words: found[ends[t] : ends[t + 1]].

    As in fastText's: with the words' numbers mixed, h ← h · 116049371 + word.
    """
    ends = np.zeros(len(starts), np.int64)
    for text in range(len(starts) - 1):
        length, count = starts[text + 1] - starts[text], 0
        for n in range(2, max_n + 1):
            count += max(length - n + 1, 0)
        ends[text + 1] = ends[text] + count
    found = np.empty(ends[-1], np.int64)
    place = 0
    for text in range(len(starts) - 1):
        for first in range(starts[text], starts[text + 1]):
            mark = _BEGIN ^ np.uint64(ids[first])
            for last in range(first + 1, min(first + max_n, starts[text + 1])):
                mark = mark * _MIX + np.uint64(ids[last])
                found[place] = np.int64((mark ^ (mark >> np.uint64(29))) % np.uint64(buckets))
                place += 1
    return ends, found


@jit_nogil
def concat_bags(own: Bags, more: Bags) -> Bags:
    """Bags with the rows of both."""
    starts = own.starts + more.starts
    rows = np.empty(starts[-1], np.int32)
    place = 0
    for text in range(len(starts) - 1):
        for bags in (own, more):
            for at in range(bags.starts[text], bags.starts[text + 1]):
                rows[place] = bags.rows[at]
                place += 1
    return Bags(starts, rows)


# --- learning -------------------------------------------------------------------------------------


class FastTextClassifier:
    """Rows of words and n-grams, and rows of labels (or of the nodes of their tree)."""

    def __init__(
        self, config: FastTextClassifierConfig, rows: int, label_counts: IntArray, seed: int
    ):
        self.config, self.seed = config, seed
        self.paths = huffman_paths(label_counts)
        random = np.random.default_rng([seed, rows])
        self.inputs = aligned_zeros(rows, config.width)
        start = random.random((rows, config.width), np.float32) * 2 - 1
        self.inputs[:, : config.width] = start / np.float32(config.width)
        self.outputs = aligned_zeros(len(label_counts), config.width)

    def blocks(self, texts: int) -> int:
        """Of so many texts, over all epochs."""
        return -(-texts // TEXTS_PER_BLOCK) * self.config.epochs

    def fit_blocks(
        self,
        texts: LabelledBags,
        *,
        threads: int = 1,
        on_progress: Callable[[int, float], None] = lambda more, loss: None,
        stop: Callable[[], bool] = lambda: False,
        start: int = 0,
    ) -> int:
        """Every epoch from block `start` on; which would be next. `tell`: texts more, their loss.

        An epoch goes through the texts in an order of its own; each thread takes the next block
        when it is done with one, and changes the rows without locks.
        """
        size = len(texts.starts) - 1
        total = self.blocks(size)
        blocks = total // self.config.epochs

        def work(number: int) -> tuple[int, float]:
            epoch, block = divmod(number, blocks)
            order = _order(self.seed, epoch, size)[
                block * TEXTS_PER_BLOCK : (block + 1) * TEXTS_PER_BLOCK
            ]
            rates = self.config.learning_rate * (1 - np.array([number, number + 1]) / total)
            state = rng_state(self.seed, number)
            loss_code = LABEL_LOSSES[self.config.loss]
            return len(order), train_on_texts(
                texts,
                order,
                self.paths,
                self.inputs,
                self.outputs,
                loss_code,
                rates,
                state,
                SIGMOID_TABLE,
            )

        with ThreadPoolExecutor(threads) as pool:
            for first in range(start, total, BLOCKS_PER_THREAD * threads):
                if stop():
                    return first
                for count, lost in pool.map(
                    work, range(first, min(first + BLOCKS_PER_THREAD * threads, total))
                ):
                    on_progress(count, lost)
        return total

    def predict_proba(self, bags: Bags) -> Float32Array:
        """For each text and label; of one against all they do not add up to 1."""
        found = np.zeros((len(bags.starts) - 1, len(self.outputs)), np.float32)
        label_probabilities(
            bags.starts,
            bags.rows,
            self.paths,
            self.inputs,
            self.outputs,
            LABEL_LOSSES[self.config.loss],
            SIGMOID_TABLE,
            found,
        )
        return found


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, size: int) -> IntArray:
    return np.random.default_rng([seed, epoch, size]).permutation(size)


@jit_nogil
def label_probabilities(
    starts: IntArray,
    rows: Int32Array,
    paths: HuffmanPaths,
    inputs: Float32Array,
    outputs: Float32Array,
    loss_code: int,
    table: Float32Array,
    found: Float32Array,
) -> None:
    """The chance of each label; a text without rows says nothing of any."""
    h = np.empty(inputs.shape[1], np.float32)
    for text in range(len(starts) - 1):
        h[:] = 0
        if starts[text] < starts[text + 1]:
            mean_rows(h, inputs, rows[starts[text] : starts[text + 1]])
        if loss_code == SOFTMAX_LOSS:
            softmax_into(h, outputs, found[text])
            continue
        for label in range(found.shape[1]):
            if loss_code == ONE_VS_ALL_LOSS:
                found[text, label] = 1 / (1 + np.exp(-row_dot(h, outputs[label])))
                continue
            chance = np.float32(1)
            for place in range(paths.starts[label], paths.starts[label + 1]):
                x = row_dot(h, outputs[paths.nodes[place]])
                chance *= 1 / (1 + np.exp(-x if paths.code_bits[place] == 1 else x))
            found[text, label] = chance
