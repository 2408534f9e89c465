"""Division of files by the settings: tables, sentence pairs, labelled texts."""

import csv
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.parallel.config import PairsConfig
from saccade.data.split_keys import divide_table
from saccade.data.splits import SplitConfig
from saccade.data.tables.csv import Table, table_from_columns
from saccade.errors import ConfigError, DataError
from saccade.recipes.resolve import resolve_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.registry import task_spec_for
from saccade.tasks.translation.data import load_pair_splits
from saccade.types.arrays import IntArray


def split_rows(
    table: Table, dev: float, test: float, seed: int = 0, **settings: Any
) -> dict[str, IntArray]:
    config = SplitConfig(dev_share=dev, test_share=test, **settings)
    return divide_table(table, config, seed).rows()


# --- tables ---------------------------------------------------------------------------------------

some_rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=30, max_size=60)


@given(some_rows, st.floats(0.05, 0.3), st.floats(0.05, 0.3), st.integers(0, 3), st.randoms())
def test_rows_of_a_table_are_disjoint_and_independent_of_order(
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


def test_shares_of_a_table_are_exact_and_depend_on_the_seed() -> None:
    table = table_from_columns("t", {"a": list(range(200)), "b": list(range(200))})
    one, other = (split_rows(table, 0.1, 0.2, seed) for seed in (0, 1))
    assert [len(one[name]) for name in ("train", "dev", "test")] == [140, 20, 40]
    assert one["test"].tolist() != other["test"].tolist()
    with pytest.raises(ConfigError, match="expected a sum under 1"):
        split_rows(table, 0.5, 0.5)


def test_small_tables_are_refused() -> None:
    with pytest.raises(DataError, match=r"got 3 rows \(1 for train, 1 for dev, 1 for test\)"):
        split_rows(table_from_columns("t", {"a": [1, 2, 3], "b": [1, 2, 3]}), 0.1, 0.1)
    with pytest.raises(DataError, match="are kept together; try more rows"):
        split_rows(table_from_columns("t", {"a": [1] * 50, "b": [1] * 50}), 0.1, 0.1)


def test_rows_of_a_table_are_divided_by_their_sorted_digests() -> None:
    numbers = list(range(50))
    found = split_rows(table_from_columns("t", {"a": numbers, "b": numbers}), 0.1, 0.2, seed=3)

    def digest(number: int) -> int:
        text = f"3\x1f{number}\x1f{number}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")

    order = sorted(numbers, key=digest)
    assert found["test"].tolist() == sorted(order[:10])
    assert found["dev"].tolist() == sorted(order[10:15])


COLUMNS = {
    "x": [str(n) for n in range(60)],
    "person": [f"p{n % 12}" for n in range(60)],
    "day": [f"2024-{1 + n % 12:02d}-{1 + n // 12:02d}" for n in range(60)],
    "part": [["train", "train", "valid", "test"][n % 4] for n in range(60)],
    "label": [["a", "b", "c"][n % 3] for n in range(60)],
}
TABLE = table_from_columns("t", COLUMNS)


def values_of(column: str, rows: dict[str, IntArray]) -> dict[str, list[str]]:
    return {name: [COLUMNS[column][row] for row in some] for name, some in rows.items()}


def test_groups_of_a_table_are_not_divided() -> None:
    people = values_of("person", split_rows(TABLE, 0.1, 0.2, group_by=("person",)))
    sides = [set(people[name]) for name in ("train", "dev", "test")]
    assert sum(map(len, sides)) == len(set.union(*sides)) == 12


def test_the_last_rows_of_a_table_are_held_out() -> None:
    days = values_of("day", split_rows(TABLE, 0.1, 0.2, time="day"))
    assert max(days["train"]) < min(days["dev"]) <= max(days["dev"]) < min(days["test"])
    assert len(days["test"]) == 12


def test_a_column_names_the_splits_of_a_table() -> None:
    parts = values_of("part", split_rows(TABLE, 0.1, 0.2, split_column="part"))
    assert {name: set(found) for name, found in parts.items()} == {
        "train": {"train"},
        "dev": {"valid"},
        "test": {"test"},
    }


def test_classes_of_a_table_have_equal_shares() -> None:
    config = SplitConfig(dev_share=0.1, test_share=0.2, stratify=True)
    labels = values_of("label", divide_table(TABLE, config, 0, COLUMNS["label"]).rows())
    assert {name: labels["test"].count(name) for name in "abc"} == {"a": 4, "b": 4, "c": 4}
    assert {name: labels["dev"].count(name) for name in "abc"} == {"a": 2, "b": 2, "c": 2}
    with pytest.raises(ConfigError, match="data without classes"):
        divide_table(TABLE, config, 0)


def test_a_missing_column_of_a_table_is_named() -> None:
    with pytest.raises(DataError, match="no column 'user' to divide the rows by; it has: x"):
        split_rows(TABLE, 0.1, 0.2, group_by="user")


