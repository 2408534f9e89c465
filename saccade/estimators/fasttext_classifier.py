r"""fastText's text classifier (Joulin et al. 2017): a linear model of the mean of a text's rows.

A text is a bag of its words and of its word n-grams, hashed into buckets. With h the mean of the
input rows of the bag, the loss is one of

- **softmax**: \(p = \mathrm{softmax}(U h)\), \(\ell = -\log p_y\);
- **one-vs-all**: \(-\sum_l [\,l \in y\,] \log\sigma(u_l \cdot h) + [\,l \notin y\,]
  \log\sigma(-u_l \cdot h)\), for texts with several labels;
- **hierarchical softmax**: over a Huffman tree of the labels, as for words.

Each text is one SGD step; the learning rate decays linearly to zero. As in fastText, every row of
the bag moves by e divided by the size of the bag, and a text with several labels is trained on one
of them, drawn at random (softmax, hierarchical softmax).

Every step updates the rows of the labels, and threads that write to one row would wait for its
cache line. So if there are few labels, each thread has its own copy of their rows, which is
periodically merged with the shared table.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from saccade.compiled.jit import jit_nogil, jit_nogil_no_nrt
from saccade.estimators.rows import allocate_rows
from saccade.estimators.text_classifiers.config import FastTextClassifierConfig
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
    HuffmanPaths,
    RngState,
    huffman_paths,
    random_below,
    rng_state,
)
from saccade.types.arrays import Float32Array, FloatArray, Int32Array, IntArray
from saccade.types.bags import Bags

LABEL_LOSSES = {"softmax": 0, "one_vs_all": 1, "hierarchical_softmax": 2}
SOFTMAX_LOSS, ONE_VS_ALL_LOSS, HIERARCHICAL_SOFTMAX_LOSS = LABEL_LOSSES.values()
TEXTS_PER_BLOCK = 1024  # texts that a thread trains on per block
BLOCKS_PER_THREAD = 8  # blocks submitted per thread between two checks of `stop`
MAX_COPIED_LABELS = 256  # up to this many labels, each thread has its own copy of their rows
TEXTS_PER_MERGE = 256  # texts between two merges of these copies into the shared table
_HASH_MULTIPLIER, _HASH_SEED = np.uint64(116049371), np.uint64(0x9E3779B97F4A7C15)


class LabelledBags(NamedTuple):
    """Bags with the labels of each text, labels[label_starts[t] : label_starts[t + 1]]."""

    starts: IntArray
    rows: Int32Array
    label_starts: IntArray
    labels: Int32Array


class ClassifierBuffers(NamedTuple):
    """Scratch arrays of one call of the kernel."""

    h: Float32Array
    e: Float32Array
    p: Float32Array  # the probability of each label
    labels: Int32Array  # labels whose rows are copied: all, or none if there are too many
    label_rows: Float32Array  # (2, labels, width) [0] the thread's rows, [1] as of the last merge


class ClassifierKernelArgs(NamedTuple):
    """Weights, Huffman paths and loss: the arguments that stay the same for all blocks."""

    paths: HuffmanPaths
    inputs: Float32Array
    outputs: Float32Array
    loss_code: int  # one of LABEL_LOSSES
    sigmoid_table: Float32Array
    label_weights: Float32Array  # factors of the learning rate for texts of each label


def train_on_texts(
    texts: LabelledBags,
    order: IntArray,
    args: ClassifierKernelArgs,
    rates: FloatArray,
    state: RngState,
) -> float:
    """Take one step for each text of `order` and return the sum of their losses.

    The learning rate decays linearly from rates[0] to rates[1].
    """
    width, size = args.inputs.shape[1], args.outputs.shape[0]
    labels = np.arange(size if size <= MAX_COPIED_LABELS else 0, dtype=np.int32)
    buffers = ClassifierBuffers(
        h=np.empty(width, np.float32),
        e=np.empty(width, np.float32),
        p=np.empty(size, np.float32),
        labels=labels,
        label_rows=np.zeros((2, len(labels), width), np.float32),
    )
    return _train_on_texts(texts, order, args, rates, state, buffers)


@jit_nogil_no_nrt
def _train_on_texts(
    texts: LabelledBags,
    order: IntArray,
    args: ClassifierKernelArgs,
    rates: FloatArray,
    state: RngState,
    buffers: ClassifierBuffers,
) -> float:
    paths, inputs, shared_outputs, loss_code, table, label_weights = args
    h, e, p, copied_labels, label_rows = buffers
    width, size = inputs.shape[1], shared_outputs.shape[0]
    outputs = label_rows[0] if len(copied_labels) > 0 else shared_outputs
    total = 0.0
    for step, text in enumerate(order):
        if step % TEXTS_PER_MERGE == 0:
            merge_copies(shared_outputs, copied_labels, label_rows)
        rows = texts.rows[texts.starts[text] : texts.starts[text + 1]]
        labels = texts.labels[texts.label_starts[text] : texts.label_starts[text + 1]]
        if len(rows) == 0 or len(labels) == 0:
            continue
        learning_rate = np.float32(rates[0] + (rates[1] - rates[0]) * step / len(order))
        mean_rows(h, inputs, rows)
        e[:] = 0
        if loss_code == ONE_VS_ALL_LOSS:
            weight = np.float32(0)
            for true_label in labels:
                weight += label_weights[true_label]
            learning_rate *= weight / np.float32(len(labels))
            for label in range(size):
                target = np.float32(0)
                for true_label in labels:
                    if true_label == label:
                        target = np.float32(1)
                u = outputs[label]
                probability = sigmoid_from_table(row_dot(h, u), table)
                total += negative_log(probability if target == 1 else 1 - probability)
                sgd_pair(h, e, u, (target - probability) * learning_rate)
        else:
            true_label = labels[random_below(state, len(labels)) if len(labels) > 1 else 0]
            learning_rate *= label_weights[true_label]
            if loss_code == SOFTMAX_LOSS:
                softmax_into(h, outputs, p)
                total += negative_log(p[true_label])
                for label in range(size):
                    target = np.float32(1) if label == true_label else np.float32(0)
                    sgd_pair(h, e, outputs[label], (target - p[label]) * learning_rate)
            else:
                for k in range(paths.starts[true_label], paths.starts[true_label + 1]):
                    u, code_bit = outputs[paths.nodes[k]], paths.code_bits[k]
                    probability = sigmoid_from_table(row_dot(h, u), table)
                    total += negative_log(probability if code_bit == 1 else 1 - probability)
                    sgd_pair(h, e, u, (code_bit - probability) * learning_rate)
        scale = np.float32(1) / np.float32(len(rows))
        for d in range(width):
            e[d] *= scale
        scatter_add(e, inputs, rows)
    merge_copies(shared_outputs, copied_labels, label_rows)
    return total


@jit_nogil_no_nrt
def negative_log(p: float | np.float32) -> float:
    """Return −log max(p, 1e-30)."""
    return -np.log(max(float(p), 1e-30))


@jit_nogil_no_nrt
def softmax_into(h: Float32Array, outputs: Float32Array, p: Float32Array) -> None:
    """Set p to softmax(outputs @ h)."""
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
    """Return (ends, found): the buckets of text t's word n-grams are found[ends[t] : ends[t + 1]].

    n-grams have 2 to `max_n` words. Hashed as in fastText, h ← h · 116049371 + word, but from word
    ids instead of the hashes of the words' strings.
    """
    ends = np.zeros(len(starts), np.int64)
    for text in range(len(starts) - 1):
        length, count = starts[text + 1] - starts[text], 0
        for n in range(2, max_n + 1):
            count += max(length - n + 1, 0)
        ends[text + 1] = ends[text] + count
    found = np.empty(ends[-1], np.int64)
    position = 0
    for text in range(len(starts) - 1):
        for first in range(starts[text], starts[text + 1]):
            code = _HASH_SEED ^ np.uint64(ids[first])
            for last in range(first + 1, min(first + max_n, starts[text + 1])):
                code = code * _HASH_MULTIPLIER + np.uint64(ids[last])
                found[position] = np.int64((code ^ (code >> np.uint64(29))) % np.uint64(buckets))
                position += 1
    return ends, found


@jit_nogil
def concat_bags(first: Bags, second: Bags) -> Bags:
    """Return bags with the rows of both, text by text."""
    starts = first.starts + second.starts
    rows = np.empty(starts[-1], np.int32)
    position = 0
    for text in range(len(starts) - 1):
        for bags in (first, second):
            for k in range(bags.starts[text], bags.starts[text + 1]):
                rows[position] = bags.rows[k]
                position += 1
    return Bags(starts, rows)


# --- training and prediction ----------------------------------------------------------------------


class FastTextClassifier:
    """fastText's linear classifier on the mean of word and n-gram vectors.

    It has input rows of words and n-grams, and output rows of labels or nodes of their Huffman
    tree.
    """

    def __init__(
        self,
        config: FastTextClassifierConfig,
        rows: int,
        label_counts: IntArray,
        seed: int,
        label_weights: FloatArray | None = None,
    ):
        self.config, self.seed = config, seed
        weights = np.ones(len(label_counts)) if label_weights is None else label_weights
        self.label_weights = weights.astype(np.float32)
        self.paths = huffman_paths(label_counts)
        random = np.random.default_rng([seed, rows])
        self.inputs = allocate_rows(rows, config.width)
        start = random.random((rows, config.width), np.float32) * 2 - 1
        self.inputs[:, : config.width] = start / np.float32(config.width)
        self.outputs = allocate_rows(len(label_counts), config.width)

    def blocks(self, texts: int) -> int:
        """Return the number of blocks of `texts` texts over all epochs."""
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
        """Train from block `start`, counted over all epochs, and return the next block's number.

        Texts are shuffled in each epoch. Each thread takes the next block when it has finished one
        and updates the shared rows without locks (Hogwild). `on_progress` is called with the number
        of texts of a block and the sum of their losses.
        """
        size = len(texts.starts) - 1
        total = self.blocks(size)
        blocks = total // self.config.epochs

        def work(number: int) -> tuple[int, float]:
            epoch, block = divmod(number, blocks)
            order = _epoch_order(self.seed, epoch, size)[
                block * TEXTS_PER_BLOCK : (block + 1) * TEXTS_PER_BLOCK
            ]
            rates = self.config.learning_rate * (1 - np.array([number, number + 1]) / total)
            state = rng_state(self.seed, number)
            return len(order), train_on_texts(texts, order, self.kernel_args(), rates, state)

        with ThreadPoolExecutor(threads) as pool:
            for first in range(start, total, BLOCKS_PER_THREAD * threads):
                if stop():
                    return first
                last = min(first + BLOCKS_PER_THREAD * threads, total)
                for count, loss in pool.map(work, range(first, last)):
                    on_progress(count, loss)
        return total

    def kernel_args(self) -> ClassifierKernelArgs:
        """Return the arguments of the kernel; the weights are shared, not copied."""
        loss_code = LABEL_LOSSES[self.config.loss]
        return ClassifierKernelArgs(
            self.paths, self.inputs, self.outputs, loss_code, SIGMOID_TABLE, self.label_weights
        )

    def predict_proba(self, bags: Bags) -> Float32Array:
        """Return the probability of each label, (texts, labels).

        With one-vs-all the labels are independent, and a row does not sum to 1.
        """
        found = np.zeros((len(bags.starts) - 1, len(self.outputs)), np.float32)
        label_probabilities(bags, self.kernel_args(), found)
        return found


@lru_cache(maxsize=2)
def _epoch_order(seed: int, epoch: int, size: int) -> IntArray:
    return np.random.default_rng([seed, epoch, size]).permutation(size)


@jit_nogil
def label_probabilities(bags: Bags, args: ClassifierKernelArgs, found: Float32Array) -> None:
    """Write the probability of each label of each text to `found`; an empty text has h = 0."""
    starts, rows = bags
    paths, inputs, outputs, loss_code, _, _ = args
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
            probability = np.float32(1)
            for k in range(paths.starts[label], paths.starts[label + 1]):
                x = row_dot(h, outputs[paths.nodes[k]])
                probability *= 1 / (1 + np.exp(-x if paths.code_bits[k] == 1 else x))
            found[text, label] = probability
