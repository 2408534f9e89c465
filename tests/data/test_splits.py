"""Division into train, dev and test: a property for each way."""

import unicodedata
from collections import Counter
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.config import build_config
from saccade.data.hashing import hash_bytes
from saccade.data.records.role_names import SPLIT_ALIASES
from saccade.data.splits import (
    DEV,
    LEFT_OUT,
    SPLIT_NAMES,
    TEST,
    TRAIN,
    SplitArray,
    SplitConfig,
    SplitKeys,
    divide_examples,
    hash_cells,
    hash_texts,
    leave_out_repeated,
    split_by_order,
)
from saccade.errors import ConfigError, DataError

texts = st.lists(st.text(max_size=6), min_size=1, max_size=60)
shares = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.3])


def hashes_of(values: list[str]) -> np.ndarray:  # type: ignore[type-arg]
    return hash_texts(value.encode() for value in values)


def no_input_is_on_two_sides(splits: SplitArray, values: list[str]) -> bool:
    sides = [{v for v, s in zip(values, splits, strict=True) if s == n} for n in range(3)]
    return not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])


# --- by hash --------------------------------------------------------------------------------------


@given(texts, shares, shares)
def test_by_hash_an_example_is_divided_by_itself(
    values: list[str], dev: float, test: float
) -> None:
    found = divide_examples(SplitKeys(hashes_of(values)), dev, test)
    for value, split in zip(values, found, strict=True):
        digest = blake2b(unicodedata.normalize("NFC", value).encode(), digest_size=8).digest()
        share = int.from_bytes(digest, "big") / 2.0**64
        expected = TEST if share < test else DEV if share >= 1 - dev else TRAIN
        assert split == expected


def test_by_hash_the_shares_are_about_those_given() -> None:
    found = divide_examples(SplitKeys(hashes_of([str(n) for n in range(20_000)])), 0.1, 0.2)
    counts = Counter(found.tolist())
    # five standard deviations of a binomial distribution
    for split, share in ((DEV, 0.1), (TEST, 0.2)):
        assert abs(counts[split] - share * 20_000) < 5 * (20_000 * share * (1 - share)) ** 0.5


# --- groups ---------------------------------------------------------------------------------------

people = st.sampled_from(["Ada", "Ben", "Cy", "Di", "Ed", "Flo", "Gus", None])
pages = st.integers(0, 2).map(str)


@given(st.lists(st.tuples(people, pages, st.text(max_size=4)), min_size=1), shares, shares)
def test_groups_are_never_divided(
    rows: list[tuple[str | None, str, str]], dev: float, test: float
) -> None:
    groups = [(who, page) for who, page, _ in rows]
    values = [text for _, _, text in rows]
    keys = SplitKeys(hashes_of(values), groups=hash_cells(list(zip(*groups, strict=True))))
    found = divide_examples(keys, dev, test)
    for group in set(groups):
        sides = {s for g, s in zip(groups, found.tolist(), strict=True) if g == group}
        assert len(sides - {LEFT_OUT}) <= 1
    assert no_input_is_on_two_sides(found, values)


def test_cells_of_a_group_are_not_run_together() -> None:
    one, other = hash_cells([["ab", "a"], ["c", "bc"]])
    assert one != other


# --- order and time -------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), shares, shares)
def test_by_time_the_last_rows_are_held_out(times: list[int], dev: float, test: float) -> None:
    values = [f"row {n}" for n in range(len(times))]
    keys = SplitKeys(hashes_of(values), times=np.array(times, np.float64))
    found = divide_examples(keys, dev, test)
    moments = [[t for t, s in zip(times, found, strict=True) if s == n] for n in range(3)]
    for earlier, later in ((TRAIN, DEV), (DEV, TEST), (TRAIN, TEST)):
        if moments[earlier] and moments[later]:
            assert max(moments[earlier]) < min(moments[later])
    assert len(moments[TEST]) >= round(test * len(times))


def test_rows_without_a_time_are_trained_on() -> None:
    times = np.array([np.nan, 3.0, 1.0, 2.0, np.nan])
    found = divide_examples(SplitKeys(hashes_of(list("abcde")), times=times), 0.2, 0.2)
    assert found.tolist() == [TRAIN, TEST, TRAIN, DEV, TRAIN]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=80, unique=True), shares, shares)
def test_by_order_the_shares_are_exact(keys: list[int], dev: float, test: float) -> None:
    found = split_by_order(np.array(keys, np.uint64), dev, test)
    sizes = Counter(found.tolist())
    count = len(keys)
    expected = min(count, max(1, round(test * count)) if test else 0)
    assert sizes[TEST] == expected
    assert sizes[DEV] == min(count - expected, max(1, round(dev * count)) if dev else 0)
    held_out = sorted(keys)[: sizes[TEST]]
    assert sorted(k for k, s in zip(keys, found, strict=True) if s == TEST) == held_out


# --- classes --------------------------------------------------------------------------------------

labelled = st.lists(
    st.tuples(st.integers(0, 500).map(str), st.sampled_from("abc")),
    min_size=1,
    max_size=120,
    unique_by=lambda row: row[0],
)


