r"""word2vec (Mikolov et al. 2013): word vectors trained to predict words from their context.

The equations are in `saccade.estimators.word_vectors.kernels`; this module splits the text into
blocks, distributes them over threads, decays the learning rate linearly and evaluates the loss on
held-out lines.

Threads update shared rows without locks (Hogwild, Recht et al. 2011: updates are sparse, so
collisions are rare). Results with several threads therefore differ slightly between runs; one
thread gives identical bits for the same seed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from copy import copy
from itertools import count
from threading import Event
from typing import NamedTuple

import numpy as np

from saccade.data.text.word_corpus import LINE_END, WordCorpus
from saccade.estimators.rows import allocate_rows
from saccade.estimators.word_vectors.config import WindowsConfig
from saccade.estimators.word_vectors.kernels import (
    SIGMOID_TABLE,
    VocabularyTables,
    WindowParams,
    Word2VecKernelArgs,
    train_on_text,
)
from saccade.estimators.word_vectors.sampling import (
    RngState,
    alias_table,
    huffman_paths,
    keep_probabilities,
    rng_state,
)
from saccade.types.arrays import Float32Array, FloatArray, Int32Array, IntArray

REPORT_INTERVAL_SECONDS = 1.0  # between two calls of on_progress
WORDS_PER_BLOCK = 1 << 16  # words that a thread trains on per block
HELD_OUT_DIVISOR = 100  # one word in so many is held out for the loss
MAX_HELD_OUT_WORDS = 20_000
# words of a text from which the default of the power is ½ (docs/benchmarks.md)
LARGE_CORPUS_WORDS = 5_000_000
MIN_LEARNING_RATE_FACTOR = 1e-4  # final learning rate as a fraction of the initial one
_STREAMS = {"init": 0, "train": 1, "evaluate": 2}  # of random numbers, by number


def window_params(config: WindowsConfig) -> WindowParams:
    """Return the settings of the kernel.

    Skip-gram has several targets per window and so needs more shared negatives than CBOW.
    """
    if not config.negatives:
        return WindowParams(config.window, config.is_cbow, 0, 0, windows_per_group=1)
    shared_negatives = config.shared_negatives or 8 * (
        -(-config.negatives // 5) if config.is_cbow else config.negatives
    )
    return WindowParams(
        config.window,
        config.is_cbow,
        config.negatives,
        shared_negatives,
        8 if config.is_cbow else 4,
    )


def default_power(words: int) -> float:
    """Return the power of the negatives' distribution that suits a text of so many words.

    With ¾, as in word2vec.c, frequent words are drawn more often than with ½, as in fastText; the
    vectors of a small text are better for it, those of a large one are not.
    """
    return 0.75 if words < LARGE_CORPUS_WORDS else 0.5


class Word2VecProgress(NamedTuple):
    """Training progress."""

    blocks: int  # started so far, over all epochs
    total: int
    loss: float  # on held-out lines, mean per target word


class Word2VecParams(NamedTuple):
    """Input and output vectors; rows are zero-padded from `width` to whole cache lines."""

    inputs: Float32Array
    outputs: Float32Array
    width: int

    @property
    def word_vectors(self) -> Float32Array:
        """The input vectors without padding."""
        return self.inputs[:, : self.width]


def identity_bags(words: int) -> tuple[IntArray, Int32Array]:
    """Return bags for training without subwords: each word's bag is its own row."""
    return np.arange(words + 1, dtype=np.int64), np.arange(words, dtype=np.int32)


def init_word2vec_params(inputs: int, outputs: int, width: int, seed: int) -> Word2VecParams:
    """Initialise as word2vec.c does: inputs uniform in ±1/(2 width), outputs zero."""
    input_vectors = allocate_rows(inputs, width)
    random = np.random.default_rng([seed, _STREAMS["init"]])
    input_vectors[:, :width] = (random.random((inputs, width), np.float32) - 0.5) / width
    return Word2VecParams(input_vectors, allocate_rows(outputs, width), width)


