"""Every task divides its data in the same ways, and no example is in two splits."""

import csv
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.special_tokens import EOS
from saccade.data.splits import SPLIT_NAMES
from saccade.data.text.word_corpus import LINE_END
from saccade.errors import ConfigError, DataError
from saccade.recipes.resolve import resolve_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.registry import task_spec_for

Row = tuple[int, str, int, str]  # number of the example, group, day, split
Sides = dict[str, set[Any]]


class TaskCase(NamedTuple):
    """How an example is written for a task, and read from its splits."""

    cells: Callable[[int], dict[str, str]]  # example → columns of a file
    sides: Callable[[Any, dict[str, list[Row]]], Sides]  # the prepared data and its files
    settings: dict[str, Any]
    model: str | None = None
    key: Callable[[Row], Any] = lambda row: row[0]  # by which examples are equal


def text(number: int) -> str:
    """Return a text by whose length the example is known, of words that all examples have."""
    return "a" + " b" * (number + 1)


def lengths(ids: Sequence[int], end: int) -> set[int]:
    """Return the examples of lines of token ids."""
    lines = np.split(np.asarray(ids), np.flatnonzero(np.asarray(ids) == end) + 1)
    return {int((line != end).sum()) - 2 for line in lines if (line != end).any()}


def of_translation(prepared: Any, files: dict[str, list[Row]]) -> Sides:
    return {
        name: {source.count("b") - 1 for source, _ in split.pairs}
        for name, split in prepared.splits.items()
    }


def of_classification(prepared: Any, files: dict[str, list[Row]]) -> Sides:
    return {
        name: set((np.diff(split.words.starts) - 2).tolist())
        for name, split in prepared.splits.items()
    }


def of_table(prepared: Any, files: dict[str, list[Row]]) -> Sides:
    """Return the rows at the lines of each split; of a table, the whole row is the example."""
    return {
        name: {files.get(name, files["train"])[line - 2] for line in split.rows.lines.tolist()}
        for name, split in prepared.splits.items()
    }


def of_language(prepared: Any, files: dict[str, list[Row]]) -> Sides:
    return {name: lengths(corpus.ids, EOS) for name, corpus in prepared.splits.items()}


def of_vectors(prepared: Any, files: dict[str, list[Row]]) -> Sides:
    found = {
        name: lengths(prepared.splits[name].corpus.held_out, LINE_END) for name in ("dev", "test")
    }
    return {"train": lengths(prepared.splits["train"].corpus.ids, LINE_END), **found}


TASKS = {
    "translate": TaskCase(
        lambda n: {"source": text(n), "target": text(n)},
        of_translation,
        {"source": "source", "target": "target"},
    ),
    "classify": TaskCase(
        lambda n: {"text": text(n), "label": "xy"[n % 2]},
        of_classification,
        {"text": "text", "label": "label", "min_count": 1},
        "fasttext",
    ),
    "table": TaskCase(
        lambda n: {"number": str(n), "label": "xy"[n % 2]},
        of_table,
        {"target": "label", "target_type": "class"},
        "softmax",
        key=lambda row: row,
    ),
    "language": TaskCase(
        lambda n: {"text": text(n)},
        of_language,
        {"text": "text", "tokenizer.kind": "word"},
        "ngram",
    ),
    "vectors": TaskCase(
        lambda n: {"text": text(n)},
        of_vectors,
        {"text": "text", "min_count": 1},
    ),
}
SHARES = {"dev_share": 0.2, "test_share": 0.2}
WAYS: dict[str, dict[str, Any]] = {
    "files": {"dev": "dev.csv", "test": "test.csv"},
    "column": {"split_column": "part"},
    "groups": {"group_by": "group"},
    "time": {"time": "day"},
}


def write_rows(path: Path, case: TaskCase, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*case.cells(0), "group", "day", "part"])
        writer.writerows([*case.cells(n).values(), *more] for n, *more in rows)


