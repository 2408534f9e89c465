r"""Grams counted, and the smoothings that turn counts into probabilities.

Every smoothing ends in the same form, that of Katz 1987: a gram that was seen has its
probability, and a context keeps a weight for what was not seen after it,

    P(w | h) = P*(w | h)          if hw was seen
             = β(h) P(w | h')     otherwise, h' being h without its first token,

with β(h) = 1 where h itself was not seen, and 1/V below the single tokens. So one lookup serves
all. Grams are held as a tree in sorted arrays: a gram's number is the place of its key, which
is (number of the gram without its last token) · V + (last token).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
TokenSequences = NDArray[Any] | Sequence[NDArray[Any]]

MISSING_ID = -1  # in a context: before the first token; as a gram's number: not seen


# --- counting -----------------------------------------------------------------------------------


class ConcatenatedSequences(NamedTuple):
    """Sequences laid end to end, each opened by the begin mark where there is one."""

    tokens: IntArray
    room: IntArray  # tokens from each place to the end of its sequence
    sequence_starts: IntArray  # where each sequence starts


class NgramCounts(NamedTuple):
    """The different grams of one length."""

    keys: IntArray  # sorted
    counts: IntArray
    suffixes: IntArray  # the number of each gram without its first token
    starts: IntArray  # how often each stands at the start of a sequence


def concatenate_sequences(
    sequences: TokenSequences, vocab_size: int, bos_id: int | None
) -> ConcatenatedSequences:
    """One array is one sequence; no gram reaches from one sequence into another."""
    several = [sequences] if isinstance(sequences, np.ndarray) else list(sequences)
    mark = np.array([] if bos_id is None else [bos_id], np.int64)
    parts = [np.concatenate([mark, _checked(ids, vocab_size, bos_id)]) for ids in several]
    lengths = np.array([len(part) for part in parts], np.int64)
    ends = np.cumsum(lengths)
    tokens = np.concatenate([np.empty(0, np.int64), *parts])
    room = np.repeat(ends, lengths) - np.arange(len(tokens))
    return ConcatenatedSequences(tokens, room, (ends - lengths)[lengths > 0])


def _checked(ids: NDArray[Any], vocab_size: int, bos_id: int | None) -> IntArray:
    ids = np.asarray(ids)
    if ids.ndim != 1 or not (np.issubdtype(ids.dtype, np.integer) or not ids.size):
        raise ValueError(
            f"got ids of shape {ids.shape} and kind {ids.dtype}; wanted one row of whole numbers, "
            "or a list of such rows."
        )
    ids = ids.astype(np.int64)
    if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
        wrong = ids[(ids < 0) | (ids >= vocab_size)][0]
        raise ValueError(f"got the id {wrong}; wanted 0 to {vocab_size - 1} (vocab_size − 1).")
    if bos_id is not None and (ids == bos_id).any():
        raise ValueError(
            f"the begin mark {bos_id} stands inside a sequence; leave it out: it is put before "
            "each sequence here, and never predicted."
        )
    return ids


def count_ngrams(laid: ConcatenatedSequences, order: int, vocab_size: int) -> list[NgramCounts]:
    """The grams of 1 to `order` tokens."""
    levels = []
    nodes = np.zeros(len(laid.tokens), np.int64)  # the gram that starts at each place
    for length in range(1, order + 1):
        whole = np.flatnonzero(laid.room >= length)
        keys = nodes[whole] * vocab_size + laid.tokens[whole + length - 1]
        unique, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        suffixes = np.zeros(len(unique), np.int64)
        if length > 1:
            suffixes[inverse] = nodes[whole + 1]
        nodes = np.full(len(laid.tokens), MISSING_ID)
        nodes[whole] = inverse
        first = nodes[laid.sequence_starts]
        starts = np.bincount(first[first >= 0], minlength=len(unique))
        levels.append(
            NgramCounts(unique, counts.astype(np.int64), suffixes, starts.astype(np.int64))
        )
    return levels


# --- smoothing ----------------------------------------------------------------------------------


class NgramTable(NamedTuple):
    """The grams of one length, and the weight β of each of the contexts before them."""

    keys: IntArray
    probabilities: FloatArray
    backoffs: FloatArray  # one for each gram that is one token shorter
    discounts: FloatArray  # what was taken off a count of 1, of 2, of 3 and more


class SmoothingParams(NamedTuple):
    """What the smoothings are told beside the counts."""

    vocab_size: int
    num_outcomes: int  # tokens that can be predicted: all but the begin mark
    alpha: float
    bos_id: int | None


def _contexts(level: NgramCounts, counts: IntArray, size: int, vocab_size: int) -> tuple[Any, ...]:
    """The parent of each gram; and of each of `size` contexts, its count and its followers."""
    parents = level.keys // vocab_size
    totals = _sums(parents, counts, size)
    kinds = _sums(parents, counts > 0, size)
    return parents, totals, kinds


def _sums(parents: IntArray, parts: NDArray[Any], size: int) -> FloatArray:
    """What the grams after each of `size` contexts come to together."""
    # with no gram at all, numpy counts in whole numbers
    return np.bincount(parents, weights=parts, minlength=size).astype(np.float64)


def _share(part: FloatArray, totals: FloatArray, otherwise: float) -> FloatArray:
    """part / totals, and `otherwise` for a context that nothing follows."""
    return np.divide(part, totals, out=np.full(len(totals), otherwise), where=totals > 0)


def relative_frequency(levels: list[NgramCounts], setting: SmoothingParams) -> list[NgramTable]:
    r"""P(w | h) = c(hw) / c(h); after a context that was not seen, that of its longest seen end.

    The last is ours, so that there is a distribution after every context.
    """
    made, size = [], 1
    for level in levels:
        parents, totals, _ = _contexts(level, level.counts, size, setting.vocab_size)
        shares = _share(np.ones(size), totals, 0.0)[parents]
        backoffs = (totals == 0).astype(np.float64)
        made.append(NgramTable(level.keys, level.counts * shares, backoffs, np.zeros(3)))
        size = len(level.keys)
    return made


def additive_smoothing(levels: list[NgramCounts], setting: SmoothingParams) -> list[NgramTable]:
    r"""P(w | h) = (c(hw) + α) / (c(h) + α V): Laplace's rule for α = 1, Lidstone's for others.

    As written: after a context that was not seen, every token is as likely as any other.
    """
    made, size = [], 1
    for level in levels:
        parents, totals, _ = _contexts(level, level.counts, size, setting.vocab_size)
        room = totals + setting.alpha * setting.num_outcomes
        probabilities = (level.counts + setting.alpha) / room[parents]
        probabilities[level.counts == 0] = 0.0  # the begin mark's
        backoffs = setting.alpha * setting.num_outcomes / room
        made.append(NgramTable(level.keys, probabilities, backoffs, np.zeros(3)))
        size = len(level.keys)
    return made


def katz_back_off(levels: list[NgramCounts], setting: SmoothingParams) -> list[NgramTable]:
    r"""Katz's back-off with absolute discounting.

    P(w | h) = (c(hw) − D) / c(h) if hw was seen, else β(h) P(w | h') (Katz 1987), with
    D = n₁ / (n₁ + 2 n₂) for each length of gram, n_r being how many grams occur r times (Ney,
    Essen & Kneser 1994). Katz took D from Good–Turing counts; those are not to be had where some
    n_r is 0, and may rise above the count itself, so the discount is absolute here.

    What is left to the tokens not seen after h is D N(h) / c(h), N(h) being how many were, and
    under h' these tokens hold (c(h') − S(h) + D' N(h)) / c(h'), S(h) being the counts after h' of
    the tokens seen after h: all of it is known from whole numbers, so that nothing is lost where
    almost everything was seen. β is the one over the other. Where all V tokens were seen after a
    context there is nobody to save for, and nothing is taken off.
    """
    made: list[NgramTable] = []
    shorter: list[_Cut] = []
    size = 1
    for index, level in enumerate(levels):
        parents, totals, kinds = _contexts(level, level.counts, size, setting.vocab_size)
        if index == 0:
            held = np.array([1 - kinds[0] / setting.num_outcomes])
        else:
            held = _held(levels[index - 1], level, shorter[-1], parents, kinds)
        discount = absolute_discount(level.counts)
        cuts = np.where(held > 0, discount, 0.0)  # with nobody to save for, counts stay whole
        left = _share(cuts * kinds, totals, 1.0)
        backoffs = np.divide(left, held, out=np.zeros(size), where=held > 0)
        shares = _share(np.ones(size), totals, 0.0)[parents]
        probabilities = np.where(level.counts > 0, level.counts - cuts[parents], 0.0) * shares
        made.append(NgramTable(level.keys, probabilities, backoffs, np.full(3, discount)))
        shorter.append(_Cut(totals, cuts))
        size = len(level.keys)
    return made


class _Cut(NamedTuple):
    """Of each context: how often it was followed, and what was taken off each follower."""

    totals: FloatArray
    discounts: FloatArray


def _held(
    before: NgramCounts, level: NgramCounts, cut: _Cut, parents: IntArray, kinds: FloatArray
) -> FloatArray:
    """What the tokens that were not seen after a context h hold after h'."""
    after = _sums(parents, before.counts[level.suffixes], len(kinds))
    totals, discounts = cut.totals[before.suffixes], cut.discounts[before.suffixes]
    return _share(totals - after + discounts * kinds, totals, 1.0)


