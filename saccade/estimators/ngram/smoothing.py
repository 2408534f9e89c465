r"""n-gram counts, and smoothing methods that turn them into probabilities.

Every method produces the same back-off form (Katz 1987): an n-gram that was seen has its own
probability, and a context has a weight for tokens that were not seen after it,

    P(w | h) = P*(w | h)          if hw was seen
             = β(h) P(w | h')     otherwise, h' being h without its first token,

with β(h) = 1 where h itself was not seen, and 1/V below the unigrams. So one lookup serves all.
n-grams are stored as a trie in sorted arrays: the number of an n-gram is the position of its key,
which is (number of the n-gram without its last token) · V + (last token).

n-grams of `min_count_order` tokens or more that were seen fewer than `min_count` times can be left
out, as with SRILM's `-gtNmin` and KenLM's `--prune`. Discounts are estimated from all n-grams; the
probability of those left out goes to the back-off weight of their context (back-off, kneser-ney),
or they count as not seen (none, laplace), so that the probabilities after a context still sum to 1.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.types.arrays import BoolArray, FloatArray, IntArray

TokenSequences = NDArray[Any] | Sequence[NDArray[Any]]

MISSING_ID = -1  # in a context: before the first token; as an n-gram's number: not seen


# --- counting -----------------------------------------------------------------------------------


class ConcatenatedSequences(NamedTuple):
    """Concatenated sequences, each with `bos_id` before it if there is one."""

    tokens: IntArray
    remaining: IntArray  # tokens from each position to the end of its sequence
    sequence_starts: IntArray  # the position of each sequence's first token


class NgramCounts(NamedTuple):
    """The distinct n-grams of one length."""

    keys: IntArray  # sorted
    counts: IntArray
    suffixes: IntArray  # the number of each n-gram without its first token
    starts: IntArray  # how often each occurs at the start of a sequence
    kept: BoolArray  # False: left out of the model, as all n-grams that contain it

    @property
    def kept_counts(self) -> IntArray:
        """The counts, 0 for n-grams that are left out."""
        return np.where(self.kept, self.counts, 0)


def concatenate_sequences(
    sequences: TokenSequences, vocab_size: int, bos_id: int | None
) -> ConcatenatedSequences:
    """Check and concatenate sequences; one array is one sequence. n-grams stay within sequences."""
    several = [sequences] if isinstance(sequences, np.ndarray) else list(sequences)
    bos = np.array([] if bos_id is None else [bos_id], np.int64)
    parts = [np.concatenate([bos, _check_ids(ids, vocab_size, bos_id)]) for ids in several]
    lengths = np.array([len(part) for part in parts], np.int64)
    ends = np.cumsum(lengths)
    tokens = np.concatenate([np.empty(0, np.int64), *parts])
    remaining = np.repeat(ends, lengths) - np.arange(len(tokens))
    return ConcatenatedSequences(tokens, remaining, (ends - lengths)[lengths > 0])


def _check_ids(ids: NDArray[Any], vocab_size: int, bos_id: int | None) -> IntArray:
    ids = np.asarray(ids)
    if ids.ndim != 1 or not (np.issubdtype(ids.dtype, np.integer) or not ids.size):
        raise ValueError(
            f"got ids of shape {ids.shape} and dtype {ids.dtype}; expected a one-dimensional array "
            "of integers, or a list of them."
        )
    ids = ids.astype(np.int64)
    if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
        wrong = ids[(ids < 0) | (ids >= vocab_size)][0]
        raise ValueError(f"got the id {wrong}; expected 0 to {vocab_size - 1} (vocab_size − 1).")
    if bos_id is not None and (ids == bos_id).any():
        raise ValueError(
            f"got bos_id {bos_id} inside a sequence; expected sequences without it: it is put "
            "before each sequence here, and never predicted."
        )
    return ids


def count_ngrams(
    sequences: ConcatenatedSequences,
    order: int,
    vocab_size: int,
    min_count: int = 1,
    min_count_order: int = 2,
) -> list[NgramCounts]:
    """Count the n-grams of 1 to `order` tokens.

    Those shorter than `min_count_order` are kept however rare they are.
    """
    levels = []
    nodes = np.zeros(len(sequences.tokens), np.int64)  # the n-gram that starts at each position
    for length in range(1, order + 1):
        positions = np.flatnonzero(sequences.remaining >= length)
        keys = nodes[positions] * vocab_size + sequences.tokens[positions + length - 1]
        unique, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        suffixes = np.zeros(len(unique), np.int64)
        if length > 1:
            suffixes[inverse] = nodes[positions + 1]
        nodes = np.full(len(sequences.tokens), MISSING_ID)
        nodes[positions] = inverse
        first = nodes[sequences.sequence_starts]
        starts = np.bincount(first[first >= 0], minlength=len(unique))
        levels.append(
            NgramCounts(
                unique,
                counts.astype(np.int64),
                suffixes,
                starts.astype(np.int64),
                (counts >= min_count) | (length < min_count_order),
            )
        )
    return levels


# --- smoothing ----------------------------------------------------------------------------------


class NgramTable(NamedTuple):
    """Smoothed n-grams of one length, and the back-off weight β of each of their contexts."""

    keys: IntArray
    probabilities: FloatArray
    backoffs: FloatArray  # one for each n-gram that is one token shorter
    discounts: FloatArray  # subtracted from counts of 1, 2, and 3 or more
    # what the probabilities were computed from; None: a model that was saved without them
    counts: NDArray[np.int32] | None = None


class SmoothingParams(NamedTuple):
    """Parameters of the smoothing methods."""

    vocab_size: int
    num_outcomes: int  # tokens that can be predicted: all but bos_id
    alpha: float
    bos_id: int | None


def _contexts(
    level: NgramCounts, counts: IntArray, size: int, vocab_size: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the context of each n-gram; and of each context, total count and distinct tokens."""
    parents = level.keys // vocab_size
    totals = _sums(parents, counts, size)
    num_types = _sums(parents, counts > 0, size)
    return parents, totals, num_types


