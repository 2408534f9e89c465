"""Masking of tokens and of whole words: shares over a million tokens, and its invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.hashing import hashed_uniforms
from saccade.data.text.masking import choose_words, mask_rows
from saccade.data.text.packing import Packing, token_stream
from saccade.data.wordpiece import MASK, SEP

V = 1000
SHARE = 0.15


def stream_of(tokens, seed=0, is_start=0.6):
    draw = np.random.default_rng(seed)
    ids = draw.integers(5, V, tokens).astype(np.uint16)
    ids[draw.random(tokens) < 0.02] = SEP
    ids[0] = SEP
    return token_stream(ids, draw.random(tokens) < is_start)


def rows_of(stream, length=128):
    packing = Packing(stream, length, pairs=False)
    return packing.rows(packing.window_starts(np.arange(packing.count), 1, 0), 3)


@pytest.mark.parametrize("whole_words", [False, True])
def test_shares_over_a_million_tokens(whole_words):
    rows = rows_of(stream_of(1_040_000))
    found = mask_rows(rows, SHARE, V, key=11, whole_words=whole_words)
    maskable = (rows.positions >= 0) & (rows.ids != SEP)
    n = int(maskable.sum())
    assert n > 1_000_000 and not (found.is_target & ~maskable).any()
    # each row has its expected number of targets up to one token or word, so that the
    # standard error is that of one uniform number per row
    assert abs(found.is_target.sum() / n - SHARE) < 4 * 6 / (128 * len(rows.ids) ** 0.5)
    targets = len(found.targets)
    assert (rows.ids[found.is_target] == found.targets).all()
    changed = found.ids[found.is_target]
    error = 4 * 0.5 / targets**0.5
    assert abs((changed == MASK).mean() - 0.8) < error
    kept = ((changed == found.targets) & (changed != MASK)).mean()
    assert abs(kept - 0.1 - 0.1 / (V - 5)) < error
    random = changed[(changed != MASK) & (changed != found.targets)]
    assert abs(len(random) / targets - 0.1) < error
    assert random.min() == 5 and random.max() == V - 1
    counts = np.bincount(random, minlength=V)[5:]
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < V + 6 * (2 * V) ** 0.5  # χ²
    assert (found.ids[~found.is_target] == rows.ids[~found.is_target]).all()


@pytest.mark.parametrize("whole_words", [False, True])
def test_all_positions_and_neighbours_are_chosen_equally_often(whole_words):
    rows = rows_of(stream_of(400_000))
    chosen = mask_rows(rows, SHARE, V, 5, whole_words).is_target
    maskable = (rows.positions >= 0) & (rows.ids != SEP)
    per_column = chosen.sum(0)[1:-1] / maskable.sum(0)[1:-1]
    assert np.abs(per_column - SHARE).max() < 5 * (SHARE * (1 - SHARE) / len(rows.ids)) ** 0.5
    if not whole_words:  # of n tokens k are drawn without replacement
        both = (chosen[:, 1:] & chosen[:, :-1]).sum() / (maskable[:, 1:] & maskable[:, :-1]).sum()
        n = maskable.sum(1).mean()
        k = SHARE * n
        assert abs(both - k * (k - 1) / (n * (n - 1))) < 0.0004


def test_words_are_chosen_as_a_whole_and_equally_often_at_any_length():
    rows = rows_of(stream_of(300_000, is_start=0.5))
    found = mask_rows(rows, SHARE, V, 5, whole_words=True)
    maskable = (rows.positions >= 0) & (rows.ids != SEP)
    word = np.cumsum(rows.starts_word.ravel())
    for chosen, tokens in ((found.is_target & maskable, maskable),):
        per_word = np.bincount(word, weights=chosen.ravel())
        sizes = np.bincount(word, weights=tokens.ravel())
    assert set(np.unique(per_word[sizes > 0] / sizes[sizes > 0])) == {0.0, 1.0}
    for size in (1, 2, 3):
        share = (per_word[sizes == size] > 0).mean()
        assert abs(share - SHARE) < 0.01


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(0, 50), st.floats(0.05, 0.9), st.booleans())
def test_number_of_targets_is_within_a_word_of_the_share(length, seed, share, whole):
    draw = np.random.default_rng(seed)
    maskable = draw.random((4, length)) < 0.9
    starts = (draw.random((4, length)) < 0.5) | ~maskable | ~np.roll(maskable, 1, axis=1)
    starts[:, 0] = True
    counters = np.arange(4 * length).reshape(4, length)
    chosen = choose_words(
        maskable, starts if whole else np.ones_like(starts), counters, share, key=seed
    )
    assert not (chosen & ~maskable).any()
    word = np.maximum.accumulate(np.where(starts, np.arange(length), 0), axis=1)
    longest = max(np.bincount(row).max() for row in word) if whole else 1
    assert (np.abs(chosen.sum(1) - share * maskable.sum(1)) < longest).all()


def test_choices_depend_on_the_position_in_the_text_and_the_key_alone():
    stream = stream_of(5000)
    rows = rows_of(stream, 40)
    whole = mask_rows(rows, SHARE, V, 9)
    some = np.array([5, 2])
    part = type(rows)(*(None if value is None else value[some] for value in rows))
    again = mask_rows(part, SHARE, V, 9)
    assert (again.ids == whole.ids[some]).all()
    other = mask_rows(rows, SHARE, V, 10)
    both = (other.is_target & whole.is_target).sum() / whole.is_target.sum()
    assert abs(both - SHARE) < 0.05


def test_hashed_uniforms_are_splitmix64():
    def splitmix64(state):
        """Return the output after a step from this state (Steele et al. 2014, figure 16)."""
        z = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    # the published first output for the seed 0
    assert splitmix64(0) == 0xE220A8397B1DCDAF
    for key in (0, 12345, 2**62):
        found = hashed_uniforms(key, np.arange(1, 5))
        states = [(key + n * 0x9E3779B97F4A7C15) % 2**64 for n in range(4)]
        assert found.tolist() == [(splitmix64(s) >> 11) / 2**53 for s in states]