class Word2VecTrainer:
    """Trains word vectors on one corpus, block by block."""

    def __init__(
        self,
        sentences: WordCorpus,
        config: WindowsConfig,
        vectors: Word2VecParams,
        bags: tuple[IntArray, Int32Array],
        seed: int,
    ):
        counts = sentences.counts
        self.config, self.vectors, self.seed = config, vectors, seed
        self.windows = window_params(config)
        power = default_power(sentences.read) if config.power is None else config.power
        weights = counts.astype(np.float64) ** power
        self.words = VocabularyTables(
            keep_probabilities(counts, config.subsample), alias_table(weights), *bags
        )
        self.kernel_args = Word2VecKernelArgs(
            words=self.words,
            paths=huffman_paths(counts if not config.negatives else counts[:1]),
            inputs=vectors.inputs,
            outputs=vectors.outputs,
            windows=self.windows,
            sigmoid_table=SIGMOID_TABLE,
        )
        keep_all = np.ones_like(self.words.keep_probabilities)
        self.evaluation_args = self.kernel_args._replace(
            words=self.words._replace(keep_probabilities=keep_all)
        )
        self.text, self.held_out = (
            split_held_out(sentences.ids)
            if sentences.held_out is None
            else (sentences.ids, sentences.held_out)
        )
        self.blocks = block_bounds(self.text)

    @property
    def total(self) -> int:
        """Number of blocks over all epochs."""
        return len(self.blocks) * self.config.epochs

    def fit_blocks(
        self,
        threads: int,
        on_progress: Callable[[Word2VecProgress], None],
        stop: Callable[[], bool],
        start: int = 0,
    ) -> int:
        """Train from block `start`, counted over all epochs, and return the next block's number.

        Each thread takes the next block when it has finished one. Meanwhile the held-out loss is
        evaluated at intervals, which does not affect training.
        """
        total = self.total
        block_numbers, halt = count(start), Event()

        def work() -> None:
            while not halt.is_set() and (number := next(block_numbers)) < total:
                self.train_block(number, max(1 - number / total, MIN_LEARNING_RATE_FACTOR))

        with ThreadPoolExecutor(threads) as pool:
            try:
                workers = [pool.submit(work) for _ in range(threads)]
                while wait(workers, timeout=REPORT_INTERVAL_SECONDS).not_done:
                    started = min(next(copy(block_numbers)), total)
                    on_progress(Word2VecProgress(started, total, self.evaluate()))
                    if stop():
                        halt.set()
            finally:
                halt.set()
            for worker in workers:
                worker.result()
        return min(next(block_numbers), total)

    def train_block(self, number: int, rate_factor: float) -> int:
        """Train on one block, numbered over all epochs; return the number of positions used."""
        first, last = self.blocks[number % len(self.blocks)]
        state = rng_state(self.seed, _STREAMS["train"], number)
        learning_rate = rate_factor * self.config.learning_rate
        return train_on_text(
            self.text[first:last], self.kernel_args, learning_rate, state, np.zeros(2)
        )

    def evaluate(self) -> float:
        """Return the held-out loss, without subsampling and with the same negatives every time."""
        loss_sums: FloatArray = np.zeros(2)
        state: RngState = rng_state(self.seed, _STREAMS["evaluate"])
        train_on_text(self.held_out, self.evaluation_args, 0.0, state, loss_sums)
        return float(loss_sums[0] / max(loss_sums[1], 1))


def split_held_out(ids: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Split off the last lines: a hundredth of the text, at most `MAX_HELD_OUT_WORDS`.

    Without line ends near the split, the text is cut within a line.
    """
    split = len(ids) - min(len(ids) // HELD_OUT_DIVISOR + 1, MAX_HELD_OUT_WORDS)
    first = max(split - MAX_HELD_OUT_WORDS, 0)  # search near the end: ids may be memory-mapped
    ends = np.flatnonzero(ids[first:split] == LINE_END)
    cut = first + int(ends[-1]) + 1 if len(ends) else split
    return ids[:cut], ids[cut : cut + MAX_HELD_OUT_WORDS]


def block_bounds(ids: Int32Array) -> list[tuple[int, int]]:
    """Return start and end of each block: whole lines, unless a line is longer than a block."""
    bounds = [0]
    while bounds[-1] < len(ids):
        last = min(bounds[-1] + WORDS_PER_BLOCK, len(ids))
        ends = np.flatnonzero(ids[bounds[-1] : last] == LINE_END)
        line_end = bounds[-1] + int(ends[-1]) + 1 if len(ends) else last
        bounds.append(last if last == len(ids) else line_end)
    return list(zip(bounds, bounds[1:], strict=False))
