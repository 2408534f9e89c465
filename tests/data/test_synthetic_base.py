from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.synthetic.base import (
    SPLIT_NAMES,
    TextPair,
    drop_ambiguous_sources,
    generate_pairs,
    hash_split,
    uniform_stream,
)
from saccade.errors import ConfigError


def counting(limit: int):
    """Draws the numbers below `limit` one after the other, and then over again."""
    state = iter(range(10**9))

    def draw(turn: int) -> TextPair:
        number = next(state) % limit
        return str(number), str(-number)

    return draw


def test_sides_have_the_shares_they_should():
    counts = Counter(hash_split(f"thing {k}") for k in range(20_000))
    # four standard deviations of a binomial with p = 0.05 are 0.6 %
    assert counts["dev"] / 20_000 == pytest.approx(0.05, abs=0.0065)
    assert counts["test"] / 20_000 == pytest.approx(0.05, abs=0.0065)
    assert set(counts) == set(SPLIT_NAMES)


def test_sides_do_not_move_between_versions():
    # written down once, after b2sum: a change would let training see what older runs held out
    held = [f"{hash_split(str(k))} {k}" for k in range(60) if hash_split(str(k)) != "train"]
    assert held == ["test 1", "dev 7", "test 10", "test 15", "test 24"]


def test_fractions_are_even_and_repeatable():
    first, again, other = (uniform_stream(seed, "a purpose") for seed in (1, 1, 2))
    numbers = [next(first) for _ in range(10_000)]
    assert numbers == [next(again) for _ in range(10_000)]
    assert numbers != [next(other) for _ in range(10_000)]
    assert all(0 <= number < 1 for number in numbers)
    tenths = Counter(int(number * 10) for number in numbers)
    assert all(880 < tenths[k] < 1120 for k in range(10))


def test_repeats_are_left_out_and_held_out_splits_take_what_there_is():
    draws = {"train": counting(500), "dev": counting(7), "test": counting(3_000)}
    pairs = generate_pairs("numbers", "", draws, 500, 2_000, []).pairs
    assert {split: len(set(pairs[split])) for split in SPLIT_NAMES} == {
        "train": 500,
        "dev": 7,
        "test": 2_000,
    }
    assert all(len(set(pairs[split])) == len(pairs[split]) for split in SPLIT_NAMES)


def test_too_few_different_pairs_are_an_error_that_says_how_many_there_are():
    draws = dict.fromkeys(SPLIT_NAMES, counting(40))
    with pytest.raises(ConfigError, match="41 different training pairs .* only 40 .* size=40"):
        generate_pairs("small", "", draws, 41, 9, [])


def test_an_empty_split_is_an_error():
    draws = {"train": counting(5), "dev": lambda turn: None, "test": counting(5)}
    with pytest.raises(ConfigError, match="none falls into 'dev'. Use more symbols"):
        generate_pairs("small", "", draws, 5, 9, [])


def test_no_training_pairs_is_an_error():
    with pytest.raises(ConfigError, match="size is 0"):
        generate_pairs("small", "", dict.fromkeys(SPLIT_NAMES, counting(5)), 0, 9, [])


def test_progress_goes_up_and_ends_at_the_total():
    told: list[tuple[int, int]] = []
    draws = {split: counting(10**6) for split in SPLIT_NAMES}
    generate_pairs(
        "big", "", draws, 5_000, 2_000, [], lambda done, total: told.append((done, total))
    )
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (9_000, 9_000)
    assert len(told) >= 5


def test_two_readings_are_taken_out_of_every_split_and_counted():
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
def test_what_is_left_has_one_reading_and_nothing_else_is_lost(pairs):
    kept, removed = drop_ambiguous_sources(pairs)
    everything = {pair for split in pairs.values() for pair in split}
    left = {pair for split in kept.values() for pair in split}
    targets = Counter(source for source, _ in everything)
    assert left == {pair for pair in everything if targets[pair[0]] == 1}
    assert removed == sum(count > 1 for count in targets.values())


def test_notes_count_the_two_readings():
    def two_ways(turn: int) -> TextPair:
        return ("same", str(turn)) if turn < 2 else (str(turn), str(turn))

    made = generate_pairs(
        "doubtful", "about", dict.fromkeys(SPLIT_NAMES, two_ways), 5, 9, ["first"]
    )
    assert made.notes[0] == "first"
    assert "1 sources with two readings" in made.notes[1]
    assert [source for source, _ in made.pairs["train"]] == ["2", "3", "4"]