def write_rows(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return str(path)


def prepared(task: str, path: str, **changes: Any) -> Any:
    settings = {f"data.{name}": value for name, value in changes.items()}
    recipe = resolve_recipe(task, data=path, changes=settings).recipe
    return task_spec_for(recipe).prepare(recipe, PrepareContext())


def test_a_table_task_holds_out_given_files(tmp_path: Path) -> None:
    rows = [[str(n), str(n % 7), ["yes", "no"][n % 2]] for n in range(40)]
    names = ["x", "z", "label"]
    path = write_rows(tmp_path / "t.csv", names, rows)
    test = write_rows(tmp_path / "test.csv", names, [*rows[:3], ["99", "1", "no"]])
    found = prepared("table", path, target="label", test=test)
    assert len(found.splits["test"]) == 4
    assert len(found.splits["train"]) + len(found.splits["dev"]) == 37
    assert any("3 examples with an input that is held out" in note for note in found.notes)


def test_columns_that_divide_a_table_are_no_inputs(tmp_path: Path) -> None:
    rows = [[str(n), f"p{n % 12}", ["yes", "no"][n % 2]] for n in range(60)]
    path = write_rows(tmp_path / "t.csv", ["x", "person", "label"], rows)
    found = prepared("table", path, target="label", group_by="person")
    assert [column.name for column in found.preprocessor.columns] == ["x"]
    assert any("divided by 'person'" in note for note in found.notes)


# --- sentence pairs -------------------------------------------------------------------------------

PAIRS = [[f"source {n}", f"target {n}", f"doc{n % 40}", "train"] for n in range(400)]


def pair_splits(path: str, **settings: Any) -> dict[str, set[str]]:
    config = PairsConfig(path=path, source="en", target="de", **settings)
    loaded = load_pair_splits(config, lambda done, total: None)
    return {name: {source for source, _ in pairs} for name, pairs in loaded.pairs.items()}


def test_pairs_are_divided_by_groups_and_by_a_column(tmp_path: Path) -> None:
    names = ["en", "de", "doc", "part"]
    rows = [[*row[:3], ["train", "dev", "test"][n % 3]] for n, row in enumerate(PAIRS)]
    path = write_rows(tmp_path / "p.csv", names, rows)
    found = pair_splits(path, group_by=("doc",), dev_share=0.2, test_share=0.2)
    documents = {name: {int(s.split()[1]) % 40 for s in part} for name, part in found.items()}
    assert all(documents.values())
    assert sum(map(len, documents.values())) == len(set.union(*documents.values()))
    found = pair_splits(path, split_column="part")
    assert found["dev"] == {f"source {n}" for n in range(1, 400, 3)}


def test_pairs_of_a_given_file_are_left_out_of_the_training(tmp_path: Path) -> None:
    names = ["en", "de", "doc", "part"]
    path = write_rows(tmp_path / "p.csv", names, PAIRS)
    held_out = [["source 7", "another target", "", ""], ["source 999", "new", "", ""]]
    test = write_rows(tmp_path / "test.csv", names, held_out)
    found = pair_splits(path, test=test)
    assert found["test"] == {"source 7", "source 999"}
    assert "source 7" not in found["train"] | found["dev"]


def test_pairs_without_columns_cannot_be_grouped(tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("".join(f"{side} {n}\n" for n in range(50)))
    config = PairsConfig(path=f"{tmp_path}/a.en,{tmp_path}/a.de", group_by="doc")
    with pytest.raises(ConfigError, match="the data has no columns"):
        load_pair_splits(config, lambda done, total: None)
    with pytest.raises(ConfigError, match="which has its own splits"):
        load_pair_splits(PairsConfig(synthetic="copy", group_by="doc"), lambda done, total: None)


# --- labelled texts -------------------------------------------------------------------------------

TEXTS = [[f"text number {n} of many", "abcd"[n % 4], f"u{n % 30}"] for n in range(400)]


def sizes(found: Any) -> dict[str, int]:
    return {name: len(split.labels.starts) - 1 for name, split in found.splits.items()}


def test_labelled_texts_are_stratified(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv", ["text", "label", "user"], TEXTS)
    found = prepared("classify", path, stratify=True, dev_share=0.1, test_share=0.2)
    assert sizes(found) == {"train": 280, "dev": 40, "test": 80}
    labels = found.splits["test"].labels.rows.tolist()
    assert [labels.count(label) for label in range(4)] == [20] * 4


def test_labelled_texts_are_grouped_and_held_out(tmp_path: Path) -> None:
    blank = [["", "a", "u1"], [" ", "b", "u2"]]  # rows without a text are skipped
    path = write_rows(tmp_path / "t.csv", ["text", "label", "user"], [*blank, *TEXTS])
    found = prepared("classify", path, group_by="user", dev_share=0.2, test_share=0.2)
    counts = sizes(found)
    assert sum(counts.values()) == 400 and all(counts.values())
    # users 0–9 have 14 texts, the others 13
    assert counts["test"] != round(0.2 * 400)
    test = write_rows(tmp_path / "test.csv", ["text", "label", "user"], TEXTS[:5])
    found = prepared("classify", path, test=test)
    assert sizes(found)["test"] == 5
    assert sizes(found)["train"] + sizes(found)["dev"] == 395