def divided(task: str, way: str, rows: list[Row]) -> tuple[Sides, list[str]]:
    """Write the rows, divide them in a way, and return the examples of each split, and notes."""
    case = TASKS[task]
    files = {"train": rows}
    if way == "files":
        files = {part: [row for row in rows if row[3] == part] for part in SPLIT_NAMES}
    changes = {f"data.{name}": value for name, value in {**SHARES, **case.settings}.items()}
    if task == "table":
        changes["data.ignore"] = ",".join({"group", "day", "part"} - {*WAYS[way].values()})
    with tempfile.TemporaryDirectory() as folder:
        for part, some in files.items():
            write_rows(Path(folder, f"{part}.csv"), case, some)
        for name, value in WAYS[way].items():
            changes[f"data.{name}"] = f"{folder}/{value}" if way == "files" else value
        path = f"{folder}/train.csv"
        recipe = resolve_recipe(task, model=case.model, data=path, changes=changes).recipe
        prepared = task_spec_for(recipe).prepare(recipe, PrepareContext())
        return case.sides(prepared, files), prepared.notes


def are_disjoint(sides: Sides) -> bool:
    return sum(map(len, sides.values())) == len(set.union(*sides.values()))


each_task = pytest.mark.parametrize("task", TASKS)
each_way = pytest.mark.parametrize("way", WAYS)


def plain_rows(count: int = 60) -> list[Row]:
    """Return rows of which some are repeated in other groups, on other days and in other splits."""
    return [
        (n % 50, f"g{n % 22}", n // 3, ["train", "train", "dev", "test"][n // 10 % 4])
        for n in range(count)
    ]


@each_task
@each_way
def test_no_example_is_in_two_splits(task: str, way: str) -> None:
    rows, key = plain_rows(), TASKS[task].key
    sides, _ = divided(task, way, rows)
    assert all(sides.values())
    assert are_disjoint(sides)
    if way in ("files", "column"):
        parts = {name: {key(row) for row in rows if row[3] == name} for name in SPLIT_NAMES}
        assert sides["test"] == parts["test"]
        assert sides["dev"] == parts["dev"] - parts["test"]
    if way == "time":
        days = {n: [row[2] for row in rows if key(row) in sides[n]] for n in SPLIT_NAMES}
        last = {key(row): row[2] for row in rows}
        assert min(last[example] for example in sides["test"]) > max(days["train"])


@each_task
def test_no_group_is_divided(task: str) -> None:
    rows, key = plain_rows(50), TASKS[task].key
    sides, _ = divided(task, "groups", rows)
    groups = {n: {row[1] for row in rows if key(row) in sides[n]} for n in SPLIT_NAMES}
    assert are_disjoint(groups) and sum(map(len, sides.values())) == 50


some_rows = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from([f"g{n}" for n in range(9)]),
        st.integers(0, 20),
        st.sampled_from(SPLIT_NAMES),
    ),
    min_size=12,
    max_size=50,
)


@each_task
@given(rows=some_rows, way=st.sampled_from(list(WAYS)))
def test_no_example_of_any_file_is_in_two_splits(task: str, rows: list[Row], way: str) -> None:
    try:
        sides, notes = divided(task, way, rows)
    except DataError:  # too few different rows
        return
    if not any("are used" in note for note in notes):  # nothing was left for a split
        assert are_disjoint(sides)


# --- series ---------------------------------------------------------------------------------------


def series_splits(folder: Path, lines: Sequence[str], **settings: Any) -> Any:
    path = folder / "series.csv"
    path.write_text("\n".join(lines))
    changes = {f"data.{name}": value for name, value in settings.items()}
    recipe = resolve_recipe("forecast", data=str(path), changes=changes).recipe
    return task_spec_for(recipe).prepare(recipe, PrepareContext())


