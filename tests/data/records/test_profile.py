"""Profiles of columns: kinds, counts, lengths, scripts."""

import tracemalloc
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.records import profile
from saccade.data.records.base import RecordChunk
from saccade.data.records.cell_forms import cell_form
from saccade.data.records.profile import (
    ColumnProfile,
    class_shares,
    profile_chunks,
    profile_records,
)
from saccade.data.records.sketches import DistinctCounter, ValueCounter


def chunk_of(**columns: Sequence[str | None]) -> RecordChunk:
    rows = len(next(iter(columns.values())))
    cells = {name: list(column) for name, column in columns.items()}
    return RecordChunk(cells, np.arange(1, rows + 1))


def profile_of(cells: Sequence[str | None], name: str = "x") -> ColumnProfile:
    return profile_records(chunk_of(**{name: cells}))[name]


REVIEWS = [
    f"the {dish} was {how} and we will {plan}"
    for dish in ("soup", "fish", "rice", "bread", "cake")
    for how in ("cold", "fine", "too salty")
    for plan in ("come back", "not return")
]
KINDS = [
    ("empty", "x", ["", None, "NA", "?"]),
    ("constant", "x", ["a"] * 9),
    ("boolean", "x", ["yes", "no", "yes", "No"]),
    ("boolean", "spam", ["0", "1", "1", "0"]),
    ("integer", "stars", ["1", "5", "4", "4", "2"]),
    ("integer", "price", [str(n * n) for n in range(50)]),
    ("number", "x", ["1.5", "2", "-3e-4"]),
    ("number", "year_month", ["2024.03", "2024.07", "2024.11"]),
    ("number", "x", ["1.5"] * 20 + ["oops"]),
    ("date", "x", ["2024-03-05", "2024-12-31", "1999-01-01"]),
    ("date", "x", ["2024-03-05T12:30:00Z", "2024-03-05 12:30", "2024-03"]),
    ("date", "x", ["5.3.2024", "31.12.2023"]),
    ("date", "x", ["3/5/24", "12/31/2023"]),
    ("date", "x", ["March 5, 2024", "5 Mar 2024", "05-Dec-23"]),
    ("date", "x", ["2024年3月5日", "2023年12月31日"]),
    ("id", "id", [str(7 * n) for n in range(30)]),
    ("id", "column 1", [str(n) for n in range(1, 31)]),
    ("id", "order", [f"TX-{n:04d}" for n in range(30)]),
    ("id", "zip", [f"0{n:04d}" for n in range(30)]),
    ("id", "x", [f"1b4e28ba-2fa1-11d2-883f-{n:012x}" for n in range(9)]),
    ("id", "x", [f"https://example.org/{n}?q=a" for n in range(9)]),
    ("id", "x", [f"CC-BY 2.0 (France) Attribution: tatoeba.org #{n} (CM)" for n in range(9)]),
    ("category", "x", ["red", "green", "red", "blue", "blue", "green"]),
    ("category", "x", ["not at all", "quite a bit"] * 5),
    ("text", "x", REVIEWS),
    ("text", "x", REVIEWS * 5),
    ("text", "x", ["味道很好，送餐也很快", "太难吃了，再也不会点这家", "一般般，价格有点贵"]),
    ("text", "x", ["I", "II", "III", "IV", "V", "VI"]),
    ("text", "x", ["mardi 5 mars 2024", "Samstag, 1. Juni 1996", "3 de enero de 1999"]),
]


@pytest.mark.parametrize("kind, name, cells", KINDS)
def test_kind_of_a_column(kind: str, name: str, cells: list[str | None]) -> None:
    assert profile_of(cells, name).kind == kind


def test_classes_repeat() -> None:
    for kind, name, cells in KINDS:
        if kind in ("empty", "constant", "date", "id", "text"):
            assert not profile_of(cells, name).is_class
    assert profile_of(["4.0", "5.0", "1.0"] * 9).is_class
    assert not profile_of([str(n * n) for n in range(50)]).is_class


def test_unique_integers_are_ids_by_name_only() -> None:
    squares = [str(n * n) for n in range(50)]
    assert profile_of(squares, "user_id").kind == "id"
    assert profile_of(squares, "column 2").kind == "integer"  # not consecutive
    assert profile_of([str(year) for year in range(1960, 2020)], "year").kind == "integer"


