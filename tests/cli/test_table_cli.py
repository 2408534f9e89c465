"""Commands on tables, from training to the computation graph."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
QUICK = [f"--set={s}" for s in ("train.steps=20", "train.evaluate_every=10", "train.threads=1")]
QUICK += ["--set=model.hidden=4"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    rows = [f"{at % 7},{(at * 5) % 11},{'yes' if at % 7 > 3 else 'no'}" for at in range(60)]
    path.write_text("a,b,answer\n" + "\n".join(rows) + "\n")
    return path


def test_table_train_predict_evaluate_look(saccade: Command, table: Path) -> None:
    result = saccade(
        "train", "table", "--data", table, "--target", "answer", "--out", "run", *QUICK
    )
    assert result.code == 0, result.err
    assert "data.target_type" in result.err and "2 different values in 60 rows" in result.err
    result = saccade("predict", "run", "5,1")
    assert (result.code, result.out) in ((0, "yes\n"), (0, "no\n"))
    found = json.loads(saccade("predict", "run", "5,1", "--json").out)
    assert set(found["probabilities"]) == {"yes", "no"}
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    result = saccade("predict", "run", "--file", table, "--out", "answers.csv")
    assert result.code == 0, result.err
    answers = Path("answers.csv").read_text().splitlines()
    assert answers[0] == "answer" and len(answers) == 61 and set(answers[1:]) <= {"yes", "no"}
    scores = saccade("evaluate", "run", "--all")
    assert "macro_f1" in scores.out and "predicted →" in scores.out
    header, *rows = scores.out.splitlines()
    assert header.split() == ["metric", "value", "majority", "class", "convention"]
    found = json.loads(saccade("evaluate", "run", "--json").out)
    assert found["floors"].keys() == {"majority class"}
    floor = found["floors"]["majority class"]
    assert floor.keys() == {"accuracy", "macro_f1"}
    confusion = found["confusion"]
    counts = dict(zip(confusion["classes"], map(sum, confusion["counts"]), strict=True))
    # the majority of the training rows: 4 of 7 values of a
    assert floor["accuracy"] == pytest.approx(counts["no"] / sum(counts.values()))
    [row] = [row for row in rows if row.startswith("accuracy ")]
    assert row.split()[1:3] == [f"{found['accuracy']:.4g}", f"{floor['accuracy']:.4g}"]
    [row] = [row for row in rows if row.startswith("loss ")]  # a constant class has no such loss
    assert row[header.index("majority") : header.index("convention")].strip() == ""
    assert json.loads(saccade("evaluate", "run", "--data", table, "--json").out)["examples"] == 60
    result = saccade("look", "run", "--graph", "--row", 2, "--save", "graph.svg")
    assert result.code == 0 and Path("graph.svg").read_text().startswith("<?xml")
    assert "row 2 of test: true answer " in result.out and "δ" in result.out
    found = json.loads(saccade("look", "run", "--graph", "--json").out)
    assert [len(layer) for layer in found["layers"]] == [2, 4, 2]
    assert Path("run/report/graph.svg").exists()
    assert saccade("check", "run").code == 0
    result = saccade("train", "--resume", "run", "--target", "b")
    assert result.code == 2 and "data.target: 'answer' → 'b'" in result.err


def test_train_file_with_target_is_a_table(saccade: Command, table: Path) -> None:
    result = saccade("train", table, "--target", "b", "--model", "linear", *QUICK[:3])
    assert result.code == 0, result.err
    assert "rmse" in result.err and Path("runs/table/run.toml").exists()
    assert saccade("predict", "runs/table", "3,yes").code == 0
    result = saccade("predict", "runs/table", "3")
    assert (
        result.code == 2
        and "input 1: got 1 cell; expected 2, with ',' between: a,answer" in result.err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--target", "anser"],
            "table.csv: got no column 'anser', the target. Did you mean 'answer'?",
        ),
        (
            [],
            "(columns: 'a', 'b', 'answer'); expected the column to predict; try saccade train",
        ),
        (["--target", "a", "--set=data.ignore=c"], "table.csv: no column 'c' (data.ignore)."),
        (
            ["--target", "answer", "--model", "linear"],
            "got text in the target 'answer' ('no'); expected a number",
        ),
    ],
)
def test_table_errors_are_one_message(
    arguments: list[str], message: str, saccade: Command, table: Path
) -> None:
    result = saccade("train", "table", "--data", table, *arguments)
    assert result.code == 2 and result.out == "" and "Traceback" not in result.err
    assert result.err.count("saccade: ") == 1 and message in result.err
    assert not Path("runs").exists()


def test_column_options_need_a_file_and_a_task_that_has_them(saccade: Command, table: Path) -> None:
    result = saccade("train", "copy", "--target", "x")
    assert result.code == 2 and "got --target x; expected a file" in result.err
    for command in ("train", "compare"):
        result = saccade(command, "table", "--data", table, "--label", "answer")
        assert result.code == 2, result.err
        assert "--label answer; the columns that table takes are: --target" in result.err
    result = saccade("train", "table", "--data", table, "--query", "a")
    assert "the columns that table takes are: --target, --weight, --time." in result.err
    result = saccade("look", "nothing", "--graph")
    assert result.code == 2


def test_table_with_a_delimiter_of_several_characters(
    saccade: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7}::{i * 3 % 11}::{'yes' if i % 7 > 3 else 'no'}" for i in range(120)]
    Path("ratings.dat").write_text("a::b::answer\n" + "\n".join(rows) + "\n")
    options = ["--set=data.delimiter=::", "--set=train.steps=3", "--out=run"]
    trained = saccade("train", "table", "ratings.dat", "--target=answer", *options)
    assert trained.code == 0, trained.err
    of_text, of_file = (
        saccade("predict", "run", "3::4"),
        saccade("predict", "run", "--file=ratings.dat"),
    )
    assert of_text.code == of_file.code == 0 and of_text.out.strip() in ("yes", "no")
    assert len(of_file.out.splitlines()) == 121  # with the name of the column
