"""Reading and writing of delimited tables."""

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.records.base import ReadOptions
from saccade.data.tables.csv import (
    DELIMITERS,
    MAX_MAGNITUDE,
    read_table,
    table_from_columns,
)
from saccade.errors import DataError
from saccade.io.numbers import is_number


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_read_table_parses_quotes_lines_and_delimiters(delimiter: str, tmp_path: Path) -> None:
    rows = ["name|size", '"a|b"| 1.5', "", '"two\nlines"|"an ""x"""']
    text = "\ufeff\r\n" + "".join(f"{row}\r\n" for row in rows).replace("|", delimiter)
    table = read_table(written(tmp_path, text))
    assert table.columns == {"name": [f"a{delimiter}b", "two\nlines"], "size": ["1.5", 'an "x"']}
    assert table.lines.tolist() == [3, 5]
    assert table.delimiter == delimiter
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_table(packed).columns == table.columns


def test_read_table_reads_decimal_commas_between_semicolons(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a;b;c\n1,5;-2,25;one, two\n3;+4,0;1,2,3\n"))
    assert table.columns == {"a": ["1.5", "3"], "b": ["-2.25", "+4.0"], "c": ["one, two", "1,2,3"]}


def test_read_table_names_columns_and_skips_empty_rows(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, ",x\n0,a\n,\n1,b\n , \n"))
    assert table.columns == {"column 1": ["0", "1"], "x": ["a", "b"]}
    assert table.lines.tolist() == [2, 4]


cell = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=8), st.sampled_from(DELIMITERS))
def test_read_table_reads_what_csv_writer_writes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]], delimiter: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([("p", "q", "r"), *rows])
    expected = [[cell.strip() for cell in row] for row in rows]
    expected = [row for row in expected if any(row)]
    options = ReadOptions(header=True, delimiter=delimiter, quoting=True)
    if not expected:
        with pytest.raises(DataError, match="no row below"):
            read_table(path, options)
        return
    found = zip(*read_table(path, options).columns.values(), strict=True)
    if delimiter != ";":  # where 1,5 is read as 1.5
        assert [list(row) for row in found] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"table.csv: got an empty file; expected rows"),
        ("\n\n  \n", r"got an empty file"),
        ("label,text\n\n", r"got a header row and no row below it"),
        ("just words\nand more\n", r"got one column \('just words'\); .*data.delimiter="),
    ],
)
def test_read_table_rejects_files_that_are_no_table(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read_table(written(tmp_path, text))


def test_read_table_without_a_header_numbers_the_columns(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "1.5,2,x\n2,3,y\n"))
    assert table.columns == {
        "column 1": ["1.5", "2"],
        "column 2": ["2", "3"],
        "column 3": ["x", "y"],
    }
    assert table.lines.tolist() == [1, 2] and "no header" in table.notes[0]
    table = read_table(written(tmp_path, "a,b,a\n1,2,3\n"))
    assert list(table.columns) == ["a", "b", "a (2)"]


def test_read_table_lists_ragged_rows_by_line(tmp_path: Path) -> None:
    rows = ["1,2", "1", "3,4", "1,2,3", *["5"] * 6]
    with pytest.raises(DataError) as caught:
        read_table(written(tmp_path, "a,b\n" + "\n".join(rows)))
    message = str(caught.value)
    assert "line 3: got 1 cell; expected 2" in message
    assert "line 5: got 3 cells; expected 2" in message and "… and 3 more" in message


def test_is_number_accepts_finite_numbers_only() -> None:
    for text in ("1", "-2.5", "1e3", "+.5", "1e99"):
        assert is_number(text, MAX_MAGNITUDE)
    for text in ("", "nan", "inf", "1_000", "1,5", "one", "0x1f", "1e300"):
        assert not is_number(text, MAX_MAGNITUDE)
    assert is_number("1e300")


def test_columns_have_one_length() -> None:
    with pytest.raises(ValueError, match=r"columns of \[1, 2\] cells"):
        table_from_columns("t", {"a": [1, 2], "b": [1]})