def held_out_values(prepared: Any) -> dict[str, list[float]]:
    """Return the values of train, and those of dev and test that are predicted."""
    parts = {
        name: [v for values, start in split for v in values[start:].tolist()]
        for name, split in prepared.splits.items()
    }
    parts["train"] = [v for values, _ in prepared.splits["train"] for v in values.tolist()]
    return parts


DAYS = ["day,value,part", *(f"{n},{n},{['train', 'dev', 'test'][n // 20]}" for n in range(60))]


def test_values_of_a_series_are_divided_in_the_order_of_time(tmp_path: Path) -> None:
    rows = [DAYS[0], *reversed(DAYS[1:])]
    settings = {"target": "value", "time": "day"}
    found = held_out_values(series_splits(tmp_path, rows, **settings))
    assert found == {
        "train": [*map(float, range(36))],
        "dev": [*map(float, range(36, 42))],
        "test": [*map(float, range(42, 60))],
    }
    found = held_out_values(series_splits(tmp_path, rows, split_column="part", **settings))
    assert found["dev"] == [*map(float, range(20, 40))]
    lacking = [line.replace("dev", "train") for line in rows]
    found = held_out_values(series_splits(tmp_path, lacking, split_column="part", **settings))
    assert found["dev"] == [*map(float, range(36, 40))]
    assert found["test"] == [*map(float, range(40, 60))]
    mixed = [line.replace(",dev", ",train") if line.startswith("30,") else line for line in DAYS]
    with pytest.raises(DataError, match=r"a value of train \(line 32\) after one of dev \(line 31"):
        series_splits(tmp_path, mixed, split_column="part", target="value")
    without_test = [line.replace("test", "dev") for line in DAYS]
    with pytest.raises(DataError, match="no value of test after those of dev"):
        series_splits(tmp_path, without_test, split_column="part", target="value")


@pytest.mark.parametrize("time", ["day", None])
def test_files_continue_a_series(tmp_path: Path, time: str | None) -> None:
    for name, lines in {"dev": DAYS[31:41], "test": DAYS[41:]}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([DAYS[0], *lines]))
    files = {name: str(tmp_path / f"{name}.csv") for name in ("dev", "test")}
    settings = {"target": "value", "time": time}
    for rows in (DAYS[:31], DAYS):  # the whole series, too: the held-out values are left out
        found = held_out_values(series_splits(tmp_path, rows, **settings, **files))
        assert {name: len(values) for name, values in found.items()} == {
            "train": 30,
            "dev": 10,
            "test": 20,
        }
        assert found["test"] == [*map(float, range(40, 60))]
    prepared = series_splits(tmp_path, DAYS, **settings, test=files["test"])
    assert len(held_out_values(prepared)["dev"]) == 4  # a tenth of 40
    assert any("20 values of value that a later file has" in note for note in prepared.notes)


@given(st.lists(st.integers(0, 6), min_size=4, max_size=12), st.randoms())
def test_no_series_is_in_two_splits(kinds: list[int], mixing: Any) -> None:
    rows = [f"s{n},{t},{kind + t / 100}" for n, kind in enumerate(kinds) for t in range(8)]
    mixing.shuffle(rows)
    settings = {"target": "value", "time": "t", "group_by": "name"}
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = series_splits(Path(folder), ["name,t,value", *rows], **settings)
        except DataError:  # too few different series
            assert len(set(kinds)) < len(kinds) or len(kinds) < 3
            return
    sides = {name: {int(s.values[0]) for s in split} for name, split in found.splits.items()}
    assert all(sides.values()) and are_disjoint(sides)
    assert all(len(span.values) == 8 for split in found.splits.values() for span in split)
    assert found.splits["test"][0].values.tolist() == sorted(found.splits["test"][0].values)