def _sums(parents: IntArray, values: NDArray[Any], size: int) -> FloatArray:
    """Sum values over the n-grams of each of `size` contexts."""
    # without any n-gram, bincount returns integers
    return np.bincount(parents, weights=values, minlength=size).astype(np.float64)


def _kept(counts: IntArray) -> NDArray[np.int32]:
    """Return counts in half the space, for a saved model."""
    return np.minimum(counts, np.iinfo(np.int32).max).astype(np.int32)


def _ratio(part: FloatArray, totals: FloatArray, default: float) -> FloatArray:
    """Return part / totals, and `default` where the total is 0."""
    return np.divide(part, totals, out=np.full(len(totals), default), where=totals > 0)


def relative_frequency(levels: list[NgramCounts], params: SmoothingParams) -> list[NgramTable]:
    r"""Maximum likelihood, P(w | h) = c(hw) / c(h); an unseen context backs off to its longest
    seen suffix.

    The back-off is ours, so that there is a distribution after every context.
    """
    tables, size = [], 1
    for level in levels:
        counts = level.kept_counts
        parents, totals, _ = _contexts(level, counts, size, params.vocab_size)
        scales = _ratio(np.ones(size), totals, 0.0)[parents]
        backoffs = (totals == 0).astype(np.float64)
        tables.append(NgramTable(level.keys, counts * scales, backoffs, np.zeros(3), _kept(counts)))
        size = len(level.keys)
    return tables


