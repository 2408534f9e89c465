"""Word vector models by name: each is fitted to a text, saved as arrays, and queried by word.

A model has `fit`, `arrays` and `load` (its state), `word_vectors` (one row per word), and
`oov_vector` (a vector for a word that is not in the vocabulary, if the model can build one).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.word_corpus import WordCorpus
from saccade.errors import ConfigError
from saccade.estimators.word_vectors import fasttext, glove
from saccade.estimators.word_vectors.baselines import (
    SVD_POWER_ITERATIONS,
    one_hot_vectors,
    truncated_svd,
)
from saccade.estimators.word_vectors.config import (
    FastTextConfig,
    GloVeConfig,
    OneHotConfig,
    SVDConfig,
    WindowsConfig,
)
from saccade.estimators.word_vectors.glove import GloVeFit, GloVeTrainer, count_cooccurrences
from saccade.estimators.word_vectors.word2vec import (
    Word2VecParams,
    Word2VecProgress,
    Word2VecTrainer,
    identity_bags,
    init_word2vec_params,
)
from saccade.training.estimator import FitContext
from saccade.types.arrays import Float32Array

Arrays = dict[str, NDArray[Any]]

MAX_ONE_HOT_WORDS = 20_000  # words that one-hot vectors are made for


class WordModel(ABC):
    """Vectors for the words of a vocabulary."""

    loss_convention = "nats per predicted word, on held-out lines"

    def __init__(self, config: Any, words: list[str], seed: int):
        self.config, self.words, self.seed = config, words, seed

    @abstractmethod
    def fit(self, sentences: WordCorpus, context: FitContext) -> None:
        """Fit to a text."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the learned values."""

    @abstractmethod
    def load(self, arrays: Arrays) -> None:
        """Restore learned values."""

    @abstractmethod
    def word_vectors(self) -> Float32Array:
        """Return a row for each word."""

    def oov_vector(self, word: str) -> Float32Array | None:
        """Return a vector for a word outside the vocabulary, or None."""
        return None

    def word_parts(self, word: str, row: int | None) -> tuple[list[str], Float32Array] | None:
        """Return the parts of a word whose mean is its vector, with their vectors; None: no parts.

        `row` is that of a word of the vocabulary.
        """
        return None

    def evaluate(self, sentences: WordCorpus) -> dict[str, float]:
        """Return metrics on held-out lines or pairs, if there are any."""
        return {}


