r"""word2vec (Mikolov et al. 2013): a vector for each word, from the words it stands among.

The mathematics is in `saccade.estimators.word_vectors.kernels`; here is what surrounds it: blocks of text, threads,
the rate that falls, and the loss on lines that are never learned from.

Threads change the same rows without locks (Recht et al. 2011: where the rows that two steps touch
are mostly others, what is lost is nothing to speak of). So two threads give two results, a little
different each time; one thread gives the same bits for the same seed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from copy import copy
from itertools import count
from threading import Event
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.compiled.jit import aligned_zeros
from saccade.config import Config
from saccade.data.text.word_corpus import LINE_END, WordCorpus
from saccade.estimators.word_vectors.kernels import (
    SIGMOID_TABLE,
    VocabularyTables,
    WindowParams,
    train_on_text,
)
from saccade.estimators.word_vectors.sampling import (
    Float32Array,
    Int32Array,
    IntArray,
    RngState,
    alias_table,
    huffman_paths,
    keep_probabilities,
    rng_state,
)

REPORT_INTERVAL_SECONDS = 1.0  # between two reports
WORDS_PER_BLOCK = 1 << 16  # words that a thread learns from before it asks for more
HELD_OUT_DIVISOR = 100  # one word in so many is only judged
MAX_HELD_OUT_WORDS = 20_000  # words, at most
MIN_LEARNING_RATE_FACTOR = 1e-4  # of the first rate, in the end
_STREAMS = {"start": 0, "learn": 1, "judge": 2}


class WindowsConfig(Config):
    """What is learned from windows of text, with negative sampling or hierarchical softmax."""

    width: int = Field(100, ge=1)
    window: int = Field(5, ge=1, le=1000)  # words on either side, at most
    negatives: int = Field(5, ge=0, le=100)  # for each word that is foretold; 0: Huffman's tree
    # draws for four windows of skip-gram or eight of CBOW; None: 40 and 8 with 5 negatives
    shared_negatives: int | None = Field(None, ge=1, le=1000)
    subsample: float = Field(1e-3, ge=0)  # words more frequent than this are often left out
    epochs: int = Field(5, ge=1)
    # negatives come by count^power; word2vec.c has ¾, fastText ½, which was better (docs/scores.md)
    power: float = Field(0.5, ge=0, le=1)
    learning_rate: float = Field(
        0.05, gt=0
    )  # where it begins; word2vec.c and gensim: 0.025 for skip-gram

    @property
    def is_cbow(self) -> bool:
        """Whether the words around foretell the word, or it foretells them."""
        return False

    def windows(self) -> WindowParams:
        """As the kernels want it: skip-gram has so many targets that it needs more draws."""
        if not self.negatives:
            return WindowParams(self.window, self.is_cbow, 0, 0, windows_per_group=1)
        shared_negatives = self.shared_negatives or 8 * (
            -(-self.negatives // 5) if self.is_cbow else self.negatives
        )
        return WindowParams(
            self.window, self.is_cbow, self.negatives, shared_negatives, 8 if self.is_cbow else 4
        )


class Word2VecConfig(WindowsConfig):
    """Skip-gram or CBOW."""

    name: Literal["skipgram", "cbow"] = "skipgram"

    @property
    def is_cbow(self) -> bool:
        """CBOW: the words around foretell the word."""
        return self.name == "cbow"


class Word2VecProgress(NamedTuple):
    """How far it is."""

    blocks: int  # that have been begun
    total: int
    loss: float  # on held-out lines, for each word that is to be foretold


class Word2VecParams(NamedTuple):
    """What was learned; rows are `width` wide and filled up with zeros to a round number."""

    inputs: Float32Array
    outputs: Float32Array
    width: int

    @property
    def word_vectors(self) -> Float32Array:
        """Without what they were filled up with."""
        return self.inputs[:, : self.width]


def identity_bags(words: int) -> tuple[IntArray, Int32Array]:
    """Bags of one row each: a word is itself and nothing more."""
    return np.arange(words + 1, dtype=np.int64), np.arange(words, dtype=np.int32)


def init_word2vec_params(inputs: int, outputs: int, width: int, seed: int) -> Word2VecParams:
    """As word2vec begins: inputs in ±1/(2 width), outputs zero."""
    first = aligned_zeros(inputs, width)
    random = np.random.default_rng([seed, _STREAMS["start"]])
    first[:, :width] = (random.random((inputs, width), np.float32) - 0.5) / width
    return Word2VecParams(first, aligned_zeros(outputs, width), width)


class Word2VecTrainer:
    """One text, its words, and the vectors that are being learned."""

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
        self.windows = config.windows()
        chances = counts.astype(np.float64) ** config.power
        self.words = VocabularyTables(
            keep_probabilities(counts, config.subsample), alias_table(chances), *bags
        )
        self.all_kept = np.ones_like(self.words.keep_probabilities)
        self.paths = huffman_paths(counts if not config.negatives else counts[:1])
        self.text, self.held_out = split_held_out(sentences.ids)
        self.blocks = block_bounds(self.text)

    @property
    def total(self) -> int:
        """Blocks of all epochs."""
        return len(self.blocks) * self.config.epochs

    def fit_blocks(
        self,
        threads: int,
        on_progress: Callable[[Word2VecProgress], None],
        stop: Callable[[], bool],
        start: int = 0,
    ) -> int:
        """Every epoch from block `start` on, counted over all epochs; which block would be next.

        Each thread takes the next block when it is done with one. Meanwhile what is held out is
        judged from time to time: that changes nothing.
        """
        total = self.total
        turn, halt = count(start), Event()

        def work() -> None:
            while not halt.is_set() and (number := next(turn)) < total:
                self.train_block(number, max(1 - number / total, MIN_LEARNING_RATE_FACTOR))

        with ThreadPoolExecutor(threads) as pool:
            try:
                workers = [pool.submit(work) for _ in range(threads)]
                while wait(workers, timeout=REPORT_INTERVAL_SECONDS).not_done:
                    taken = min(next(copy(turn)), total)
                    on_progress(Word2VecProgress(taken, total, self.evaluate()))
                    if stop():
                        halt.set()
            finally:
                halt.set()
            for worker in workers:
                worker.result()
        return min(next(turn), total)

    def train_block(self, number: int, share: float) -> int:
        """Learn from a block, counted on over the epochs."""
        first, last = self.blocks[number % len(self.blocks)]
        state = rng_state(self.seed, _STREAMS["learn"], number)
        return self._go(self.text[first:last], share * self.config.learning_rate, state)

    def evaluate(self) -> float:
        """The loss on what is held out; no word left out, the same negatives every time."""
        judged = np.zeros(2)
        self._go(self.held_out, 0.0, rng_state(self.seed, _STREAMS["judge"]), judged)
        return float(judged[0] / max(judged[1], 1))

    def _go(
        self,
        text: Int32Array,
        learning_rate: float,
        state: RngState,
        judged: NDArray[np.float64] | None = None,
    ) -> int:
        words = (
            self.words if judged is None else self.words._replace(keep_probabilities=self.all_kept)
        )
        return train_on_text(
            text,
            words,
            self.paths,
            self.vectors.inputs,
            self.vectors.outputs,
            self.windows,
            learning_rate,
            state,
            SIGMOID_TABLE,
            np.zeros(2) if judged is None else judged,
        )


def split_held_out(ids: Int32Array) -> tuple[Int32Array, Int32Array]:
    """A text without its last lines, and those: a hundredth of it, and not too many words.

    Of a text in one line its end is held out.
    """
    wanted = len(ids) - min(len(ids) // HELD_OUT_DIVISOR + 1, MAX_HELD_OUT_WORDS)
    first = max(wanted - MAX_HELD_OUT_WORDS, 0)  # the text may be larger than memory
    ends = np.flatnonzero(ids[first:wanted] == LINE_END)
    cut = first + int(ends[-1]) + 1 if len(ends) else wanted
    return ids[:cut], ids[cut : cut + MAX_HELD_OUT_WORDS]


def block_bounds(ids: Int32Array) -> list[tuple[int, int]]:
    """Where blocks begin and end: whole lines, unless a line is longer than a block."""
    cuts = [0]
    while cuts[-1] < len(ids):
        last = min(cuts[-1] + WORDS_PER_BLOCK, len(ids))
        ends = np.flatnonzero(ids[cuts[-1] : last] == LINE_END)
        whole = cuts[-1] + int(ends[-1]) + 1 if len(ends) else last
        cuts.append(last if last == len(ids) else whole)
    return list(zip(cuts, cuts[1:], strict=False))
