"""Two tables held against each other, as a person types it."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Command = Callable[..., Any]
ROWS = 400


def by_answer(random: Any, move: float = 0.0, turned: bool = False) -> tuple[Any, Any]:
    """p(y | x) from x."""
    x = random.normal(size=(ROWS, 2)) + np.array([move, 0.0])
    slope = -2 if turned else 2
    return x, random.random(ROWS) < 1 / (1 + np.exp(-slope * x[:, 0] + x[:, 1]))


def by_class(random: Any, share: float = 0.5) -> tuple[Any, Any]:
    """p(x | y) from y."""
    y = random.random(ROWS) < share
    return random.normal(size=(ROWS, 2)) + np.outer(y, [1.5, -1]), y


MADE: dict[str, Callable[[Any], Any]] = {
    "none": lambda random: (by_answer(random), by_answer(random)),
    "covariate": lambda random: (by_answer(random), by_answer(random, move=0.8)),
    "label": lambda random: (by_class(random), by_class(random, 0.85)),
    "concept": lambda random: (by_answer(random), by_answer(random, turned=True)),
}


def write(path: str, x: Any, y: Any, first: int = 1, named: bool = True) -> None:
    random = np.random.default_rng(len(path))
    city = np.where(random.random(len(x)) < 0.3, "Oslo", "Rome")
    lines = ["id,age,height,city" + (",bought" if named else "")]
    for at, (age, height) in enumerate(x):
        cells = [str(first + at), f"{age:.4f}", "" if at % 20 == 3 else f"{height:.4f}", city[at]]
        lines.append(",".join(cells + ([["no", "yes"][int(y[at])]] if named else [])))
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.fixture
def files(saccade: Command) -> Callable[[str], list[str]]:
    """Writes train.csv and live.csv with a shift between, and returns the options for them."""

    def made(kind: str) -> list[str]:
        source, target = MADE[kind](np.random.default_rng(1))
        write("train.csv", *source)
        write("live.csv", *target, first=1000)
        return ["--compare", "train.csv", "live.csv"]

    return made


@pytest.mark.parametrize(
    ("kind", "summary", "command"),
    [
        ("none", "No shift", "Nothing to do"),
        ("covariate", "Covariate shift", "--save-weights weighted.csv"),
        ("label", "Label shift", "--save-weights weighted.csv"),
        ("concept", "Concept shift", "  saccade finetune RUN --data live.csv\n"),
    ],
)
def test_doctor_names_each_shift_and_its_remedy(
    kind: str, summary: str, command: str, saccade: Command, files: Any
) -> None:
    both = files(kind)
    result = saccade("doctor", *both, "--target", "bought")
    assert result.code == 0, result.err
    assert result.out.startswith(summary) and command in result.out
    assert "AUC of" in result.out and "± " in result.out
    assert "'id' is a row number: left out." in result.err
    found = json.loads(saccade("doctor", *both, "--target", "bought", "--json").out)
    assert found["kind"] == kind
    assert set(found) == {
        *("kind", "summary", "reason", "rows", "columns", "domains", "classes", "p_values"),
        *("losses", "effective_share", "next_step", "commands", "notes"),
    }
    assert found["rows"] == {"train.csv": ROWS, "live.csv": ROWS}
    columns = {column["name"]: column for column in found["columns"]}
    assert set(columns) == {"age", "height", "city"}
    assert set(columns["age"]["source"]) == {"mean", "deviation", "missing"}
    assert columns["height"]["source"]["missing"] == pytest.approx(0.05)
    assert columns["city"]["value"] in ("Oslo", "Rome")
    assert columns["age"]["differs"] == (kind in ("covariate", "label"))
    for side in ("source", "target"):
        assert sum(each[side] for each in found["classes"]) == pytest.approx(1)
    if kind != "label":  # which makes answers wrong as well, and is named first
        assert (found["p_values"]["answers"] < 1e-4) == (kind == "concept")
    assert (found["effective_share"] is None) == (kind in ("none", "concept"))


@pytest.mark.parametrize("kind", ["covariate", "label"])
def test_doctor_weights_can_be_trained_with(kind: str, saccade: Command, files: Any) -> None:
    both = files(kind)
    result = saccade("doctor", *both, "--target", "bought", "--save-weights", "new/weighted.csv")
    assert result.code == 0, result.err
    assert "column 'weight' of new/weighted.csv" in result.err
    command = "saccade train table --data new/weighted.csv --target bought"
    command += " --weight weight"
    assert f"  {command}\n" in result.out
    rows = [line.split(",") for line in Path("new/weighted.csv").read_text().splitlines()]
    assert ",".join(rows[0]) == "id,age,height,city,bought,weight" and len(rows) == ROWS + 1
    assert [row[:-1] for row in rows] == [
        line.split(",") for line in Path("train.csv").read_text().splitlines()
    ]
    weights = np.array([float(row[-1]) for row in rows[1:]])
    assert weights.min() >= 0 and weights.mean() == pytest.approx(1, abs=0.15)
    live = [line.split(",") for line in Path("live.csv").read_text().splitlines()[1:]]
    if kind == "label":
        share = weights @ [row[4] == "yes" for row in rows[1:]] / weights.sum()
        assert share == pytest.approx(np.mean([row[4] == "yes" for row in live]), abs=1e-4)
    else:
        mean = weights @ [float(row[1]) for row in rows[1:]] / weights.sum()
        assert mean == pytest.approx(np.mean([float(row[1]) for row in live]), abs=0.2)
    quick = ["--set=train.steps=5", "--set=train.threads=1", "--out=run"]
    assert saccade(*command.split()[1:], *quick).code == 0
    assert "weighted" in saccade("evaluate", "run", "--all").out
    again = saccade("doctor", *both, "--save-weights", "new/weighted.csv")
    assert again.code == 2 and "already exists; choose a new file" in again.err


def test_doctor_does_not_write_useless_weights(saccade: Command, files: Any) -> None:
    result = saccade("doctor", *files("concept"), "--target", "bought", "--save-weights", "w.csv")
    assert result.code == 0 and not Path("w.csv").exists()
    assert "Weights would not help, so w.csv was not written." in result.err


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_doctor_saves_a_plot(ending: str, saccade: Command, files: Any) -> None:
    result = saccade(
        "doctor", *files("label"), "--target", "bought", "--save", f"pictures/shift.{ending}"
    )
    assert result.code == 0, result.err
    assert Path(f"pictures/shift.{ending}").stat().st_size > 5000
    result = saccade("doctor", "--compare", "train.csv", "live.csv", "--save", "shift.jpg")
    assert result.code == 2 and "ends in '.jpg'; a picture can be" in result.err


def test_doctor_without_labels_compares_inputs(saccade: Command, files: Any) -> None:
    both = files("covariate")
    result = saccade("doctor", *both, "--set=data.ignore=bought")
    assert result.code == 0 and result.out.startswith("The inputs have shifted; without labels")
    assert "Label some rows of live.csv" in result.out
    source, target = MADE["none"](np.random.default_rng(1))
    write("live.csv", *target, first=1000, named=False)
    result = saccade("doctor", *both, "--target", "bought")
    assert (
        result.code == 0 and "live.csv has no 'bought' in any row, so only the inputs" in result.err
    )
    assert result.out.startswith("The inputs have not shifted; without labels")


def test_doctor_bins_numeric_targets_at_quartiles(saccade: Command) -> None:
    random = np.random.default_rng(0)
    for name, move in (("train.csv", 0.0), ("live.csv", 30.0)):
        x = random.normal(size=500)
        price = 100 + 20 * x + random.normal(size=500) + move
        rows = [
            f"{a:.4f};{'-' if at == 3 else ''}{b:.2f}"
            for at, (a, b) in enumerate(zip(x, price, strict=True))
        ]
        Path(name).write_text("\n".join(["size;price", *rows]).replace(".", ",") + "\n")
    result = saccade("doctor", "--compare", "train.csv", "live.csv", "--target", "price", "--json")
    found = json.loads(result.out)
    assert found["kind"] == "concept" and len(found["classes"]) == 4
    assert [each["source"] for each in found["classes"]] == pytest.approx([0.25] * 4, abs=0.01)
    assert "'price' is numeric: its classes are the quartiles of train.csv (" in result.err


def test_doctor_ignores_columns_of_one_table(saccade: Command, files: Any) -> None:
    both = files("none")
    text = Path("live.csv").read_text().replace("city", "town", 1)
    Path("live.csv").write_text(text)
    result = saccade("doctor", *both, "--target", "bought")
    assert result.code == 0
    assert "'city' of train.csv, not in live.csv: left out." in result.err
    assert "'town' of live.csv, not in train.csv: left out." in result.err


TABLE = "a,b,y\n" + "".join(f"{at % 7},{at % 11 / 3:.2f},{'ny'[at % 2]}\n" for at in range(60))
PAIRS = "".join(f"The man number {at} sleeps.\tDer Mann {at} schläft.\n" for at in range(60))


@pytest.mark.parametrize(
    ("train", "live", "options", "message"),
    [
        (TABLE, "", [], "live.csv: got an empty file; expected rows"),
        (TABLE, "a,b,y\n", [], "live.csv: got a header row and no row below it"),
        (
            TABLE,
            TABLE[: TABLE.index("\n0,2.33") + 1],
            [],
            "rows that can be compared; expected 40 or more",
        ),
        (TABLE, None, [], "There is no file live.csv."),
        (
            TABLE,
            b"\x89PNG\r\n\x1a\n\x00\xff\xfe" * 50,
            [],
            r"live.csv: got a PNG image",
        ),
        # without the time in it: two processes must call the test the same
        (TABLE, gzip.compress(TABLE.encode(), mtime=0)[:40], [], "cannot be unpacked to its end"),
        (PAIRS, PAIRS, [], "Expected two tables: a header row.*sentence pairs cannot be compared"),
        (TABLE, PAIRS, [], "no column that can be compared.*Expected two tables"),
        (
            TABLE,
            "Call me Ishmael, he wrote, once\nand went\n\nto sea\n",
            [],
            "line 2: got 1 cell; expected 3",
        ),
        (TABLE, "Call me Ishmael.\nSome years ago\n", [], "live.csv: got one column"),
        (TABLE, TABLE, ["--target", "z"], "got no column 'z'. Columns: a, b, y"),
        (TABLE, TABLE, ["--set=data.ignore=c"], "got no column 'c'. Columns: a, b, y"),
        (
            TABLE,
            TABLE,
            ["--set=data.min_count=3"],
            "no setting 'data.min_count'.*There are: data.categories, data.delimiter",
        ),
        (
            TABLE.replace(",n\n", ",y\n"),
            TABLE,
            ["--target", "y"],
            r"target 'y' has only one value \(y\)",
        ),
        (
            TABLE,
            TABLE.replace("0.33,", "old,"),
            [],
            "live.csv, line 3: got 'old' in the column 'b'",
        ),
        (
            TABLE,
            "a,b,y\n" + "".join(f"x{at % 3},1,y\n" for at in range(60)),
            [],
            r"numbers in the column 'a' of train.csv and text in live.csv \('x0'\)",
        ),
        (
            TABLE,
            TABLE.replace("\n3,", "\n1e90,", 1),
            [],
            "line 5: got 1e90 in the column 'a'; expected a number near 2.9",
        ),
        (
            "a,y\n" + "".join(f"{at % 7},word{at}\n" for at in range(60)),
            "a,y\n" + "".join(f"{at % 7},word{at}\n" for at in range(60)),
            ["--target", "y"],
            "'y' has 60 different values in 60 rows",
        ),
    ],
)
def test_doctor_errors_are_one_message(
    train: str, live: str | bytes | None, options: list[str], message: str, saccade: Command
) -> None:
    Path("train.csv").write_text(train, encoding="utf-8")
    if live is not None:
        Path("live.csv").write_bytes(live if isinstance(live, bytes) else live.encode())
    result = saccade("doctor", "--compare", "train.csv", "live.csv", *options)
    assert result.code == 2 and result.out == "" and "Traceback" not in result.err, result
    assert result.err.count("saccade: ") == 1
    with pytest.raises(ValueError, match=f"(?s){message}"):
        raise ValueError(result.err)


def test_doctor_new_and_missing_classes(saccade: Command) -> None:
    Path("train.csv").write_text(TABLE)
    Path("live.csv").write_text(TABLE.replace(",n\n", ",new\n"))
    both = ["--compare", "train.csv", "live.csv", "--target", "y"]
    result = saccade("doctor", *both)
    assert (
        result.code == 0
        and "train.csv has no row of new, which weights cannot make up" in result.out
    )
    Path("live.csv").write_text(TABLE.replace(",n\n", ",y\n"))
    assert saccade("doctor", *both).code == 0


def test_doctor_needs_two_tables(saccade: Command) -> None:
    result = saccade("doctor")
    assert result.code == 2 and "doctor needs two tables: saccade doctor --compare" in result.err
    assert saccade("doctor", "--compare", "one.csv").code == 2
