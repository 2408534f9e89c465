"""Tables as files have them, and which rows are held out."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.tables.csv import (
    DELIMITERS,
    is_numeric_cell,
    read_table,
    split_rows,
    table_from_columns,
)
from saccade.errors import ConfigError, DataError


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("mark", DELIMITERS)
def test_cells_lines_and_quotation_marks_are_as_they_were(mark: str, tmp_path: Path) -> None:
    text = (
        f'\ufeff\r\nname{mark}size\r\n"a{mark}b"{mark} 1.5\r\n\r\n"two\nlines"{mark}"say ""x"""\r\n'
    )
    table = read_table(written(tmp_path, text))
    assert table.columns == {"name": [f"a{mark}b", "two\nlines"], "size": ["1.5", 'say "x"']}
    assert table.lines.tolist() == [3, 5]
    assert table.delimiter == mark and not table.row_errors
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_table(packed).columns == table.columns


def test_where_semicolons_part_cells_a_comma_may_part_digits(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a;b;c\n1,5;-2,25;one, two\n3;+4,0;1,2,3\n"))
    assert table.columns == {"a": ["1.5", "3"], "b": ["-2.25", "+4.0"], "c": ["one, two", "1,2,3"]}


def test_a_column_without_a_name_gets_one_and_empty_rows_are_none(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, ",x\n0,a\n,\n1,b\n , \n"))
    assert table.columns == {"column 1": ["0", "1"], "x": ["a", "b"]}
    assert table.lines.tolist() == [2, 4]


cell = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=8), st.sampled_from(DELIMITERS))
def test_what_a_writer_of_csv_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]], mark: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=mark, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([("p", "q", "r"), *rows])
    wanted = [[one.strip() for one in row] for row in rows]
    wanted = [row for row in wanted if any(row)]
    if not wanted:
        with pytest.raises(DataError, match="nothing below"):
            read_table(path)
        return
    found = zip(*read_table(path).columns.values(), strict=True)
    if mark != ";":  # there 1,5 is 1.5
        assert [list(row) for row in found] == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"table.csv is empty; a row of names and rows below it were wanted"),
        ("\n\n  \n", r"is empty"),
        ("a,b\n\n", r"has a row of names and nothing below"),
        ("1.5,2,x\n2,3,y\n", r"line 1: the first row holds numbers \(1.5, 2\); names"),
        ("just words\nand more\n", r"line 1: the first row is one cell \('just words'\)"),
        ("a,b,a\n1,2,3\n", r"line 1: 'a' names more than one column"),
        ('a,b\n1,2\n3,"4\n5,6\n', r"line 3: this is no row of a table .*quotation mark"),
    ],
)
def test_what_is_no_table_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_table(written(tmp_path, text))


def test_rows_of_another_length_are_all_complained_of_by_line(tmp_path: Path) -> None:
    rows = ["1,2", "1", "3,4", "1,2,3", *["5"] * 6]
    table = read_table(written(tmp_path, "a,b\n" + "\n".join(rows)))
    assert table.columns == {"a": ["1", "3"], "b": ["2", "4"]}
    assert table.row_errors[:2] == (
        "line 3: 1 cell; 2 were wanted",
        "line 5: 3 cells; 2 were wanted",
    )
    assert table.row_errors[-1] == "… and 3 more like these" and len(table.row_errors) == 6


def test_what_a_number_is() -> None:
    for text in ("1", "-2.5", "1e3", "+.5", "1e99"):
        assert is_numeric_cell(text)
    for text in ("", "nan", "inf", "1_000", "1,5", "one", "0x1f", "1e300"):
        assert not is_numeric_cell(text)


# --- sides ----------------------------------------------------------------------------------------

some_rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=30, max_size=60)


@given(some_rows, st.floats(0.05, 0.3), st.floats(0.05, 0.3), st.integers(0, 3), st.randoms())
def test_sides_share_no_row_and_do_not_depend_on_the_order(
    rows: list[tuple[int, int]], dev: float, test: float, seed: int, mixing: object
) -> None:
    def sides(rows: list[tuple[int, int]]) -> dict[str, list[tuple[int, int]]]:
        table = table_from_columns("t", {"a": [a for a, _ in rows], "b": [b for _, b in rows]})
        found = split_rows(table, dev, test, seed)
        places = np.concatenate([*found.values()])
        assert sorted(places.tolist()) == list(range(len(rows)))
        assert all(np.all(np.diff(some) > 0) for some in found.values())
        return {name: sorted(rows[at] for at in some) for name, some in found.items()}

    try:
        one = sides(rows)
    except DataError:  # too few that differ
        return
    assert not set(one["train"]) & set(one["test"]) and not set(one["train"]) & set(one["dev"])
    assert not set(one["dev"]) & set(one["test"])
    again = list(rows)
    mixing.shuffle(again)  # type: ignore[attr-defined]
    assert sides(again) == one


def test_shares_are_exact_and_another_seed_is_another_split() -> None:
    table = table_from_columns("t", {"a": list(range(200)), "b": list(range(200))})
    one, other = (split_rows(table, 0.1, 0.2, seed) for seed in (0, 1))
    assert [len(one[name]) for name in ("train", "dev", "test")] == [140, 20, 40]
    assert one["test"].tolist() != other["test"].tolist()
    with pytest.raises(ConfigError, match="leave nothing to learn from"):
        split_rows(table, 0.5, 0.5)


def test_too_few_rows_to_hold_any_out_are_refused() -> None:
    with pytest.raises(DataError, match=r"has 3 rows \(1 for train, 1 for dev, 1 for test\)"):
        split_rows(table_from_columns("t", {"a": [1, 2, 3], "b": [1, 2, 3]}), 0.1, 0.1)
    with pytest.raises(DataError, match="Rows that are alike count together"):
        split_rows(table_from_columns("t", {"a": [1] * 50, "b": [1] * 50}), 0.1, 0.1)
    with pytest.raises(ValueError, match=r"columns of \[1, 2\] cells"):
        table_from_columns("t", {"a": [1, 2], "b": [1]})
