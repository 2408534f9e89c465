"""Parquet, Arrow, Excel and SQLite files as records, and folders of datasets."""

import datetime
import gzip
import io
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.records import columnar
from saccade.data.records.base import CHUNK_ROWS, ReadOptions, Records
from saccade.data.records.open import open_records
from saccade.errors import DataError, MissingPackageError
from saccade.io.byte_source import file_source


def columns_of(records: Records) -> dict[str, list[str | None]]:
    cells: dict[str, list[str | None]] = {name: [] for name in records.columns}
    for chunk in records.chunks():
        assert 0 < len(chunk) <= CHUNK_ROWS
        for name, column in chunk.columns.items():
            assert len(column) == len(chunk)
            cells[name] += column
    return cells


def complaint(data: str | Path) -> str:
    with pytest.raises(DataError) as caught:
        columns_of(open_records(data))
    return str(caught.value)


# --- round trips ----------------------------------------------------------------------------------

# Excel cannot hold most control characters, and has no empty texts
TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1)
VALUES = {
    "text": TEXT | st.none(),
    "integer": st.integers(-(2**53), 2**53) | st.none(),
    "number": st.floats(-1e300, 1e300) | st.none(),
    "flag": st.booleans() | st.none(),
    "day": st.dates(datetime.date(1910, 1, 1), datetime.date(2100, 1, 1)) | st.none(),
}
SCHEMA = {
    "text": pl.String,
    "integer": pl.Int64,
    "number": pl.Float64,
    "flag": pl.Boolean,
    "day": pl.Date,
}


def write_sqlite(frame: pl.DataFrame, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rows (text, integer, number, flag, day)")
        rows = [(*row[:4], row[4] and row[4].isoformat()) for row in frame.rows()]
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()


def write_excel(frame: pl.DataFrame, path: Path) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("rows")
    sheet.append(frame.columns)
    for row in frame.rows():
        sheet.append(row)
    book.save(path)


WRITERS: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    "a.parquet": lambda frame, path: frame.write_parquet(path),
    "a.arrow": lambda frame, path: frame.write_ipc(path),
    "zstd.arrow": lambda frame, path: frame.write_ipc(path, compression="zstd"),
    "stream.arrow": lambda frame, path: frame.write_ipc_stream(path),
    "a.feather": lambda frame, path: frame.write_ipc(path),
    "a.db": write_sqlite,
    "a.xlsx": write_excel,
    "polars.csv": lambda frame, path: frame.write_csv(path),
    "pandas.csv": lambda frame, path: pd.DataFrame(frame.to_dict(as_series=False)).to_csv(
        path, index=False
    ),
    "polars.jsonl": lambda frame, path: frame.write_ndjson(path),
    "polars.json": lambda frame, path: frame.write_json(path),
}


def meaning(cell: str | None, kind: str) -> Any:
    """Return the value that a cell stands for."""
    if cell is None or cell == "":
        return None
    if kind == "number":
        return float(cell)
    if kind == "flag":
        return {"true": True, "false": False, "1": True, "0": False, "True": True, "False": False}[
            cell
        ]
    if kind == "integer":
        return int(float(cell)) if "." in cell or "e" in cell else int(cell)
    return cell


@given(
    rows=st.lists(st.tuples(*VALUES.values()).filter(any), min_size=1, max_size=6),
    name=st.sampled_from(sorted(WRITERS)),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], name: str
) -> None:
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    path = tmp_path_factory.mktemp("files") / name
    WRITERS[name](frame, path)
    options = ReadOptions(header=True, encoding="utf-8", quoting=True, delimiter=",")
    records = open_records(path, options if path.suffix == ".csv" else None)
    found = columns_of(records)
    for kind, column in zip(VALUES, zip(*rows, strict=True), strict=True):
        if kind not in found:  # a sheet leaves out empty columns
            assert path.suffix == ".xlsx"
            assert not any(value is not None for value in column)
            continue
        expected = [value.isoformat() if kind == "day" and value else value for value in column]
        if kind == "number" and path.suffix == ".xlsx":  # openpyxl writes 16 digits
            expected = [value if value is None else float(f"{value:.16g}") for value in column]
        assert [meaning(cell, kind) for cell in found[kind]] == expected, kind


# --- Parquet and Arrow ----------------------------------------------------------------------------

