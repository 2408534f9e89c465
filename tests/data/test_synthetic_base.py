from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.splits import SPLIT_NAMES, hash_split
from saccade.data.synthetic.base import (
    TextPair,
    drop_ambiguous_sources,
    generate_pairs,
    uniform_stream,
)
from saccade.errors import ConfigError


def counting(limit: int):
    """Return a sampler of the numbers below `limit` in order, repeated without end."""
    state = iter(range(10**9))

    def draw(index: int) -> TextPair:
        number = next(state) % limit
        return str(number), str(-number)

    return draw


def test_hash_split_has_the_documented_shares():
    counts = Counter(hash_split(f"thing {k}") for k in range(20_000))
    # four standard deviations of a binomial with p = 0.05 are 0.6 %
    assert counts["dev"] / 20_000 == pytest.approx(0.05, abs=0.0065)
    assert counts["test"] / 20_000 == pytest.approx(0.05, abs=0.0065)
    assert set(counts) == set(SPLIT_NAMES)


def test_hash_split_is_the_same_in_every_version():
    # written down once, after b2sum: a change would let training see what older runs held out
    held = [f"{hash_split(str(k))} {k}" for k in range(60) if hash_split(str(k)) != "train"]
    assert held == ["test 1", "dev 7", "test 10", "test 15", "test 24"]


def test_uniform_stream_is_uniform_and_deterministic():
    first, again, other = (uniform_stream(seed, "a purpose") for seed in (1, 1, 2))
    numbers = [next(first) for _ in range(10_000)]
    assert numbers == [next(again) for _ in range(10_000)]
    assert numbers != [next(other) for _ in range(10_000)]
    assert all(0 <= number < 1 for number in numbers)
    tenths = Counter(int(number * 10) for number in numbers)
    assert all(880 < tenths[k] < 1120 for k in range(10))


def test_generate_pairs_drops_repeats_and_shortens_held_out_splits():
    draws = {"train": counting(500), "dev": counting(7), "test": counting(3_000)}
    pairs = generate_pairs("numbers", "", draws, 500, 2_000, []).pairs
    assert {split: len(set(pairs[split])) for split in SPLIT_NAMES} == {
        "train": 500,
        "dev": 7,
        "test": 2_000,
    }
    assert all(len(set(pairs[split])) == len(pairs[split]) for split in SPLIT_NAMES)


def test_generate_pairs_reports_the_largest_possible_size():
    draws = dict.fromkeys(SPLIT_NAMES, counting(40))
    with pytest.raises(ConfigError, match="got size=41, but only 40 .* size=40"):
        generate_pairs("small", "", draws, 41, 9, [])


def test_generate_pairs_rejects_an_empty_split():
    draws = {"train": counting(5), "dev": lambda index: None, "test": counting(5)}
    with pytest.raises(ConfigError, match="none falls into 'dev'; try more symbols"):
        generate_pairs("small", "", draws, 5, 9, [])


def test_generate_pairs_rejects_size_zero():
    with pytest.raises(ConfigError, match="got size=0"):
        generate_pairs("small", "", dict.fromkeys(SPLIT_NAMES, counting(5)), 0, 9, [])


def test_generate_pairs_progress_ends_at_the_total():
    progress: list[tuple[int, int]] = []
    draws = {split: counting(10**6) for split in SPLIT_NAMES}
    generate_pairs(
        "big", "", draws, 5_000, 2_000, [], lambda done, total: progress.append((done, total))
    )
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)
    assert progress[-1] == (9_000, 9_000)
    assert len(progress) >= 5


def test_drop_ambiguous_sources_over_all_splits():
    pairs = {
        "train": [("5/3", "March"), ("1.2", "February")],
        "dev": [("5/3", "May")],
        "test": [("3.4", "April")],
    }
    kept, removed = drop_ambiguous_sources(pairs)
    assert kept == {"train": [("1.2", "February")], "dev": [], "test": [("3.4", "April")]}
    assert removed == 1


@given(
    st.dictionaries(
        st.sampled_from(SPLIT_NAMES),
        st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy"))),
    )
)
def test_drop_ambiguous_sources_drops_only_ambiguous_ones(pairs):
    kept, removed = drop_ambiguous_sources(pairs)
    everything = {pair for split in pairs.values() for pair in split}
    left = {pair for split in kept.values() for pair in split}
    targets = Counter(source for source, _ in everything)
    assert left == {pair for pair in everything if targets[pair[0]] == 1}
    assert removed == sum(count > 1 for count in targets.values())


def test_generate_pairs_notes_count_ambiguous_sources():
    def two_ways(index: int) -> TextPair:
        return ("same", str(index)) if index < 2 else (str(index), str(index))

    made = generate_pairs(
        "ambiguous", "about", dict.fromkeys(SPLIT_NAMES, two_ways), 5, 9, ["first"]
    )
    assert made.notes[0] == "first"
    assert "1 ambiguous sources" in made.notes[1]
    assert [source for source, _ in made.pairs["train"]] == ["2", "3", "4"]
