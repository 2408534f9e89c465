"""Reading, writing and splitting of delimited tables."""

import csv
import gzip
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.records.base import ReadOptions
from saccade.data.tables.csv import (
    DELIMITERS,
    MAX_MAGNITUDE,
    read_table,
    split_rows,
    table_from_columns,
)
from saccade.errors import ConfigError, DataError
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


# --- splits ---------------------------------------------------------------------------------------

some_rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=30, max_size=60)


@given(some_rows, st.floats(0.05, 0.3), st.floats(0.05, 0.3), st.integers(0, 3), st.randoms())
def test_split_rows_is_disjoint_and_independent_of_order(
    rows: list[tuple[int, int]], dev: float, test: float, seed: int, mixing: object
) -> None:
    def sides(rows: list[tuple[int, int]]) -> dict[str, list[tuple[int, int]]]:
        table = table_from_columns("t", {"a": [a for a, _ in rows], "b": [b for _, b in rows]})
        found = split_rows(table, dev, test, seed)
        indices = np.concatenate([*found.values()])
        assert sorted(indices.tolist()) == list(range(len(rows)))
        assert all(np.all(np.diff(some) > 0) for some in found.values())
        return {name: sorted(rows[at] for at in some) for name, some in found.items()}

    try:
        one = sides(rows)
    except DataError:  # too small a number of different rows
        return
    assert not set(one["train"]) & set(one["test"]) and not set(one["train"]) & set(one["dev"])
    assert not set(one["dev"]) & set(one["test"])
    again = list(rows)
    mixing.shuffle(again)  # type: ignore[attr-defined]
    assert sides(again) == one


def test_split_rows_shares_are_exact_and_depend_on_the_seed() -> None:
    table = table_from_columns("t", {"a": list(range(200)), "b": list(range(200))})
    one, other = (split_rows(table, 0.1, 0.2, seed) for seed in (0, 1))
    assert [len(one[name]) for name in ("train", "dev", "test")] == [140, 20, 40]
    assert one["test"].tolist() != other["test"].tolist()
    with pytest.raises(ConfigError, match="expected a sum under 1"):
        split_rows(table, 0.5, 0.5)


def test_split_rows_rejects_small_tables() -> None:
    with pytest.raises(DataError, match=r"got 3 rows \(1 for train, 1 for dev, 1 for test\)"):
        split_rows(table_from_columns("t", {"a": [1, 2, 3], "b": [1, 2, 3]}), 0.1, 0.1)
    with pytest.raises(DataError, match="are kept together; try more rows"):
        split_rows(table_from_columns("t", {"a": [1] * 50, "b": [1] * 50}), 0.1, 0.1)
    with pytest.raises(ValueError, match=r"columns of \[1, 2\] cells"):
        table_from_columns("t", {"a": [1, 2], "b": [1]})


def test_split_rows_are_those_of_the_sorted_digests() -> None:
    numbers = list(range(50))
    found = split_rows(table_from_columns("t", {"a": numbers, "b": numbers}), 0.1, 0.2, seed=3)

    def digest(number: int) -> int:
        text = f"3\x1f{number}\x1f{number}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")

    order = sorted(numbers, key=digest)
    assert found["test"].tolist() == sorted(order[:10])
    assert found["dev"].tolist() == sorted(order[10:15])
