"""Word vectors, model by model: how each is fitted to a text, kept, and asked.

All have the same four sides: `fit`, `arrays` and `load` (what is kept), `of_words` (a row for each
word), and `unseen` (a vector for a word that has none, if the model can make one).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.sentences import Sentences
from saccade.errors import ConfigError
from saccade.fitted import fasttext, glove
from saccade.fitted.baselines import ROUNDS, OneHotConfig, SVDConfig, apart, reduced
from saccade.fitted.fasttext import FastTextConfig
from saccade.fitted.glove import GloVeConfig, Squares, co_occurrences
from saccade.fitted.word2vec import Learner, Reported, Vectors, WindowsConfig, begun, own_rows
from saccade.tasks.task import Fitting

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float32]

MOST_APART = 20_000  # words that one-hot vectors are made for


class WordModel(ABC):
    """Vectors for the words of a vocabulary."""

    def __init__(self, config: Any, words: list[str], seed: int):
        self.config, self.words, self.seed = config, words, seed

    @abstractmethod
    def fit(self, sentences: Sentences, around: Fitting) -> None:
        """Learn from a text."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """What was learned."""

    @abstractmethod
    def load(self, arrays: Arrays) -> None:
        """Take up what was learned."""

    @abstractmethod
    def of_words(self) -> Floats:
        """A row for each word."""

    def unseen(self, word: str) -> Floats | None:
        """A vector for a word that is not in the vocabulary, or None."""
        return None

    def judge(self, sentences: Sentences) -> dict[str, float]:
        """Figures on what was held out, if anything was."""
        return {}


class WindowModel(WordModel):
    """Skip-gram, CBOW, and fastText's, whose words are bags of n-grams too."""

    def __init__(self, config: WindowsConfig, words: list[str], seed: int):
        super().__init__(config, words, seed)
        self.bags, self.grams, size = own_rows(len(words)), None, len(words)
        if isinstance(config, FastTextConfig):
            shape = (config.shortest, config.longest, config.buckets)
            self.bags, self.grams = fasttext.bags(words, *shape)
            size += len(self.grams.used)
        self.size = size
        self.vectors: Vectors | None = None

    def fit(self, sentences: Sentences, around: Fitting) -> None:
        """Block by block; every minute it is saved, so that it can go on from there."""
        self.vectors = begun(self.size, len(self.words), self.config.width, self.seed)
        if around.stood is not None:
            self.load(around.stood)
        learner = self._learner(sentences)
        report = _Reports(sentences, self.config.epochs, around)

        def learn(first: int, stop: Callable[[], bool]) -> int:
            return learner.learn(around.threads, report, stop, first)

        around.in_blocks(learner.total, learn, self.arrays)

    def _learner(self, sentences: Sentences) -> Learner:
        assert self.vectors is not None
        return Learner(sentences, self.config, self.vectors, self.bags, self.seed)

    def arrays(self) -> Arrays:
        """The rows of both sides."""
        assert self.vectors is not None
        return {"inputs": self.vectors.inputs, "outputs": self.vectors.outputs}

    def load(self, arrays: Arrays) -> None:
        """Take up rows."""
        _check(arrays["inputs"], self.size)
        self.vectors = Vectors(arrays["inputs"], arrays["outputs"], self.config.width)

    def of_words(self) -> Floats:
        """Each word's row, or the mean of its bag."""
        assert self.vectors is not None
        rows = self.vectors.of_words
        return rows if self.grams is None else fasttext.means(rows, self.bags)

    def unseen(self, word: str) -> Floats | None:
        """The mean of its n-grams' rows, if some are known."""
        if self.grams is None or self.vectors is None:
            return None
        rows = self.grams.rows(word, len(self.words))
        return self.vectors.of_words[rows].mean(0) if len(rows) else None

    def judge(self, sentences: Sentences) -> dict[str, float]:
        """The loss on lines that were held out, for each word that is to be foretold."""
        return {"loss": self._learner(sentences).judge()}