def absolute_discount(counts: IntArray) -> float:
    r"""D = n₁ / (n₁ + 2 n₂); ½ where the text is too small to tell (n₁ or n₂ is 0)."""
    once, twice = (int((counts == times).sum()) for times in (1, 2))
    return once / (once + 2 * twice) if once and twice else 0.5


def modified_kneser_ney(levels: list[NgramCounts], setting: SmoothingParams) -> list[NgramTable]:
    r"""Modified Kneser–Ney, interpolated (Chen & Goodman 1999, section 3).

    P(w | h) = (a(hw) − D(a(hw))) / Σ_v a(hv) + γ(h) P(w | h'),
    γ(h) = (D₁ N₁(h) + D₂ N₂(h) + D₃₊ N₃₊(h)) / Σ_v a(hv),

    down to 1/V below the single tokens. a is the count for the longest grams and the number of
    different tokens seen before it for shorter ones (Kneser & Ney 1995). A gram that opens with
    the begin mark has nothing before it: its count stands. Without a mark, the start of a
    sequence is one more thing that a gram was seen after. The three discounts of each length are
    estimated from the counts of counts, so there is nothing to tune.
    """
    made: list[NgramTable] = []
    size, shorter = 1, np.array([1 / setting.num_outcomes])
    for length, level in enumerate(levels, start=1):
        counts = level.counts
        if length < len(levels):
            starts = level.starts if setting.bos_id is not None else np.minimum(level.starts, 1)
            longer = levels[length].suffixes
            counts = np.bincount(longer, minlength=len(counts)) + starts
            counts = np.where(level.counts > 0, counts, 0)  # the begin mark's own
        parents, totals, _ = _contexts(level, counts, size, setting.vocab_size)
        discounts = kneser_ney_discounts(counts)
        taken = np.array([0.0, *discounts])[np.minimum(counts, 3)]
        gammas = _share(_sums(parents, taken, size), totals, 1.0)
        shares = _share(np.ones(size), totals, 0.0)[parents]
        shorter = (counts - taken) * shares + gammas[parents] * shorter[level.suffixes]
        shorter[level.counts == 0] = 0.0
        made.append(NgramTable(level.keys, shorter, gammas, discounts))
        size = len(level.keys)
    return made


def kneser_ney_discounts(counts: IntArray) -> FloatArray:
    r"""D_r = r − (r + 1) Y n_{r+1} / n_r for r = 1, 2, 3, with Y = n₁ / (n₁ + 2 n₂).

    Chen & Goodman 1999, eq. 26. On a text so small that some n_r is 0 or a discount would not
    lie between 0 and r: ½, 1 and 1½.
    """
    n = [float((counts == times).sum()) for times in range(5)]
    if all(n[1:]):
        y = n[1] / (n[1] + 2 * n[2])
        found = np.array([r - (r + 1) * y * n[r + 1] / n[r] for r in (1, 2, 3)])
        if (found > 0).all() and (found < [1, 2, 3]).all():
            return found
    return np.array([0.5, 1.0, 1.5])


NGRAM_SMOOTHINGS = {
    "none": relative_frequency,
    "laplace": additive_smoothing,
    "back-off": katz_back_off,
    "kneser-ney": modified_kneser_ney,
}