@pytest.mark.parametrize(
    "cell, form",
    [
        ("-12", "integer"),
        ("007", "code"),
        ("1e3", "number"),
        ("1_000", "code"),
        ("2024-13-01", "code"),  # no month 13
        ("2024-02-30T10:00", "date"),
        ("12:30", "date"),
        ("me@example.org", "reference"),
        ("12 monkeys", "words"),
        ("word", "words"),
        ("9" * 300, "words"),
    ],
)
def test_form_of_a_cell(cell: str, form: str) -> None:
    assert cell_form(cell) == form


def test_counts_of_a_category() -> None:
    found = profile_of(["b", "a", None, "b", " b ", "?", ""])
    assert (found.rows, found.missing, found.known, found.distinct) == (7, 3, 4, 2)
    assert found.is_exact and found.counts == {"b": 3, "a": 1}
    assert class_shares(found) == [("b", 3, 0.75), ("a", 1, 0.25)]
    assert found.examples == ("b", "a")
    assert found.is_class and not found.is_unique


def test_in_a_text_na_is_a_word() -> None:
    found = profile_of([*REVIEWS, "NA", "", None])
    assert found.kind == "text" and found.missing == 2
    assert found.distinct == len(REVIEWS) + 1


def test_lengths_count_characters_and_words() -> None:
    found = profile_of(["a b c", "ab", "one two"])
    assert found.characters.minimum == 2 and found.characters.maximum == 7
    assert found.words.median == 2 and found.words.mean == 2.0
    assert found.length_counts == {2: 1, 5: 1, 7: 1}


SCRIPTS = [
    ("Latin", True, ["Wie schön", "très bien"]),
    ("Cyrillic", True, ["очень хорошо", "плохо"]),
    ("Arabic", True, ["طعام جيد جدا", "سيء"]),
    ("Han", False, ["味道很好送餐很快", "太难吃了"]),
    ("Han", True, ["味道 很 好 送餐 很 快", "太 难吃 了"]),
    ("Japanese", False, ["とても美味しかったです", "最悪でした"]),
    ("Thai", False, ["อร่อยมากครับ", "ไม่อร่อยเลย"]),
    ("Hangul", True, ["정말 맛있어요", "별로예요"]),
    ("mixed (Latin, Han)", True, ["good very good 味道很好", "bad and late 太难吃了"]),
    ("", True, ["12", "13"]),
]


@pytest.mark.parametrize("script, has_spaces, cells", SCRIPTS)
def test_script(script: str, has_spaces: bool, cells: list[str]) -> None:
    found = profile_of(cells)
    assert (found.script, found.has_spaces) == (script, has_spaces)


def test_range_of_numbers() -> None:
    found = profile_of(["3", "-1.5", "", "20"])
    assert (found.minimum, found.maximum) == (-1.5, 20.0)
    assert profile_of(["b", "a", "b"]).minimum is None


def test_duplicate_rows_are_counted_over_chunks() -> None:
    first, second = chunk_of(a=["1", "2"], b=["x", None]), chunk_of(a=["2", "1"], b=["", "y"])
    seen: list[int] = []
    found = profile_chunks([first, second], seen.append)
    assert (found.rows, found.duplicates, found.is_exact) == (4, 1, True)
    assert seen == [2, 2]


@given(
    st.lists(st.sampled_from(["", "NA", "a", "b b", "3", "2.5", "2024-01-01", "好", None])),
    st.integers(1, 7),
)
def test_profile_does_not_depend_on_the_chunks(cells: list[str | None], size: int) -> None:
    whole = profile_chunks([chunk_of(x=cells)])
    pieces = [chunk_of(x=cells[start : start + size]) for start in range(0, len(cells), size)]
    assert profile_chunks(pieces or [chunk_of(x=[])]) == whole


def test_a_profile_of_many_rows_takes_constant_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "DistinctCounter", partial(DistinctCounter, 512))
    monkeypatch.setattr(profile, "ValueCounter", partial(ValueCounter, 512))

    def peak(rows: int) -> int:
        chunks = (
            chunk_of(x=[f"a text with the number {n} in row" for n in range(start, start + 512)])
            for start in range(0, rows, 512)
        )
        tracemalloc.start()
        found = profile_chunks(chunks)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.rows == found.columns["x"].distinct == rows
        return used

    assert peak(1 << 13) < 1.2 * peak(1 << 12)