def additive_smoothing(levels: list[NgramCounts], params: SmoothingParams) -> list[NgramTable]:
    r"""P(w | h) = (c(hw) + α) / (c(h) + α V): Laplace smoothing for α = 1, else Lidstone's.

    There is no back-off: after an unseen context the distribution is uniform.
    """
    tables, size = [], 1
    for level in levels:
        counts = level.kept_counts
        parents, totals, _ = _contexts(level, counts, size, params.vocab_size)
        denominators = totals + params.alpha * params.num_outcomes
        probabilities = (counts + params.alpha) / denominators[parents]
        probabilities[level.counts == 0] = 0.0  # bos_id itself
        backoffs = params.alpha * params.num_outcomes / denominators
        tables.append(NgramTable(level.keys, probabilities, backoffs, np.zeros(3), _kept(counts)))
        size = len(level.keys)
    return tables


def katz_back_off(levels: list[NgramCounts], params: SmoothingParams) -> list[NgramTable]:
    r"""Katz back-off with absolute discounting.

    P(w | h) = (c(hw) − D) / c(h) if hw was seen, else β(h) P(w | h') (Katz 1987), with
    D = n₁ / (n₁ + 2 n₂) for each n-gram length, n_r being the number of n-grams that occur r times
    (Ney, Essen & Kneser 1994). Katz discounted by Good–Turing counts; those are undefined where
    some n_r is 0, and may exceed the count itself, so the discount is absolute here.

    The mass left for tokens not seen after h is D N(h) / c(h), N(h) being the number of distinct
    tokens that were seen. Under h' these unseen tokens have the mass
    (c(h') − S(h) + D' N(h)) / c(h'), S(h) being the counts after h' of the tokens seen after h; it
    is computed from integers, so that no precision is lost where almost everything was seen. β is
    the ratio of the two. Where all V tokens were seen after a context, no mass is needed and
    nothing is discounted. n-grams that are left out count as not seen, and their counts as mass
    that is left.
    """
    tables: list[NgramTable] = []
    shorter: list[_ContextDiscounts] = []
    size = 1
    for index, level in enumerate(levels):
        counts = level.kept_counts
        parents, totals, _ = _contexts(level, level.counts, size, params.vocab_size)
        _, kept_totals, num_types = _contexts(level, counts, size, params.vocab_size)
        if index == 0:
            unseen_mass = np.array([1 - num_types[0] / params.num_outcomes])
        else:
            unseen_mass = _unseen_mass(levels[index - 1], level, shorter[-1], parents, num_types)
        discount = absolute_discount(level.counts)
        discounts = np.where(unseen_mass > 0, discount, 0.0)
        left_over = _ratio(discounts * num_types + totals - kept_totals, totals, 1.0)
        backoffs = np.divide(left_over, unseen_mass, out=np.zeros(size), where=unseen_mass > 0)
        scales = _ratio(np.ones(size), totals, 0.0)[parents]
        discounted = np.where(counts > 0, counts - discounts[parents], 0.0)
        probabilities = discounted * scales
        tables.append(
            NgramTable(level.keys, probabilities, backoffs, np.full(3, discount), _kept(counts))
        )
        shorter.append(_ContextDiscounts(totals, discounts))
        size = len(level.keys)
    return tables


class _ContextDiscounts(NamedTuple):
    """Total count of each context, and the discount of each n-gram that extends it."""

    totals: FloatArray
    discounts: FloatArray


def _unseen_mass(
    shorter: NgramCounts,
    level: NgramCounts,
    contexts: _ContextDiscounts,
    parents: IntArray,
    num_types: FloatArray,
) -> FloatArray:
    """Return the probability, after h', of the tokens that were not seen after h."""
    seen_counts = _sums(parents, level.kept * shorter.counts[level.suffixes], len(num_types))
    totals = contexts.totals[shorter.suffixes]
    discounts = contexts.discounts[shorter.suffixes]
    return _ratio(totals - seen_counts + discounts * num_types, totals, 1.0)


def absolute_discount(counts: IntArray) -> float:
    r"""Return D = n₁ / (n₁ + 2 n₂), or ½ where n₁ or n₂ is 0."""
    once, twice = (int((counts == times).sum()) for times in (1, 2))
    return once / (once + 2 * twice) if once and twice else 0.5