FRAME = pl.DataFrame(
    {
        "time": [datetime.datetime(2024, 1, 2, 3, 4, 5), None],
        "translation": [{"en": "a", "fr": {"text": "b"}}, None],
        "tags": [["x", "é"], []],
        "raw": [b"caf\xc3\xa9", None],
        "kind": ["u", "v"],
        "nan": [float("nan"), 1.5],
    },
    schema_overrides={"kind": pl.Categorical, "nan": pl.Float32},
)
CELLS = {
    "time": ["2024-01-02T03:04:05", None],
    "translation.en": ["a", None],
    "translation.fr.text": ["b", None],
    "tags": ['["x", "é"]', "[]"],
    "raw": ["café", None],
    "kind": ["u", "v"],
    "nan": [None, "1.5"],
}


@pytest.mark.parametrize("write", ["write_parquet", "write_ipc", "write_ipc_stream"])
def test_types(tmp_path: Path, write: str) -> None:
    getattr(FRAME, write)(tmp_path / "data.bin")  # the format is known by the first bytes
    records = open_records(tmp_path / "data.bin")
    assert columns_of(records) == CELLS
    assert records.unit == "row"
    chunk = next(records.chunks(["nan", "translation.en"]))
    assert chunk.columns == {"nan": [None, "1.5"], "translation.en": ["a", None]}


@pytest.mark.parametrize("write", ["write_parquet", "write_ipc", "write_ipc_stream"])
def test_many_batches(tmp_path: Path, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "ARROW_GROUP_BYTES", 1 << 16)
    count = 3 * CHUNK_ROWS + 7
    frame = pl.DataFrame({"n": range(count), "text": [f"row {n}" for n in range(count)]})
    path = tmp_path / "rows"
    if write == "write_ipc_stream":
        path.write_bytes(stream_of_batches([frame[n : n + 1000] for n in range(0, count, 1000)]))
        groups = list(columnar._stream_groups(file_source(path), 1 << 16))
        assert len(groups) > 3
        assert max(map(len, groups)) < 1 << 18
    else:
        getattr(frame, write)(path, **({"row_group_size": 5000} if "parquet" in write else {}))
    records = open_records(path)
    numbers = [number for chunk in records.chunks(["n"]) for number in chunk.numbers.tolist()]
    assert numbers == list(range(1, count + 1))
    assert columns_of(records)["n"] == list(map(str, range(count)))
    assert records.head(3).columns["text"] == ["row 0", "row 1", "row 2"]


def stream_of_batches(frames: list[pl.DataFrame]) -> bytes:
    """Return a stream with a record batch for each frame, as Hugging Face writes them."""
    written = []
    for frame in frames:
        stream = io.BytesIO()
        frame.write_ipc_stream(stream)
        stream.seek(0)
        messages = list(columnar._stream_messages(stream))
        assert [message.kind for message in messages] == [1, 3]
        written += [message.content for message in messages[bool(written) :]]
    return b"".join([*written, columnar.ARROW_CONTINUATION, bytes(4)])


def test_frame_without_rows(tmp_path: Path) -> None:
    for write in ("write_parquet", "write_ipc", "write_ipc_stream"):
        getattr(FRAME[:0], write)(tmp_path / write)
        records = open_records(tmp_path / write)
        assert records.columns == tuple(CELLS)
        assert list(records.chunks()) == []


def test_class_names_of_parquet(tmp_path: Path) -> None:
    features = {
        "label": {"names": ["bad", "good"], "_type": "ClassLabel"},
        "text": {"_type": "Value"},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    frame = pl.DataFrame({"text": ["a", "b", "c"], "label": [1, 0, -1]})
    frame.write_parquet(tmp_path / "a.parquet", metadata=metadata)
    records = open_records(tmp_path / "a.parquet")
    assert columns_of(records)["label"] == ["good", "bad", None]
    assert records.notes == (
        "the numbers in 'label' are replaced by the names of classes: bad, good",
    )


@pytest.mark.parametrize("write", ["write_parquet", "write_ipc", "write_ipc_stream"])
def test_damaged_columnar_files(tmp_path: Path, write: str) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"n": range(5000)}).with_columns(t=pl.col("n").cast(pl.String)).pipe(
        lambda frame: getattr(frame, write)(path)
    )
    path.write_bytes(path.read_bytes()[:-3000])
    kind = "Parquet" if write == "write_parquet" else "Arrow"
    assert f"{path}: got a file that cannot be read as {kind} (" in complaint(path)


# --- SQLite ---------------------------------------------------------------------------------------