# --- settings without a meaning -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("language", {"stratify": True}, "a text has no classes; try data.group_by"),
        ("vectors", {"stratify": True}, "a text has no classes"),
        ("forecast", {"stratify": True}, "a series has no classes"),
        ("forecast", {"dev": "d.csv"}, "the values after those of dev are test"),
        ("forecast", {"group_by": "name", "test": "t.csv"}, "is of one series"),
        ("forecast", {"group_by": "name", "split_column": "part"}, "expected one of them"),
    ],
)
def test_settings_without_a_meaning_are_refused(
    task: str, settings: dict[str, Any], message: str
) -> None:
    changes = {f"data.{name}": value for name, value in settings.items()}
    with pytest.raises(ConfigError, match=message):
        resolve_recipe(task, changes=changes)


@pytest.mark.parametrize("model", ["glove", "svd", "one_hot"])
def test_models_of_counts_hold_out_no_text(model: str) -> None:
    changes = {"data.group_by": "text"}
    recipe = resolve_recipe("vectors", model=model, data="python", changes=changes).recipe
    with pytest.raises(ConfigError, match=f"{model}, which is fitted to co-occurrence counts"):
        task_spec_for(recipe).prepare(recipe, PrepareContext())


# --- texts ----------------------------------------------------------------------------------------


def test_lines_of_a_plain_text_are_divided_by_their_hash(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{text(n % 30)}\n" for n in range(90)))
    changes = {"data.group_by": "text", "data.tokenizer.kind": "word"}
    changes |= {"data.dev_share": 0.2, "data.test_share": 0.2}
    recipe = resolve_recipe("language", model="ngram", data=str(path), changes=changes).recipe
    sides = of_language(task_spec_for(recipe).prepare(recipe, PrepareContext()), {})
    assert are_disjoint(sides) and set.union(*sides.values()) == set(range(30))
    assert len(sides["test"]) == len(sides["dev"]) == 6


def test_the_end_of_a_plain_text_is_held_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{text(n)}\n" for n in range(100)))
    recipe = resolve_recipe(
        "language", model="ngram", data=str(path), changes={"data.tokenizer.kind": "word"}
    ).recipe
    sides = of_language(task_spec_for(recipe).prepare(recipe, PrepareContext()), {})
    assert sides["test"] == set(range(95, 100)) and sides["dev"] == set(range(90, 95))
    same = recipe.with_values(data={**recipe.data.model_dump(exclude_unset=True), "dev": str(path)})
    with pytest.raises(DataError, match="got the same text for train and dev"):
        task_spec_for(same).prepare(same, PrepareContext())


def test_repeated_documents_at_the_end_are_left_out_of_the_training(tmp_path: Path) -> None:
    path = tmp_path / "documents.csv"
    path.write_text("text\n" + "".join(f"{text(n % 90)}\n" for n in range(100)))
    changes = {"data.tokenizer.kind": "word"}
    recipe = resolve_recipe("language", model="ngram", data=str(path), changes=changes).recipe
    prepared = task_spec_for(recipe).prepare(recipe, PrepareContext())
    sides = of_language(prepared, {})
    assert sides["test"] == set(range(5, 10)) and sides["dev"] == set(range(5))
    assert sides["train"] == set(range(10, 90))
    assert any("10 examples with an input that is held out" in note for note in prepared.notes)


def test_held_out_words_are_read_again_from_the_folder_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "documents.csv"
    path.write_text("text\n" + "".join(f"{text(n)}\n" for n in range(60)))
    changes = {"data.group_by": "text", "data.min_count": 1, "data.test_share": 0.2}
    recipe = resolve_recipe("vectors", data=str(path), changes=changes).recipe
    spec, folder = task_spec_for(recipe), tmp_path / "scratch"
    first = spec.prepare(recipe, PrepareContext(scratch_dir=folder))
    path.unlink()
    again = spec.prepare(
        recipe, PrepareContext(scratch_dir=folder, preprocessor=first.preprocessor)
    )
    assert of_vectors(again, {}) == of_vectors(first, {})
    assert are_disjoint(of_vectors(again, {}))