def modified_kneser_ney(levels: list[NgramCounts], params: SmoothingParams) -> list[NgramTable]:
    r"""Interpolated modified Kneser–Ney smoothing (Chen & Goodman 1999, section 3).

    P(w | h) = (a(hw) − D(a(hw))) / Σ_v a(hv) + γ(h) P(w | h'),
    γ(h) = (D₁ N₁(h) + D₂ N₂(h) + D₃₊ N₃₊(h)) / Σ_v a(hv),

    down to 1/V below the unigrams. For the longest n-grams a is the count; for shorter ones it is
    the continuation count, the number of distinct tokens seen before the n-gram (Kneser & Ney
    1995). An n-gram that starts with `bos_id` has no token before it and keeps its count. Without
    `bos_id`, the start of a sequence counts as one more distinct predecessor. The three discounts
    of each length are estimated from the counts of counts, so there is nothing to tune. An n-gram
    that is left out is discounted by its whole a(hw), as in KenLM.
    """
    tables: list[NgramTable] = []
    size, probabilities = 1, np.array([1 / params.num_outcomes])
    for length, level in enumerate(levels, start=1):
        counts = level.counts
        if length < len(levels):
            starts = level.starts if params.bos_id is not None else np.minimum(level.starts, 1)
            longer = levels[length].suffixes
            counts = np.bincount(longer, minlength=len(counts)) + starts
            counts = np.where(level.counts > 0, counts, 0)  # bos_id itself
        parents, totals, _ = _contexts(level, counts, size, params.vocab_size)
        discounts = kneser_ney_discounts(counts)
        subtracted = np.array([0.0, *discounts])[np.minimum(counts, 3)]
        subtracted = np.where(level.kept, subtracted, counts)
        gammas = _ratio(_sums(parents, subtracted, size), totals, 1.0)
        scales = _ratio(np.ones(size), totals, 0.0)[parents]
        lower_order = gammas[parents] * probabilities[level.suffixes]
        probabilities = (counts - subtracted) * scales + lower_order
        probabilities[level.counts == 0] = 0.0
        tables.append(NgramTable(level.keys, probabilities, gammas, discounts, _kept(counts)))
        size = len(level.keys)
    return tables


def kneser_ney_discounts(counts: IntArray) -> FloatArray:
    r"""Return D_r = r − (r + 1) Y n_{r+1} / n_r for r = 1, 2, 3, with Y = n₁ / (n₁ + 2 n₂).

    Chen & Goodman 1999, eq. 26. On a text so small that some n_r is 0 or a discount would not
    lie between 0 and r: ½, 1 and 1½.
    """
    n = [float((counts == times).sum()) for times in range(5)]
    if all(n[1:]):
        y = n[1] / (n[1] + 2 * n[2])
        discounts = np.array([r - (r + 1) * y * n[r + 1] / n[r] for r in (1, 2, 3)])
        if (discounts > 0).all() and (discounts < [1, 2, 3]).all():
            return discounts
    return np.array([0.5, 1.0, 1.5])


def drop_pruned(
    tables: list[NgramTable], levels: list[NgramCounts], vocab_size: int
) -> list[NgramTable]:
    """Return the tables without the n-grams that are left out, numbered anew.

    If an n-gram is kept, so are those that it contains: they are at least as frequent.
    """
    numbers, contexts = np.zeros(1, np.int64), np.ones(1, np.bool_)
    found = []
    for table, level in zip(tables, levels, strict=True):
        keys, kept = table.keys, level.kept
        found.append(
            NgramTable(
                numbers[keys[kept] // vocab_size] * vocab_size + keys[kept] % vocab_size,
                table.probabilities[kept],
                table.backoffs[contexts],
                table.discounts,
                None if table.counts is None else table.counts[kept],
            )
        )
        numbers, contexts = np.cumsum(kept) - 1, kept
    return found


NGRAM_SMOOTHINGS = {
    "none": relative_frequency,
    "laplace": additive_smoothing,
    "back-off": katz_back_off,
    "kneser-ney": modified_kneser_ney,
}
