"""Objects in memory as records."""

import enum
from collections import UserDict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.records.base import CHUNK_ROWS, Records
from saccade.data.records.open import open_records
from saccade.errors import DataError
from saccade.io import spool

Point = namedtuple("Point", ["text", "label"])


@dataclass
class Example:
    text: str
    label: int


def columns_of(records: Records) -> dict[str, list[str | None]]:
    cells: dict[str, list[str | None]] = {name: [] for name in records.columns}
    for chunk in records.chunks():
        for name, column in chunk.columns.items():
            cells[name] += column
    return cells


NAMED = {"text": ["a", "b"], "label": ["1", "0"]}
ROWS = [("a", 1), ("b", 0)]
NUMBERED = {"column 1": ["a", "b"], "column 2": ["1", "0"]}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pd.DataFrame({"text": ["a", "b"], "label": [1, 0]}), NAMED),
        (pl.DataFrame({"text": ["a", "b"], "label": [1, 0]}), NAMED),
        (pl.LazyFrame({"text": ["a", "b"], "label": [1, 0]}), NAMED),
        ({"text": ["a", "b"], "label": np.array([1, 0])}, NAMED),
        ({"text": ("a", "b"), "label": pd.Series([1, 0])}, NAMED),
        ([{"text": "a", "label": 1}, {"text": "b", "label": 0}], NAMED),
        ([UserDict(text="a", label=1), {"text": "b", "label": 0}], NAMED),
        ([Point("a", 1), Point("b", 0)], NAMED),
        ([Example("a", 1), Example("b", 0)], NAMED),
        (np.array(ROWS, dtype=[("text", "U1"), ("label", "i4")]), NAMED),
        (ROWS, NUMBERED),
        (tuple(map(list, ROWS)), NUMBERED),
        (iter(ROWS), NUMBERED),
        (iter([Example("a", 1), Example("b", 0)]), NAMED),
        (({"text": t, "label": n} for t, n in ROWS), NAMED),
        (zip("ab", [1, 0], strict=True), NUMBERED),
        (np.array([["a", "1"], ["b", "0"]]), NUMBERED),
        (["a", "b"], {"text": ["a", "b"]}),
        (pl.Series("review", ["a", "b"]), {"review": ["a", "b"]}),
        (pd.Series(["a", "b"]), {"text": ["a", "b"]}),
        (
            [{"x": {"y": 1, "z": None}}, {"x": {"y": 2}, "w": []}],
            {"x.y": ["1", "2"], "x.z": [None, None], "w": [None, "[]"]},
        ),
    ],
)
def test_objects(data: Any, expected: dict[str, list[str | None]]) -> None:
    records = open_records(data)
    assert records.format == "memory"
    assert records.unit == "row"
    assert columns_of(records) == expected
    assert columns_of(records) == expected  # again
    assert list(next(records.chunks()).numbers) == [1, 2]


class Arrow:
    """An object that offers the Arrow C stream and nothing else."""

    def __init__(self, frame: pl.DataFrame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


def test_arrow_stream() -> None:
    assert (
        columns_of(open_records(Arrow(pl.DataFrame({"text": ["a", "b"], "label": [1, 0]}))))
        == NAMED
    )


class Color(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, None),
        (float("nan"), None),
        (np.float32("nan"), None),
        (pd.NA, None),
        (pd.NaT, None),
        (np.datetime64("NaT"), None),
        (True, "true"),
        (np.False_, "false"),
        (3, "3"),
        (np.int8(3), "3"),
        (0.1, "0.1"),
        (np.float32(0.1), "0.1"),
        (1e22, "1e+22"),
        (Decimal("1.50"), "1.50"),
        (date(2024, 2, 1), "2024-02-01"),
        (datetime(2024, 2, 1, 3), "2024-02-01T03:00:00"),
        (pd.Timestamp("2024-02-01"), "2024-02-01T00:00:00"),
        (np.datetime64("2024-02-01"), "2024-02-01"),
        (Color.RED, "red"),
        (np.str_("a"), "a"),
        (b"caf\xc3\xa9", "café"),
        (["é", 1, None, {"a": (2,)}], '["é", 1, null, {"a": [2]}]'),
        (np.array([1, 2]), "[1, 2]"),
    ],
)
def test_cells(value: Any, cell: str | None) -> None:
    assert columns_of(open_records([{"x": value, "y": 1}]))["x"] == [cell]
    assert columns_of(open_records({"x": [value]}))["x"] == [cell]


def test_missing_values_of_frames() -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None], dtype="Int64"),
            "b": pd.Series(["x", None], dtype="string"),
            "c": pd.to_datetime(["2024-01-02", None]),
            "d": pd.Categorical(["u", None]),
            "e": [1.5, np.nan],
        }
    )
    assert columns_of(open_records(frame)) == {
        "a": ["1", None],
        "b": ["x", None],
        "c": ["2024-01-02T00:00:00", None],
        "d": ["u", None],
        "e": ["1.5", None],
    }


def test_names_of_frames() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=[0, "a", "a"])
    assert open_records(frame).columns == ("0", "a", "a (2)")
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    assert open_records(frame).columns == ("a.x", "a.y")


def test_iterator_is_kept_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "SPOOL_MEMORY_BYTES", 100)
    count = CHUNK_ROWS + 10
    records = open_records({"n": n} for n in range(count))
    both = zip(records.chunks(), records.chunks(), strict=True)  # two readers at a time
    assert [len(a) for a, b in both if a.columns == b.columns] == [CHUNK_ROWS, 10]
    assert columns_of(records)["n"] == list(map(str, range(count)))


def never() -> Iterator[int]:
    yield from ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "got no rows; expected at least one"),
        (pd.DataFrame({"a": []}), "got no rows"),
        ({"a": [1], "b": [1, 2]}, "got columns of different lengths (1 in 'a', 2 in 'b')"),
        ({"a": 1}, "got a int for 'a'; expected a mapping from column to a list of values; try a"),
        ({1, 2}, "got a set as data, which has no order; expected rows in an order; try sorted"),
        (5, "got a int as data; expected a path, a pandas, polars or Arrow frame"),
        (b"a", "got a bytes as data"),
        ([(1, 2), (1,)], "data, row 2: got 1 values; expected 2, as in the first row"),
        ([{"a": 1}, 3], "data, row 2: got '3'; expected named fields, as in the first row"),
        ([{}], "data, row 1: got an empty object; expected named fields"),
        (never(), "got no rows"),
    ],
)
def test_wrong_objects(data: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        columns_of(open_records(data))
    assert message in str(caught.value)


def test_wrong_row_after_the_first_chunk() -> None:
    records = open_records([(1, 2)] * CHUNK_ROWS + [(1, 2, 3)])
    with pytest.raises(DataError, match=f"data, row {CHUNK_ROWS + 1:,}: got 3 values; expected 2"):
        columns_of(records)


def mappings(columns: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


TO_FRAME: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "columns": dict,
    "rows": lambda columns: [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ],
    "iterator": lambda columns: (
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ),
}


@given(
    st.lists(
        st.tuples(
            st.text(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False)
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(sorted(TO_FRAME)),
)
def test_frames_agree(rows: list[tuple[str, int, bool, float]], kind: str) -> None:
    texts, integers, booleans, floats = map(list, zip(*rows, strict=True))
    columns: dict[str, list[Any]] = {"a": texts, "b": integers, "c": booleans, "d": floats}
    assert columns_of(open_records(TO_FRAME[kind](columns))) == {
        "a": texts,
        "b": list(map(str, integers)),
        "c": [str(value).lower() for value in booleans],
        "d": list(map(repr, floats)),
    }