class WindowModel(WordModel):
    """Skip-gram, CBOW, and fastText's, whose words are bags of n-grams too."""

    def __init__(self, config: WindowsConfig, words: list[str], seed: int):
        super().__init__(config, words, seed)
        self.bags, self.grams, size = identity_bags(len(words)), None, len(words)
        if isinstance(config, FastTextConfig):
            shape = (config.min_n, config.max_n, config.buckets)
            self.bags, self.grams = fasttext.subword_bags(words, *shape)
            size += len(self.grams.used)
        self.size = size
        self.vectors: Word2VecParams | None = None

    def fit(self, sentences: WordCorpus, context: FitContext) -> None:
        """Fit block by block, with a checkpoint every minute to resume from."""
        self.vectors = init_word2vec_params(
            self.size, len(self.words), self.config.width, self.seed
        )
        if context.resume_state is not None:
            self.load(dict(context.resume_state))
        learner = self._learner(sentences)
        report = _Reports(sentences, self.config.epochs, context)

        def fit_blocks(start_block: int, stop: Callable[[], bool]) -> int:
            return learner.fit_blocks(context.threads, report, stop, start_block)

        context.run_blocks(learner.total, fit_blocks, self.arrays)

    def _learner(self, sentences: WordCorpus) -> Word2VecTrainer:
        assert self.vectors is not None
        return Word2VecTrainer(sentences, self.config, self.vectors, self.bags, self.seed)

    def arrays(self) -> Arrays:
        """Return the input and output vectors."""
        assert self.vectors is not None
        return {"inputs": self.vectors.inputs, "outputs": self.vectors.outputs}

    def load(self, arrays: Arrays) -> None:
        """Restore the vectors."""
        inputs, outputs = arrays["inputs"], arrays["outputs"]
        _check(inputs, self.size, self.config.width)
        _check(outputs, len(self.words), self.config.width)
        if inputs.shape[1] != outputs.shape[1]:
            raise RuntimeError(f"got rows of {inputs.shape[1]} and {outputs.shape[1]} values")
        self.vectors = Word2VecParams(arrays["inputs"], arrays["outputs"], self.config.width)

    def word_vectors(self) -> Float32Array:
        """Return each word's row, or the mean of its bag."""
        assert self.vectors is not None
        rows = self.vectors.word_vectors
        return rows if self.grams is None else fasttext.bag_means(rows, self.bags)

    def oov_vector(self, word: str) -> Float32Array | None:
        """Return the mean of its n-grams' rows, if some are known."""
        if self.grams is None or self.vectors is None:
            return None
        rows = self.grams.rows(word, len(self.words))
        return self.vectors.word_vectors[rows].mean(0) if len(rows) else None

    def word_parts(self, word: str, row: int | None) -> tuple[list[str], Float32Array] | None:
        """Return a word's own row, if it has one, and the rows of its n-grams."""
        if self.grams is None or self.vectors is None:
            return None
        spelt = word if row is None else self.words[row]
        rows = self.grams.all_rows(spelt, len(self.words))
        grams = fasttext.character_ngrams(spelt, self.grams.min_n, self.grams.max_n)
        names = [gram for gram, found in zip(grams, rows.tolist(), strict=True) if found >= 0]
        kept = rows[rows >= 0].tolist()
        if row is not None:
            names, kept = [spelt, *names], [row, *kept]
        return (names, self.vectors.word_vectors[kept]) if kept else None

    def evaluate(self, sentences: WordCorpus) -> dict[str, float]:
        """Return the loss per predicted word on held-out lines."""
        return {"loss": self._learner(sentences).evaluate()}


