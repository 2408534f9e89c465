"""Reading takes time in proportion to the input, whatever is in it (`make prove`).

The processor time of four times the input is compared with that of the input: 4 if the time is
linear, 16 if it is quadratic.
"""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saccade
from saccade.cli.main import run as command
from saccade.data.records.dialect import detect_dialect
from saccade.data.records.open import open_records
from saccade.recipes.resolve import resolve_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.registry import task_spec_for

pytestmark = pytest.mark.long

LIMIT = 8  # of the ratio
NOISE = 0.2  # seconds; of a shorter time, the command itself is the larger part
MARKS = "".join(chr(0x300 + number) for number in range(112))  # combining


def repeated(unit: str, size: int) -> str:
    """Return about so many bytes."""
    return unit * (size // len(unit.encode()))


# suffix of the file, and its text of about so many bytes
FILES: dict[str, tuple[str, Callable[[int], str]]] = {
    "quotation marks": ("csv", lambda n: "a,b\n" + '"' * n + "\n"),
    "quoted cells": ("csv", lambda n: "a,b\n" + repeated('"x ""y"" z",1\n', n)),
    "escaped marks": ("csv", lambda n: "a,b\n" + repeated('"x \\"y\\" z",1\n', n)),
    "unclosed mark": ("csv", lambda n: 'a,b\n"' + repeated("x,1\n", n)),
    "marks between tabs": ("tsv", lambda n: "a\tb\n" + repeated('"x" y\t1\n', n)),
    "backslashes": ("csv", lambda n: 'a,b\n"' + "\\" * n + '",1\n'),
    "empty lines": ("csv", lambda n: "a,b\n1,x\n" + "\n" * n + "2,y\n"),
    "empty lines of text": ("txt", lambda n: "a b\n" + "\n" * n + "c d\n"),
    "empty Windows lines": ("csv", lambda n: "a,b\r\n1,x\r\n" + repeated("\r\n", n)),
    "combining marks": ("csv", lambda n: f"text,label\ne{repeated(MARKS, n)},x\nb,y\n"),
    "combining marks in lines": (
        "csv",
        lambda n: "text,label\n" + repeated(f"e{MARKS[:50]},x\n", n),
    ),
    "run of spaces": ("csv", lambda n: "a,b\n1," + " " * n + "\n2,y\n"),
    "run of spaces in text": ("txt", lambda n: 'a "b"' + " " * n + "\n1 2 3\n4 5 6\n7 8 9\n"),
    "spaces between numbers": ("txt", lambda n: repeated("1    2   3\n", n)),
    "run of commas": ("csv", lambda n: "a,b\n" + "," * n + "\n"),
    "digits": ("csv", lambda n: "a,b\n" + "1" * n + ",2\n"),
    "numbers": ("csv", lambda n: "a,b,c\n" + "".join(f"{i},{i % 13},x\n" for i in range(n // 12))),
    "one word": ("txt", lambda n: "a" * n + "\n"),
    "emoji": ("txt", lambda n: repeated("👩‍👩‍👧‍👦", n) + "\n"),
    "right to left": ("txt", lambda n: repeated("שלום עולם\n", n)),
    "JSON lines": ("jsonl", lambda n: repeated('{"text": "a b", "label": "x"}\n', n)),
    "JSON list": ("json", lambda n: "[" + repeated('{"text": "a", "label": "x"},', n)[:-1] + "]"),
    "JSON number list": ("json", lambda n: '[{"a": [1' + ",1" * (n // 2) + "]}]"),
    "labels": (
        "csv",
        lambda n: "text,label\n" + "".join(f"a {i},label {i // 5}\n" for i in range(n // 20)),
    ),
    "columns": (
        "csv",
        lambda n: "\n".join(
            ",".join(f"{word}{i}" for i in range(n // 1000)) for word in ("name ", "", "1")
        ),
    ),
}

# files of many short rows, each of which takes time
ROW_BY_ROW = {
    *("quoted cells", "escaped marks", "unclosed mark", "marks between tabs", "empty lines"),
    *("empty lines of text", "empty Windows lines", "combining marks in lines"),
    *("spaces between numbers", "numbers", "right to left", "JSON lines", "JSON list", "labels"),
}


def seconds(action: Callable[[], object]) -> float:
    """Return the processor time of an action, without collections of others' objects."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    try:
        action()
        return time.process_time() - start
    finally:
        gc.enable()


def assert_linear(prepare: Callable[[int], Callable[[], object]], size: int) -> None:
    """Compare the time of `prepare(4 * size)()` with that of `prepare(size)()`."""
    prepare(size // 100)()  # imports, caches
    once, four = seconds(prepare(size)), seconds(prepare(4 * size))
    assert four < LIMIT * max(once, NOISE), f"{once:.2f} s, then {four:.2f} s"


@pytest.mark.parametrize("name", FILES)
def test_data_is_read_in_linear_time(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suffix, make = FILES[name]

    def prepare(size: int) -> Callable[[], object]:
        path = tmp_path / f"data.{suffix}"
        path.write_bytes(make(size).encode())
        return lambda: command(["data", str(path)])

    assert_linear(prepare, 250_000 if name in ROW_BY_ROW else 2_500_000)
    assert "Internal error" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    lines = [f"{word} film {n},{word}" for n in range(20) for word in ("good", "bad")]
    (folder / "data.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    changes: dict[str, Any] = {"model.word_ngrams": 1, "model.char_ngrams": 3, "model.penalty": 0.1}
    call: dict[str, Any] = {"data": str(folder / "data.csv"), "model": "ngrams"}
    run = saccade.train("classify", **call, set=changes, out=folder / "run", progress=False)
    return run.folder


@pytest.mark.parametrize(
    "name",
    [
        *("quotation marks", "quoted cells", "empty lines of text", "combining marks"),
        *("run of spaces", "run of spaces in text", "one word", "emoji", "right to left"),
        *("JSON lines", "labels"),
    ],
)
def test_inputs_are_read_in_linear_time(name: str, classifier: Path, tmp_path: Path) -> None:
    suffix, make = FILES[name]

    def prepare(size: int) -> Callable[[], object]:
        path, out = tmp_path / f"inputs.{suffix}", tmp_path / f"{size}.txt"
        path.write_bytes(make(size).encode())
        return lambda: command(
            ["predict", str(classifier), "--file", str(path), "--out", str(out), "--quiet"]
        )

    assert_linear(prepare, 200_000)


def test_dialect_is_detected_in_linear_time() -> None:
    def prepare(size: int) -> Callable[[], object]:
        text = "1" + " " * size + '2\n3 "4" 5\n'
        return lambda: [
            detect_dialect(text, True, ".txt", delimiter, None) for delimiter in (None, " ", "  ")
        ]

    assert_linear(prepare, 2_500_000)


def test_many_labels_and_columns_are_prepared_in_linear_time(tmp_path: Path) -> None:
    def labels(count: int) -> Callable[[], object]:
        path = tmp_path / "labels.csv"
        rows = (f"word{i} text {i % 1000},label{i // 3}\n" for i in range(3 * count))
        path.write_text("text,label\n" + "".join(rows))
        recipe = resolve_recipe("classify", data=str(path), model="cnn").recipe
        return lambda: task_spec_for(recipe).prepare(recipe, PrepareContext())

    assert_linear(labels, 5000)

    def columns(count: int) -> Callable[[], object]:
        frame = {f"name {i}": np.arange(2) for i in range(count)}
        return lambda: open_records(frame).head()

    assert_linear(columns, 40_000)
