"""JSON files as records."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.records.base import CHUNK_ROWS, Records
from saccade.data.records.open import open_records
from saccade.errors import DataError
from saccade.io import text_files

ROWS = [
    {"text": "a b", "label": 1, "meta": {"lang": "en", "score": 0.5}},
    {"text": "ç", "label": True, "meta": {"lang": None}, "tags": ["x", 1]},
    {"text": None, "label": 1e300},
]
COLUMNS = {
    "text": ["a b", "ç", None],
    "label": ["1", "true", "1e+300"],
    "meta.lang": ["en", None, None],
    "meta.score": ["0.5", None, None],
    "tags": [None, '["x", 1]', None],
}


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def columns_of(records: Records) -> dict[str, list[str | None]]:
    cells: dict[str, list[str | None]] = {name: [] for name in records.columns}
    for chunk in records.chunks():
        for name, column in chunk.columns.items():
            cells[name] += column
    return cells


def complaint(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        columns_of(open_records(path))
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.jsonl", "\n".join(map(json.dumps, ROWS)), "jsonl"),
        ("a.ndjson", "\ufeff" + "\r\n\r\n".join(map(json.dumps, ROWS)), "jsonl"),
        ("a.json", "\n".join(map(json.dumps, ROWS)), "jsonl"),
        ("a", "\n".join(map(json.dumps, ROWS)), "jsonl"),
        ("a.json", json.dumps(ROWS), "json"),
        ("a.json", json.dumps(ROWS, indent=2), "json"),
        ("a.txt", json.dumps(ROWS, indent=2), "json"),
        ("a.json", json.dumps({"version": 1, "data": ROWS}, indent=2), "json"),
        ("a.json", json.dumps({"info": {"n": 1}, "data": {"rows": ROWS}}), "json"),
    ],
)
def test_json_formats(tmp_path: Path, name: str, content: str, format: str) -> None:
    records = open_records(write(tmp_path, name, content))
    assert columns_of(records) == COLUMNS
    assert records.format == format


@pytest.mark.parametrize(
    "content",
    [
        {"text": ["a", "b"], "n": [1, 2]},
        {"text": {"0": "a", "1": "b"}, "n": {"0": 1, "1": 2}},
        {"columns": ["text", "n"], "index": [0, 1], "data": [["a", 1], ["b", 2]]},
    ],
)
def test_columns_in_an_object(tmp_path: Path, content: Any) -> None:
    records = open_records(write(tmp_path, "a.json", json.dumps(content)))
    assert columns_of(records) == {"text": ["a", "b"], "n": ["1", "2"]}


def test_lists_and_strings_as_rows(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.json", '[["a", 1], ["b", null]]'))
    assert columns_of(records) == {"column 1": ["a", "b"], "column 2": ["1", None]}
    records = open_records(write(tmp_path, "a.json", '["a", "b"]'))
    assert columns_of(records) == {"text": ["a", "b"]}


def test_single_object_is_a_row(tmp_path: Path) -> None:
    records = open_records(write(tmp_path, "a.json", '{"text": "a",\n "tags": ["b"]}'))
    assert columns_of(records) == {"text": ["a"], "tags": ['["b"]']}


def test_halves_of_surrogate_pairs_are_replaced(tmp_path: Path) -> None:
    for name, content in (
        ("a.jsonl", '{"a": "x\\ud83d", "b": "\\ud83d\\ude00"}'),
        ("a.json", '[{"a": "x\\ud83d", "b": "\\ud83d\\ude00"}]'),
    ):
        records = open_records(write(tmp_path, name, content))
        assert columns_of(records) == {"a": ["x\ufffd"], "b": ["😀"]}


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_lists_are_decoded_across_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    rows = [*ROWS, {"text": "x" * 50 + '\\"é\n' * 9, "label": 12345}]
    path = write(tmp_path, "a.json", json.dumps(rows, indent=1) + " \n ")
    expected = columns_of(open_records(path))
    monkeypatch.setattr(text_files, "READ_BLOCK_BYTES", block)
    assert columns_of(open_records(path)) == expected
    path = write(tmp_path, "numbers.json", "[1234,\n5678\n,9]")
    assert columns_of(open_records(path)) == {"value": ["1234", "5678", "9"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": 2', ", line 2, character 8: got text that is not JSON"),
        ("a.jsonl", '{"a": 1}\n\n5\n', ", line 3: got '5'; expected named fields, as in the first"),
        (
            "a.json",
            '[{"a": 1},\n{"a": 2}',
            "(Expecting ',' delimiter) at the end of the file; expected",
        ),
        ("a.json", '[{"a": 1}\n{"a": 2}]', ", line 2: got text that is not JSON (Expecting ','"),
        ("a.json", '[{"a": 1},\n{"a" 2}]', ", line 2: got text that is not JSON (Expecting ':'"),
        ("a.json", '[{"a": 1}] x', ", line 1: got text that is not JSON (Extra data) at"),
        ("a.json", '{"a": 1,\n "b" 2}', ", line 2, character 6: got text that is not JSON"),
        ("a.json", "[]", ": got no rows; expected at least one."),
        ("a.json", "", ": got an empty file; expected JSON."),
        ("a.jsonl", "[" * 100_000, ", line 1: got JSON that is nested too deeply"),
        ("a.json", "[" * 100_000, ", line 1: got JSON that is nested too deeply"),
        ("a.json", '{"train": [{"a": 1}], "test": [{"a": 1}]}', "a.json#train, "),
    ],
)
def test_wrong_json(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = write(tmp_path, name, content)
    assert complaint(path).startswith(str(path))
    assert message in complaint(path)


def test_fields_that_appear_late_are_noted(tmp_path: Path) -> None:
    lines = ['{"a": 1}'] * CHUNK_ROWS + ['{"b": 2}']
    records = open_records(write(tmp_path, "a.jsonl", "\n".join(lines)))
    assert records.columns == ("a",)
    assert records.notes == (f"the columns are the fields of the first {CHUNK_ROWS:,} rows",)


KEY = st.text(st.characters(codec="utf-8", exclude_characters="."), max_size=5)
VALUE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(
    st.lists(KEY, min_size=1, max_size=3, unique=True).flatmap(
        lambda keys: st.lists(st.fixed_dictionaries({k: VALUE for k in keys}), min_size=1)
    ),
    st.sampled_from(["lines", "list", "indented"]),
    st.booleans(),
)
def test_json_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    layout: str,
    ascii: bool,
) -> None:
    def cell(value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        return str(value).lower() if isinstance(value, bool) else repr(value)

    path = tmp_path_factory.mktemp("json") / ("a.jsonl" if layout == "lines" else "a.json")
    dumps = json.JSONEncoder(ensure_ascii=ascii, indent=1 if layout == "indented" else None).encode
    text = "\n".join(map(dumps, rows)) if layout == "lines" else dumps(rows)
    path.write_bytes(text.encode())
    expected = {key: [cell(row[key]) for row in rows] for key in rows[0]}
    assert columns_of(open_records(path)) == expected