class _Reports:
    """Forwards progress, loss and speed of the trainer to the callbacks."""

    def __init__(self, sentences: WordCorpus, epochs: int, context: FitContext):
        self.words, self.epochs, self.context = sentences.read * epochs, epochs, context
        self.started = time.monotonic()

    def __call__(self, reported: Word2VecProgress) -> None:
        seconds = max(time.monotonic() - self.started, 1e-9)
        rate = (reported.blocks - self.context.start_block) / reported.total * self.words / seconds
        epoch = min(reported.blocks * self.epochs // reported.total + 1, self.epochs)
        label = f"epoch {epoch} of {self.epochs}  loss {reported.loss:.4f}  {rate:,.0f} words/s"
        self.context.on_progress(label, reported.blocks, reported.total)
        self.context.log_metrics({"dev_loss": reported.loss, "rate": round(rate, 1)})


class RowsModel(WordModel):
    """Vectors that are stored as one row for each word."""

    def arrays(self) -> Arrays:
        """Return the rows."""
        return {"rows": self.rows}

    def load(self, arrays: Arrays) -> None:
        """Restore the rows."""
        _check(arrays["rows"], len(self.words), 1)
        self.rows: Float32Array = arrays["rows"]

    def word_vectors(self) -> Float32Array:
        """Return each word's row."""
        return self.rows


class GloVeModel(RowsModel):
    """GloVe: weighted least squares on the logarithms of co-occurrence counts.

    With held-out pairs the state is word and context vectors, biases and these pairs, from which
    the loss can be computed again; without them, and for imported vectors, the rows alone.
    """

    config: GloVeConfig
    loss_convention = "GloVe's weighted squared error, mean over held-out co-occurring pairs"

    def __init__(self, config: Any, words: list[str], seed: int):
        super().__init__(config, words, seed)
        self.fitted: GloVeFit | None = None

    def fit(self, sentences: WordCorpus, context: FitContext) -> None:
        """Count co-occurrences, then train by epochs with a checkpoint after each."""
        pairs = _counted(sentences, self.config.window, context)
        trainer = GloVeTrainer(pairs, len(self.words), self.config, self.seed)
        if context.resume_state is not None:
            trainer.resume(context.resume_state)
        for epoch in range(context.start_block, self.config.epochs):
            if context.stop():
                return
            on_progress = _counter(
                context, f"epoch {epoch + 1} of {self.config.epochs}", 2 * len(pairs[0])
            )
            with context.repeatable():
                loss = trainer.epoch(epoch, context.threads, on_progress)
                held_out = trainer.held_out_loss()
            context.log_metrics(
                {"loss": loss} | ({} if held_out is None else {"dev_loss": held_out})
            )
            if epoch + 1 < self.config.epochs:
                context.save({**trainer.params._asdict(), "next": np.array([epoch + 1])})
        self.rows = trainer.vectors
        self.fitted = trainer.fitted() if len(trainer.held_out.first) else None

    def arrays(self) -> Arrays:
        """Return what the loss is computed from, or the sum of word and context vectors."""
        return super().arrays() if self.fitted is None else self.fitted._asdict()

    def load(self, arrays: Arrays) -> None:
        """Restore the vectors."""
        self.fitted = None
        if "rows" in arrays:
            super().load(arrays)
            return
        self.fitted = GloVeFit(**{name: arrays[name] for name in GloVeFit._fields})
        self.fitted.check(len(self.words), self.config.width)
        self.rows = self.fitted.vectors.sum(0)

    def evaluate(self, sentences: WordCorpus) -> dict[str, float]:
        """Return the loss on held-out pairs, if the model has any."""
        if self.fitted is None:
            return {}
        return {"loss": self.fitted.loss(self.config.x_max, self.config.power)}


class SVDModel(RowsModel):
    """Baseline: truncated SVD of the co-occurrence matrix."""

    config: SVDConfig

    def fit(self, sentences: WordCorpus, context: FitContext) -> None:
        """Count co-occurrences and decompose them."""
        pairs = _counted(sentences, self.config.window, context)
        on_progress = _counter(context, "decomposing", SVD_POWER_ITERATIONS + 1)
        size, width = len(self.words), self.config.width
        with context.repeatable():
            self.rows = truncated_svd(pairs, size, width, self.seed, on_progress)


class OneHotModel(WordModel):
    """Baseline of one-hot vectors: all words are equally distant."""

    config: OneHotConfig

    def fit(self, sentences: WordCorpus, context: FitContext) -> None:
        """Check the size; one-hot vectors are not learned."""
        if len(self.words) > MAX_ONE_HOT_WORDS:
            raise ConfigError(
                f"got {len(self.words):,} words; expected at most {MAX_ONE_HOT_WORDS:,}, since a "
                "one-hot vector has a value per word; try to leave out rare words (--set "
                "data.min_count=50)."
            )

    def arrays(self) -> Arrays:
        """Return the number of words."""
        return {"words": np.array([len(self.words)])}

    def load(self, arrays: Arrays) -> None:
        """Ignore the values: one-hot vectors are not learned."""

    def word_vectors(self) -> Float32Array:
        """Return one-hot rows."""
        return one_hot_vectors(len(self.words))


def _check(rows: NDArray[Any], expected: int, min_width: int) -> None:
    """Raise a RuntimeError for rows that a compiled kernel must not index."""
    if rows.ndim != 2 or len(rows) != expected or rows.shape[1] < min_width:
        shape = " × ".join(map(str, rows.shape))
        raise RuntimeError(f"got rows of shape {shape}; expected {expected:,} × {min_width:,}")
    if rows.dtype != np.float32:
        raise RuntimeError(f"got rows of {rows.dtype}; expected float32")


def _counted(sentences: WordCorpus, window: int, context: FitContext) -> glove.Cooccurrences:
    on_progress = _counter(context, "counting co-occurrences", len(sentences.words))
    with context.repeatable():
        return count_cooccurrences(
            sentences,
            window,
            threads=context.threads,
            scratch_dir=context.scratch_dir,
            on_progress=on_progress,
        )


def _counter(context: FitContext, what: str, total: int) -> Callable[[int], None]:
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done = min(done + count, total)
        context.on_progress(what, done, total)

    return advance
