from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.splits import SPLIT_NAMES, hash_split
from saccade.data.synthetic.registry import SYNTHETIC_PAIRS
from saccade.data.synthetic.sequences import (
    SYNTHETIC_DESCRIPTIONS,
    generate_copy,
    generate_reverse,
)
from saccade.errors import ConfigError

MADE = generate_reverse(size=3_000)


def test_synthetic_pairs_have_descriptions():
    assert (
        set(SYNTHETIC_PAIRS)
        == set(SYNTHETIC_DESCRIPTIONS)
        == {"dates", "numbers", "reverse", "copy"}
    )
    assert all("\n" not in line and len(line) < 90 for line in SYNTHETIC_DESCRIPTIONS.values())


@pytest.mark.parametrize("name", sorted(SYNTHETIC_PAIRS))
def test_synthetic_pairs_have_distinct_sources_in_three_splits(name):
    made = SYNTHETIC_PAIRS[name](size=200, seed=7)
    assert (made.name, made.description) == (name, SYNTHETIC_DESCRIPTIONS[name])
    assert tuple(made.pairs) == SPLIT_NAMES
    assert len(made.pairs["train"]) == 200
    sources = [source for split in SPLIT_NAMES for source, _ in made.pairs[split]]
    assert len(set(sources)) == len(sources)
    assert all(source and target for split in SPLIT_NAMES for source, target in made.pairs[split])
    texts = "".join(text for split in SPLIT_NAMES for pair in made.pairs[split] for text in pair)
    assert "\t" not in texts
    assert "\n" not in texts


@settings(deadline=None, max_examples=5)
@given(st.integers(3, 26), st.integers(4, 9), st.integers(0, 2**31))
def test_reverse_targets_are_correct_and_splits_disjoint(symbols, max_length, seed):
    backwards = generate_reverse(symbols, max_length, size=50, seed=seed).pairs
    for split in SPLIT_NAMES:
        for source, target in backwards[split]:
            assert list(target) == list(reversed(source))
            assert 1 <= len(source) <= max_length
            assert set(source) <= set("abcdefghijklmnopqrstuvwxyz"[:symbols])
            assert hash_split(source) == split


def test_copy_targets_equal_sources():
    pairs = generate_copy(size=500).pairs
    assert all(source == target for split in SPLIT_NAMES for source, target in pairs[split])
    assert {hash_split(source) for source, _ in pairs["test"]} == {"test"}


def test_sequences_lengths_are_uniform():
    lengths = Counter(len(source) for source, _ in MADE.pairs["train"])
    assert lengths[4] == pytest.approx(lengths[6], rel=0.2)
    assert lengths[1] <= 8
    assert lengths[2] <= 64


def test_sequences_are_deterministic():
    assert generate_reverse(size=3_000) == MADE
    assert generate_reverse(size=3_000, seed=2).pairs != MADE.pairs


def test_sequences_of_a_small_alphabet_can_be_exhausted():
    possible = sum(3**length for length in range(1, 6))
    pairs = generate_reverse(3, 5, size=1).pairs
    train = possible - len(pairs["dev"]) - len(pairs["test"])
    assert len(generate_reverse(3, 5, size=train).pairs["train"]) == train
    with pytest.raises(ConfigError, match=f"only {train} different training pairs"):
        generate_reverse(3, 5, size=train + 1)


def test_sequences_reject_wrong_arguments():
    with pytest.raises(ConfigError, match="got symbols=27; expected 1 to 26"):
        generate_reverse(symbols=27)
    with pytest.raises(ConfigError, match="got max_length=0"):
        generate_copy(max_length=0)
    with pytest.raises(ConfigError, match="none falls into"):
        generate_copy(symbols=1, max_length=2, size=1)
