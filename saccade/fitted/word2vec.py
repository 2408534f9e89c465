r"""word2vec (Mikolov et al. 2013): a vector for each word, from the words it stands among.

The mathematics is in `saccade.fitted.windows`; here is what surrounds it: blocks of text, threads,
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

from saccade.compiled import empty_rows
from saccade.config import Config
from saccade.data.sentences import END, Sentences
from saccade.fitted.drawing import Floats, Ids, Stream, Whole, alias, huffman, kept, stream
from saccade.fitted.windows import SIGMOID, Windows, Words, learn

SECONDS = 1.0  # between two reports
BLOCK = 1 << 16  # words that a thread learns from before it asks for more
HELD_OUT = 100  # one word in so many is only judged
JUDGED = 20_000  # words, at most
LEAST_RATE = 1e-4  # of the first rate, in the end
_STREAMS = {"start": 0, "learn": 1, "judge": 2}


class WindowsConfig(Config):
    """What is learned from windows of text, with negative sampling or hierarchical softmax."""

    width: int = Field(100, ge=1)
    window: int = Field(5, ge=1, le=1000)  # words on either side, at most
    negatives: int = Field(5, ge=0, le=100)  # for each word that is foretold; 0: Huffman's tree
    # draws for four windows of skip-gram or eight of CBOW; None: 40 and 8 with 5 negatives
    shared: int | None = Field(None, ge=1, le=1000)
    subsample: float = Field(1e-3, ge=0)  # words more frequent than this are often left out
    epochs: int = Field(5, ge=1)
    # negatives come by count^power; word2vec.c has ¾, fastText ½, which was better (docs/scores.md)
    power: float = Field(0.5, ge=0, le=1)
    rate: float = Field(0.05, gt=0)  # where it begins; word2vec.c and gensim: 0.025 for skip-gram

    @property
    def around(self) -> bool:
        """Whether the words around foretell the word, or it foretells them."""
        return False

    def windows(self) -> Windows:
        """As the kernels want it: skip-gram has so many targets that it needs more draws."""
        if not self.negatives:
            return Windows(self.window, self.around, 0, 0, together=1)
        shared = self.shared or 8 * (-(-self.negatives // 5) if self.around else self.negatives)
        return Windows(self.window, self.around, self.negatives, shared, 8 if self.around else 4)


class Word2VecConfig(WindowsConfig):
    """Skip-gram or CBOW."""

    name: Literal["skipgram", "cbow"] = "skipgram"

    @property
    def around(self) -> bool:
        """CBOW: the words around foretell the word."""
        return self.name == "cbow"


class Reported(NamedTuple):
    """How far it is."""

    blocks: int  # that have been begun
    total: int
    loss: float  # on held-out lines, for each word that is to be foretold


class Vectors(NamedTuple):
    """What was learned; rows are `width` wide and filled up with zeros to a round number."""

    inputs: Floats
    outputs: Floats
    width: int

    @property
    def of_words(self) -> Floats:
        """Without what they were filled up with."""
        return self.inputs[:, : self.width]


def own_rows(words: int) -> tuple[Whole, Ids]:
    """Bags of one row each: a word is itself and nothing more."""
    return np.arange(words + 1, dtype=np.int64), np.arange(words, dtype=np.int32)


def begun(inputs: int, outputs: int, width: int, seed: int) -> Vectors:
    """As word2vec begins: inputs in ±1/(2 width), outputs zero."""
    first = empty_rows(inputs, width)
    random = np.random.default_rng([seed, _STREAMS["start"]])
    first[:, :width] = (random.random((inputs, width), np.float32) - 0.5) / width
    return Vectors(first, empty_rows(outputs, width), width)


class Learner:
    """One text, its words, and the vectors that are being learned."""

    def __init__(
        self,
        sentences: Sentences,
        config: WindowsConfig,
        vectors: Vectors,
        bags: tuple[Whole, Ids],
        seed: int,
    ):
        counts = sentences.counts
        self.config, self.vectors, self.seed = config, vectors, seed
        self.windows = config.windows()
        chances = counts.astype(np.float64) ** config.power
        self.words = Words(kept(counts, config.subsample), alias(chances), *bags)
        self.all_kept = np.ones_like(self.words.kept)
        self.paths = huffman(counts if not config.negatives else counts[:1])
        self.text, self.held_out = held_out(sentences.ids)
        self.blocks = blocks(self.text)

    @property
    def total(self) -> int:
        """Blocks of all epochs."""
        return len(self.blocks) * self.config.epochs

    def learn(
        self,
        threads: int,
        tell: Callable[[Reported], None],
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
                self.block(number, max(1 - number / total, LEAST_RATE))

        with ThreadPoolExecutor(threads) as pool:
            try:
                workers = [pool.submit(work) for _ in range(threads)]
                while wait(workers, timeout=SECONDS).not_done:
                    taken = min(next(copy(turn)), total)
                    tell(Reported(taken, total, self.judge()))
                    if stop():
                        halt.set()
            finally:
                halt.set()
            for worker in workers:
                worker.result()
        return min(next(turn), total)

    def block(self, number: int, share: float) -> int:
        """Learn from a block, counted on over the epochs."""
        first, last = self.blocks[number % len(self.blocks)]
        state = stream(self.seed, _STREAMS["learn"], number)
        return self._go(self.text[first:last], share * self.config.rate, state)

    def judge(self) -> float:
        """The loss on what is held out; no word left out, the same negatives every time."""
        judged = np.zeros(2)
        self._go(self.held_out, 0.0, stream(self.seed, _STREAMS["judge"]), judged)
        return float(judged[0] / max(judged[1], 1))

    def _go(
        self, text: Ids, rate: float, state: Stream, judged: NDArray[np.float64] | None = None
    ) -> int:
        words = self.words if judged is None else self.words._replace(kept=self.all_kept)
        return learn(
            text,
            words,
            self.paths,
            self.vectors.inputs,
            self.vectors.outputs,
            self.windows,
            rate,
            state,
            SIGMOID,
            np.zeros(2) if judged is None else judged,
        )


def held_out(ids: Ids) -> tuple[Ids, Ids]:
    """A text without its last lines, and those: a hundredth of it, and not too many words.

    Of a text in one line its end is held out.
    """
    wanted = len(ids) - min(len(ids) // HELD_OUT + 1, JUDGED)
    first = max(wanted - JUDGED, 0)  # the text may be larger than memory
    ends = np.flatnonzero(ids[first:wanted] == END)
    cut = first + int(ends[-1]) + 1 if len(ends) else wanted
    return ids[:cut], ids[cut : cut + JUDGED]


def blocks(ids: Ids) -> list[tuple[int, int]]:
    """Where blocks begin and end: whole lines, unless a line is longer than a block."""
    cuts = [0]
    while cuts[-1] < len(ids):
        last = min(cuts[-1] + BLOCK, len(ids))
        ends = np.flatnonzero(ids[cuts[-1] : last] == END)
        whole = cuts[-1] + int(ends[-1]) + 1 if len(ends) else last
        cuts.append(last if last == len(ids) else whole)
    return list(zip(cuts, cuts[1:], strict=False))