class _Reports:
    """Turns how far the learner is into what a person watches."""

    def __init__(self, sentences: Sentences, epochs: int, around: Fitting):
        self.words, self.epochs, self.around = sentences.read * epochs, epochs, around
        self.began = time.monotonic()

    def __call__(self, reported: Reported) -> None:
        seconds = max(time.monotonic() - self.began, 1e-9)
        rate = (reported.blocks - self.around.first) / reported.total * self.words / seconds
        epoch = min(reported.blocks * self.epochs // reported.total + 1, self.epochs)
        said = f"epoch {epoch} of {self.epochs}  loss {reported.loss:.4f}  {rate:,.0f} words/s"
        self.around.tell(said, reported.blocks, reported.total)
        self.around.report({"dev_loss": reported.loss, "rate": round(rate, 1)})


class GloVeModel(WordModel):
    """Least squares over co-occurrences."""

    config: GloVeConfig

    def fit(self, sentences: Sentences, around: Fitting) -> None:
        """Count, then epoch after epoch; each is saved."""
        pairs = _counted(sentences, self.config.window, around)
        self.squares = Squares(pairs, len(self.words), self.config, self.seed)
        if around.stood is not None:
            self.squares.sides = glove.Sides(*(around.stood[n] for n in glove.Sides._fields))
        for epoch in range(around.first, self.config.epochs):
            if around.stop():
                return
            tell = _counter(around, f"epoch {epoch + 1} of {self.config.epochs}", 2 * len(pairs[0]))
            loss = self.squares.epoch(epoch, around.threads, tell)
            around.report({"loss": loss})
            if epoch + 1 < self.config.epochs:
                around.save({**self.squares.sides._asdict(), "next": np.array([epoch + 1])})
        self.rows = self.squares.vectors

    def arrays(self) -> Arrays:
        """The sum of both sides."""
        return {"rows": self.rows}

    def load(self, arrays: Arrays) -> None:
        """Take up rows."""
        _check(arrays["rows"], len(self.words))
        self.rows = arrays["rows"]

    def of_words(self) -> Floats:
        """Each word's row."""
        return self.rows


class SVDModel(GloVeModel):
    """A baseline: co-occurrences brought to a low rank."""

    config: SVDConfig  # type: ignore[assignment]

    def fit(self, sentences: Sentences, around: Fitting) -> None:
        """Count, and decompose."""
        pairs = _counted(sentences, self.config.window, around)
        tell = _counter(around, "decomposing", ROUNDS + 1)
        self.rows = reduced(pairs, len(self.words), self.config.width, self.seed, tell)


class OneHotModel(WordModel):
    """A baseline: no word is near another."""

    config: OneHotConfig

    def fit(self, sentences: Sentences, around: Fitting) -> None:
        """There is nothing to learn."""
        if len(self.words) > MOST_APART:
            raise ConfigError(
                f"{len(self.words):,} one-hot vectors would have as many numbers each; at most "
                f"{MOST_APART:,} words were wanted. Leave out rarer ones (--set data.least=50)."
            )

    def arrays(self) -> Arrays:
        """How many there are."""
        return {"words": np.array([len(self.words)])}

    def load(self, arrays: Arrays) -> None:
        """There is nothing to take up."""

    def of_words(self) -> Floats:
        """A one in a place of its own."""
        return apart(len(self.words))


def _check(rows: NDArray[Any], wanted: int) -> None:
    if len(rows) != wanted:
        raise RuntimeError(f"{len(rows):,} rows, where {wanted:,} were wanted")


def _counted(sentences: Sentences, window: int, around: Fitting) -> glove.Pairs:
    tell = _counter(around, "counting which words meet", len(sentences.words))
    return co_occurrences(sentences, window, threads=around.threads, place=around.place, tell=tell)


def _counter(around: Fitting, what: str, total: int) -> Callable[[int], None]:
    done = 0

    def more(count: int) -> None:
        nonlocal done
        done = min(done + count, total)
        around.tell(what, done, total)

    return more


WORD_MODELS: dict[str, Callable[[Any, list[str], int], WordModel]] = {
    "cbow": WindowModel,
    "fasttext": WindowModel,
    "glove": GloVeModel,
    "one_hot": OneHotModel,
    "skipgram": WindowModel,
    "svd": SVDModel,
}