def database(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_tables_of_a_database(tmp_path: Path) -> None:
    path = database(
        tmp_path / "my data.db",
        'CREATE TABLE "re ""views" ("the text" TEXT, label INTEGER)',
        """INSERT INTO "re ""views" VALUES ('it''s é', 1), (NULL, 2)""",
        "CREATE TABLE other (x)",
    )
    records = open_records(f'{path}#re "views')
    assert columns_of(records) == {"the text": ["it's é", None], "label": ["1", "2"]}
    assert records.where(2) == f'{path}#re "views, row 2'
    assert next(records.chunks(["label"])).columns == {"label": ["1", "2"]}
    assert complaint(path) == (
        f"{path}: got a database with 2 tables; expected the name of one; try one of: "
        f'{path}#other, {path}#re "views'
    )
    assert "got no table 'others'. Did you mean 'other'?" in complaint(f"{path}#others")


def test_database_without_tables(tmp_path: Path) -> None:
    path = database(tmp_path / "a.db", "CREATE TABLE t (x)", "DROP TABLE t")
    assert complaint(path) == f"{path}: got a database without tables; expected one or more."


def test_damaged_database(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a.db",
        "CREATE TABLE t (x)",
        "INSERT INTO t SELECT hex(randomblob(500)) FROM json_each('[1,2,3,4,5,6,7,8,9,10]')",
    )
    path.write_bytes(path.read_bytes()[:5000] + bytes(3000))
    assert "got a database that cannot be read (database disk image is malformed)" in complaint(
        path
    )


def test_compressed_database_and_parquet(tmp_path: Path) -> None:
    path = database(tmp_path / "a.db", "CREATE TABLE t (x)", "INSERT INTO t VALUES (5)")
    packed = tmp_path / "b.db.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert columns_of(open_records(packed)) == {"x": ["5"]}
    content = io.BytesIO()
    pl.DataFrame({"x": [5]}).write_parquet(content)
    (tmp_path / "c.parquet.gz").write_bytes(gzip.compress(content.getvalue()))
    assert columns_of(open_records(tmp_path / "c.parquet.gz")) == {"x": ["5"]}


# --- Excel ----------------------------------------------------------------------------------------


MOMENT = datetime.datetime(2024, 1, 2, 3, 4)


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    book = openpyxl.Workbook()
    empty = book.active
    assert empty is not None
    empty.title = "Cover"
    sheet = book.create_sheet("Data")
    for row in [
        ["Report of 2024"],
        [],
        ["text", "n", "share", "when", "at", "clock", None, "ok"],
        [
            "007",
            3,
            0.5,
            datetime.date(2024, 1, 2),
            datetime.datetime(2024, 1, 2, 3, 4),
            datetime.time(3, 4),
            None,
            True,
        ],
        [],
        ["b", 4.25, None, None, None, None, None, False],
    ]:
        sheet.append(row)
    book.create_sheet("Plain").append([1, 2])
    path = tmp_path / "book.xlsx"
    book.save(path)
    return path


def test_sheets(workbook: Path) -> None:
    records = open_records(workbook)
    assert columns_of(records) == {
        "text": ["007", "b"],
        "n": ["3", "4.25"],
        "share": ["0.5", None],
        "when": ["2024-01-02", None],
        "at": ["2024-01-02T03:04:00", None],
        "clock": ["03:04:00", None],
        "ok": ["true", "false"],
    }
    assert [list(chunk.numbers) for chunk in records.chunks()] == [[4, 6]]
    assert records.notes[:2] == (
        f"read the sheet 'Data'; the others are {workbook}#Cover, {workbook}#Plain",
        "the rows above row 3 are left out: they are no table",
    )
    plain = open_records(f"{workbook}#Plain")
    assert columns_of(plain) == {"column 1": ["1"], "column 2": ["2"]}
    assert "got a sheet 'Cover' without cells; expected a table." in complaint(f"{workbook}#Cover")
    assert "got no sheet 'data'. Did you mean 'Data'? It has:" in complaint(f"{workbook}#data")


def test_damaged_workbook(workbook: Path) -> None:
    content = workbook.read_bytes()
    at = content.index(b"xl/worksheets/sheet2.xml") + 60
    workbook.write_bytes(content[:at] + bytes(50) + content[at + 50 :])
    assert "got a workbook that cannot be read (" in complaint(workbook)


# --- extras ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (
            "polars",
            "a.parquet",
            "a Parquet file, which needs polars: pip install 'saccade[files]'",
        ),
        ("polars", "a.arrow", "is an Arrow file, which needs polars: pip install 'saccade[files]'"),
        ("python_calamine", "a.xlsx", "which needs python-calamine: pip install 'saccade[files]'"),
    ],
)
def test_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, message: str
) -> None:
    WRITERS[name](pl.DataFrame({"x": [5]}), tmp_path / name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError) as caught:
        open_records(tmp_path / name)
    assert message in str(caught.value)
