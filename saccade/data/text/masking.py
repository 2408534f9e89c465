r"""Masking of tokens for masked language models, of all rows together.

Devlin et al. 2019, section 3.1: of the tokens, a share r is chosen as targets; 80 % of these become
[MASK], 10 % a random token, 10 % stay as they are. With whole words (their later models; Cui et al.
2019 for Chinese), all pieces of a word are chosen together.

The words of a row are put in random order, and a word of n pieces with m pieces before it is chosen
if m + u n < r T, with T tokens that may be chosen and one uniform number u for each row. So the
expected number of targets is r T exactly, for words of any length.

    static     the choices for a token depend on its position in the text
    dynamic    they depend on the epoch, too (Liu et al. 2019)
"""

from typing import NamedTuple

import numpy as np

from saccade.data.hashing import hashed_uniforms
from saccade.data.text.packing import PackedRows
from saccade.data.wordpiece import BERT_SPECIAL_TOKENS, MASK, SEP
from saccade.seeding import seed_for
from saccade.types.arrays import BoolArray, FloatArray, IntArray

MASK_SHARE, RANDOM_SHARE = 0.8, 0.1  # of the targets; the others stay as they are


class MaskedRows(NamedTuple):
    """Sequences with masked tokens, and the tokens to predict."""

    ids: IntArray  # (B, L), masked
    is_target: BoolArray  # (B, L)
    targets: IntArray  # (N,), the tokens at the targets, row by row


def mask_rows(
    rows: PackedRows, share: float, vocab_size: int, key: int, whole_words: bool = False
) -> MaskedRows:
    """Choose the targets of sequences and replace most of them."""
    maskable = (rows.positions >= 0) & (rows.ids != SEP)
    counters = np.maximum(rows.positions, 0)
    if whole_words:
        is_target = choose_words(maskable, rows.starts_word, counters, share, key)
    else:
        is_target = choose_words(maskable, np.ones_like(maskable), counters, share, key)
    targets = rows.ids[is_target]
    change = hashed_uniforms(seed_for(key, "replacements"), counters[is_target])
    special = len(BERT_SPECIAL_TOKENS)
    drawn = hashed_uniforms(seed_for(key, "random tokens"), counters[is_target])
    random = special + (drawn * (vocab_size - special)).astype(np.int64)
    ids = rows.ids.copy()
    ids[is_target] = np.where(
        change < MASK_SHARE, MASK, np.where(change < MASK_SHARE + RANDOM_SHARE, random, targets)
    )
    return MaskedRows(ids, is_target, targets)


def choose_words(
    maskable: BoolArray, starts_word: BoolArray, counters: IntArray, share: float, key: int
) -> BoolArray:
    """Return the tokens (B, L) of randomly chosen words, on average a share of those maskable.

    Args:
        maskable: (B, L), the tokens that may be chosen.
        starts_word: (B, L), the first token of each word.
        counters: (B, L), counters of the random numbers: equal counters and key, equal choices.
        share: of the tokens.
        key: seed.
    """
    B, L = maskable.shape
    columns = np.arange(L)
    word_start = np.maximum.accumulate(np.where(starts_word, columns, 0), axis=1)
    drawn = hashed_uniforms(seed_for(key, "words"), counters)
    order_key = np.take_along_axis(drawn, word_start, axis=1)
    order_key = np.where(maskable, order_key, 2.0)  # last
    order = order_key.argsort(axis=1, kind="stable")
    sorted_words = np.take_along_axis(word_start, order, axis=1)
    first, size = _runs(sorted_words, np.take_along_axis(maskable, order, axis=1))
    budget = share * maskable.sum(axis=1, keepdims=True)
    level = hashed_uniforms(seed_for(key, "rows"), counters.max(axis=1))[:, None]
    chosen = (first + level * size < budget) & np.take_along_axis(maskable, order, axis=1)
    is_target = np.zeros((B, L), bool)
    np.put_along_axis(is_target, order, chosen, axis=1)
    return is_target


def _runs(words: IntArray, counted: BoolArray) -> tuple[IntArray, FloatArray]:
    """Return the column where the run of equal words starts, and its length, for each column."""
    B, L = words.shape
    is_first = np.ones((B, L + 1), bool)
    is_first[:, 1:L] = (words[:, 1:] != words[:, :-1]) | (counted[:, 1:] != counted[:, :-1])
    starts = np.flatnonzero(is_first[:, :L])
    lengths = np.diff(np.append(starts, B * L))
    first = np.repeat(starts % L, lengths).reshape(B, L)
    return first, np.repeat(lengths, lengths).reshape(B, L).astype(np.float64)