@given(labelled, shares, shares)
def test_stratified_each_class_has_its_exact_share(
    rows: list[tuple[str, str]], dev: float, test: float
) -> None:
    values, classes = map(list, zip(*rows, strict=True))
    found = divide_examples(SplitKeys(hashes_of(values), classes=classes), dev, test)
    for name in set(classes):
        sides = Counter(s for c, s in zip(classes, found.tolist(), strict=True) if c == name)
        total = classes.count(name)
        assert sides[TEST] == round(test * total)
        assert sides[DEV] == round(dev * total)


repeated = st.lists(st.tuples(st.sampled_from("uvwxyz"), st.sampled_from("abc")), min_size=1)


@given(repeated, shares, shares)
def test_stratified_equal_inputs_stay_together(
    rows: list[tuple[str, str]], dev: float, test: float
) -> None:
    values, classes = map(list, zip(*rows, strict=True))
    found = divide_examples(SplitKeys(hashes_of(values), classes=classes), dev, test)
    assert LEFT_OUT not in found.tolist()
    assert no_input_is_on_two_sides(found, values)


def test_an_input_of_two_classes_counts_for_the_frequent_one() -> None:
    # "x" is mostly b: the one row of class a is no reason to hold it out for a
    values, classes = ["x"] * 3 + list("pqrs"), list("abb") + list("aaaa")
    found = divide_examples(SplitKeys(hashes_of(values), classes=classes), 0.0, 0.25)
    assert len({*found[:3].tolist()}) == 1
    assert found[3:].tolist().count(TEST) == 1


# --- a column -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9).map(str), st.sampled_from([*SPLIT_ALIASES, None]))))
def test_a_column_names_the_splits(rows: list[tuple[str, str | None]]) -> None:
    values, cells = [v for v, _ in rows], [c and c.upper() for _, c in rows]
    found = divide_examples(SplitKeys(hashes_of(values), splits=cells), 0.0, 0.0)
    for cell, split in zip(cells, found, strict=True):
        name = SPLIT_ALIASES[(cell or "train").lower()]
        assert split in (SPLIT_NAMES.index(name), LEFT_OUT)
    assert no_input_is_on_two_sides(found, values)


def test_a_split_that_the_column_lacks_is_held_out() -> None:
    values = [str(n) for n in range(400)]
    cells = ["test" if n % 10 == 0 else "train" for n in range(400)]
    found = divide_examples(SplitKeys(hashes_of(values), splits=cells), 0.1, 0.1)
    assert {n for n in range(400) if found[n] == TEST} == set(range(0, 400, 10))
    assert 10 < (found == DEV).sum() < 80


def test_another_word_in_the_column_is_refused() -> None:
    with pytest.raises(DataError, match="got 'fold 1' in the column of splits; expected train"):
        divide_examples(SplitKeys(hashes_of(["a"]), splits=["fold 1"]), 0.1, 0.1)


# --- all ways -------------------------------------------------------------------------------------


@given(repeated, st.permutations(range(6)))
def test_the_order_of_the_rows_does_not_matter(
    rows: list[tuple[str, str]], order: list[int]
) -> None:
    turned = sorted(rows, key=lambda row: order["uvwxyz".index(row[0])])
    for way in ("hash", "class", "order"):
        sides = []
        for some in (rows, turned):
            values, classes = map(list, zip(*some, strict=True))
            keys = SplitKeys(hashes_of(values), classes=classes if way == "class" else None)
            found = divide_examples(keys, 0.2, 0.3, is_exact=way == "order")
            sides.append(dict(zip(values, found.tolist(), strict=True)))
        assert sides[0] == sides[1]


def test_repeated_inputs_are_left_out_of_the_larger_split() -> None:
    inputs = hash_bytes([b"a", b"a", b"b", b"b", b"c", b"d", b"a"])
    splits = np.array([TRAIN, TEST, TRAIN, DEV, DEV, TRAIN, DEV], np.int8)
    found = leave_out_repeated(splits, inputs).tolist()
    assert found == [LEFT_OUT, TEST, LEFT_OUT, DEV, DEV, TRAIN, LEFT_OUT]


def test_compositions_of_a_letter_are_one_input() -> None:
    assert hashes_of(["Zoë"])[0] == hashes_of(["Zoe\u0308"])[0]


@pytest.mark.parametrize("dev, test", [(0.6, 0.5), (-0.1, 0.2), (0.1, 1.5)])
def test_shares_must_be_parts_of_a_whole(dev: float, test: float) -> None:
    with pytest.raises(ConfigError, match="expected numbers from 0 to 1"):
        divide_examples(SplitKeys(hashes_of(["a"])), dev, test)


def test_settings_accept_one_way() -> None:
    assert build_config(SplitConfig, {"group_by": "user, page"}).group_by == ("user", "page")
    with pytest.raises(ConfigError, match="got data.group_by and data.time; expected one of them"):
        build_config(SplitConfig, {"group_by": "user", "time": "day"})
    with pytest.raises(ConfigError, match="got data.split_column and data.dev"):
        build_config(SplitConfig, {"split_column": "part", "dev": "dev.csv"})


def test_names_of_splits_are_in_the_order_of_their_numbers() -> None:
    assert [SPLIT_NAMES[n] for n in (TRAIN, DEV, TEST)] == ["train", "dev", "test"]
