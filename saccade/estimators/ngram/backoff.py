r"""Back-off n-gram language models in NumPy: counting, smoothing and scoring, without torch.

P(w₁ … w_T) = Π_t P(w_t | w_{t−n+1} … w_{t−1}). The smoothing methods, which turn counts into
probabilities, are in `saccade.estimators.ngram.smoothing`; this module looks probabilities up, for
one token, for a whole text, or for all tokens after a context.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.ngram.smoothing import (
    MISSING_ID,
    NGRAM_SMOOTHINGS,
    ConcatenatedSequences,
    NgramTable,
    SmoothingParams,
    TokenSequences,
    concatenate_sequences,
    count_ngrams,
    drop_pruned,
)
from saccade.registry import lookup
from saccade.types.arrays import FloatArray, IntArray


class OrderEvidence(NamedTuple):
    """The counts of one order from which a probability was computed."""

    order: int  # tokens of the n-gram
    seen: int  # a(hw): count of the n-gram
    total: int  # Σ_v a(hv): count of its context
    distinct: int  # different tokens after the context
    probability: float  # P(w | h) of this order, smoothed


FittedNgram = TypeVar("FittedNgram", bound="BackoffModel")


class BackoffModel:
    """P(token | the `order` − 1 tokens before it), by counting and smoothing.

    At the start of a text the context is shorter. `bos_id`, if given, is put before each sequence
    and never predicted; `alpha` is the pseudo-count of "laplace" smoothing; n-grams of
    `min_count_order` tokens or more that occur fewer than `min_count` times are left out.
    """

    def __init__(
        self,
        order: int,
        vocab_size: int,
        smoothing: str = "kneser-ney",
        *,
        alpha: float = 1.0,
        bos_id: int | None = None,
        min_count: int = 1,
        min_count_order: int = 2,
    ):
        lookup(NGRAM_SMOOTHINGS, smoothing, "smoothing")
        if order < 1 or alpha <= 0 or vocab_size < 1 + (bos_id is not None):
            raise ValueError(
                f"got order {order}, alpha {alpha} and vocab_size {vocab_size}; expected an order "
                "of 1 or more, an alpha over 0 and at least one token to predict."
            )
        if min_count < 1 or min_count_order < 2:
            raise ValueError(
                f"got min_count {min_count} and min_count_order {min_count_order}; expected a "
                "count of 1 or more, and an order of 2 or more: single tokens are always kept."
            )
        if bos_id is not None and not 0 <= bos_id < vocab_size:
            raise ValueError(f"got bos_id {bos_id}; expected 0 to {vocab_size - 1}.")
        self.order, self.vocab_size, self.smoothing = order, vocab_size, smoothing
        self.alpha, self.bos_id = alpha, bos_id
        self.min_count, self.min_count_order = min_count, min_count_order
        self.levels: list[NgramTable] = []
        self._uniform = np.full(vocab_size, 1 / (vocab_size - (bos_id is not None)))
        if bos_id is not None:
            self._uniform[bos_id] = 0.0

    def fit(self: FittedNgram, ids: TokenSequences) -> FittedNgram:
        """Fit to one long text or a list of sequences, replacing any earlier fit."""
        sequences = concatenate_sequences(ids, self.vocab_size, self.bos_id)
        counts = count_ngrams(
            sequences, self.order, self.vocab_size, self.min_count, self.min_count_order
        )
        if self.bos_id is not None and len(counts[0].keys):
            counts[0].counts[counts[0].keys == self.bos_id] = 0  # never predicted
        if not counts[0].counts.sum():
            raise ValueError("got a text without tokens; expected one token or more.")
        outcomes = self.vocab_size - (self.bos_id is not None)
        params = SmoothingParams(self.vocab_size, outcomes, self.alpha, self.bos_id)
        tables = NGRAM_SMOOTHINGS[self.smoothing](counts, params)
        self.levels = drop_pruned(tables, counts, self.vocab_size)
        return self

    def log_probability(self, context: Sequence[int], token: int) -> float:
        """Return log P(token | context); only the last `order` − 1 tokens of the context matter."""
        ids = np.array([*context, token], np.int64)
        self._check_context(ids)
        with np.errstate(divide="ignore"):
            return float(
                np.log(self._probabilities(concatenate_sequences(ids, self.vocab_size, None))[-1])
            )

    def log_probabilities(self, ids: TokenSequences) -> FloatArray:
        """Return the log-probability of every token in its context, sequences concatenated.

        `bos_id` is put before each sequence, as in `fit`, and has no log-probability itself.
        """
        sequences = concatenate_sequences(ids, self.vocab_size, self.bos_id)
        with np.errstate(divide="ignore"):
            log_probabilities = np.log(self._probabilities(sequences))
        if self.bos_id is None:
            return log_probabilities
        return log_probabilities[sequences.tokens != self.bos_id]

    def distribution(self, context: Sequence[int]) -> FloatArray:
        """Return the distribution (V,) of the next token after a context."""
        return self.distributions(np.array(context, np.int64).reshape(1, -1))[0]

    def distributions(self, contexts: IntArray) -> FloatArray:
        """Return the distribution of the next token after each context, (rows, V).

        Contexts are left-padded with −1 where they are shorter.
        """
        self._check_context(contexts)
        contexts = contexts[:, max(contexts.shape[1] - self.order + 1, 0) :]
        rows, width = contexts.shape
        found = np.tile(self._uniform, (rows, 1))
        for length, level in enumerate(self._fitted()[: width + 1]):
            window = contexts[:, width - length :]
            complete = np.flatnonzero((window >= 0).all(axis=1))
            nodes = self._nodes(window[complete])
            lower = self._uniform if self.smoothing == "laplace" else found[complete]
            found[complete] = _backoff_weights(level, nodes)[:, None] * lower
            seen = complete[nodes >= 0]
            lows, highs = (
                np.searchsorted(level.keys, (nodes[nodes >= 0] + offset) * self.vocab_size)
                for offset in (0, 1)
            )
            positions = _ranges(lows, highs)
            tokens = level.keys[positions] % self.vocab_size
            found[np.repeat(seen, highs - lows), tokens] = level.probabilities[positions]
        return found

    def explain(self, context: Sequence[int], token: int) -> list[OrderEvidence]:
        """Return the counts behind P(token | context), from unigrams to the longest context.

        Counts are those of the smoothing: Kneser–Ney replaces them by the number of distinct
        tokens before an n-gram, for all but the longest n-grams. n-grams that were left out for
        `min_count` are not counted.
        """
        self._check_context(np.array([*context, token], np.int64))
        recent = list(context)[max(len(context) - self.order + 1, 0) :]
        found = []
        for length, level in enumerate(self._fitted()[: len(recent) + 1]):
            if level.counts is None:
                raise ValueError(
                    "got a model that was saved without counts; fit it again to explain it."
                )
            window = recent[len(recent) - length :]
            [node] = self._nodes(np.array([window], np.int64)).tolist()
            low, high = (
                np.searchsorted(level.keys, (node + offset) * self.vocab_size) if node >= 0 else 0
                for offset in (0, 1)
            )
            counts = level.counts[low:high]
            own = counts[level.keys[low:high] % self.vocab_size == token]
            found.append(
                OrderEvidence(
                    length + 1,
                    int(own.sum()),
                    int(counts.sum(dtype=np.int64)),
                    int((counts > 0).sum()),
                    float(self.distribution(window)[token]),
                )
            )
        return found

    def _fitted(self) -> list[NgramTable]:
        if not self.levels:
            raise ValueError("this n-gram model is not fitted; call fit(ids) first.")
        return self.levels

    def _check_context(self, ids: IntArray) -> None:
        if ids.size and not MISSING_ID <= ids.min() <= ids.max() < self.vocab_size:
            wrong = ids[(ids < MISSING_ID) | (ids >= self.vocab_size)][0]
            raise ValueError(f"got the id {wrong}; expected 0 to {self.vocab_size - 1}.")

    def _nodes(self, ngrams: IntArray) -> IntArray:
        """Return the number of each n-gram (one per row), or −1 if it was not seen."""
        nodes = np.zeros(len(ngrams), np.int64)
        for level, tokens in zip(self.levels, ngrams.T, strict=False):
            nodes = self._extend(level, nodes, tokens)
        return nodes

    def _extend(self, level: NgramTable, nodes: IntArray, tokens: IntArray) -> IntArray:
        """Return the number of each n-gram extended by one token, or −1 if it was not seen."""
        keys = nodes * self.vocab_size + tokens
        positions = np.searchsorted(level.keys, keys)
        positions[positions == len(level.keys)] = 0
        if not len(level.keys):
            return np.full(len(nodes), MISSING_ID)
        return np.where((nodes >= 0) & (level.keys[positions] == keys), positions, MISSING_ID)

    def _probabilities(self, sequences: ConcatenatedSequences) -> FloatArray:
        """Return the probability of the token at each position in its context."""
        tokens = sequences.tokens
        found = self._uniform[tokens]
        nodes = np.zeros(len(tokens), np.int64)  # the n-gram that starts at each position
        for length, level in enumerate(self._fitted(), start=1):
            starts = np.flatnonzero(sequences.remaining >= length)
            last = starts + length - 1
            longer = self._extend(level, nodes[starts], tokens[last])
            lower = (self._uniform[tokens] if self.smoothing == "laplace" else found)[last]
            values = _backoff_weights(level, nodes[starts]) * lower
            seen = longer >= 0
            values[seen] = level.probabilities[longer[seen]]
            found[last] = values
            nodes = np.full(len(tokens), MISSING_ID)
            nodes[starts] = longer
        return found

    # --- saving -----------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted model as named arrays, for `from_arrays`."""
        smoothing = list(NGRAM_SMOOTHINGS).index(self.smoothing)
        bos_id = MISSING_ID if self.bos_id is None else self.bos_id
        about = {
            "about": np.array([self.order, self.vocab_size, smoothing, bos_id]),
            "cutoff": np.array([self.min_count, self.min_count_order]),
            "constant": np.array([self.alpha]),
        }
        return about | {
            f"{name}.{length}": array
            for length, level in enumerate(self._fitted(), start=1)
            for name, array in level._asdict().items()
            if array is not None
        }

    @classmethod
    def from_arrays(cls: type[FittedNgram], arrays: Mapping[str, NDArray[Any]]) -> FittedNgram:
        """Restore a model from the arrays of `to_arrays`."""
        try:
            order, vocab_size, smoothing, bos_id = arrays["about"].tolist()
            # models of versions before 0.8 have no cutoff
            min_count, min_count_order = arrays.get("cutoff", np.array([1, 2])).tolist()
            model = cls(
                order,
                vocab_size,
                list(NGRAM_SMOOTHINGS)[smoothing],
                alpha=float(arrays["constant"][0]),
                bos_id=None if bos_id == MISSING_ID else bos_id,
                min_count=min_count,
                min_count_order=min_count_order,
            )
            stored = [name for name in NgramTable._fields if name != "counts"]
            model.levels = [
                NgramTable(
                    **{name: arrays[f"{name}.{length}"] for name in stored},
                    counts=arrays.get(f"counts.{length}"),
                )
                for length in range(1, order + 1)
            ]
        except (KeyError, IndexError) as error:
            raise ValueError(
                f"got an incomplete n-gram model ({error} is missing); expected all arrays of "
                "to_arrays()."
            ) from None
        return model


def _backoff_weights(level: NgramTable, nodes: IntArray) -> FloatArray:
    """Return β of each context; 1 for one that was not seen."""
    weights = np.ones(len(nodes))
    weights[nodes >= 0] = level.backoffs[nodes[nodes >= 0]]
    return weights


def _ranges(lows: IntArray, highs: IntArray) -> IntArray:
    """Concatenate the ranges low, low + 1, …, high − 1 of all pairs."""
    lengths = highs - lows
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(lows - offsets, lengths) + np.arange(int(lengths.sum()))
