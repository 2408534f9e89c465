"""A table, as a person types it."""

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


def test_a_table_is_trained_asked_scored_and_looked_at(saccade: Command, table: Path) -> None:
    said = saccade("train", "table", "--data", table, "--target", "answer", "--out", "run", *QUICK)
    assert said.code == 0, said.err
    assert "data.target_type" in said.err and "2 different values in 60 rows" in said.err
    said = saccade("predict", "run", "5,1")
    assert (said.code, said.out) in ((0, "yes\n"), (0, "no\n"))
    found = json.loads(saccade("predict", "run", "5,1", "--json").out)
    assert set(found["probabilities"]) == {"yes", "no"}
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    said = saccade("predict", "run", "--file", table, "--out", "answers.csv")
    assert said.code == 0, said.err
    answers = Path("answers.csv").read_text().splitlines()
    assert answers[0] == "answer" and len(answers) == 61 and set(answers[1:]) <= {"yes", "no"}
    scores = saccade("evaluate", "run")
    assert "macro_f1" in scores.out and "said →" in scores.out
    assert json.loads(saccade("evaluate", "run", "--data", table, "--json").out)["examples"] == 60
    said = saccade("look", "run", "--graph", "--row", 2, "--save", "graph.svg")
    assert said.code == 0 and Path("graph.svg").read_text().startswith("<?xml")
    assert "row 2 of test: answer is" in said.out and "δ" in said.out
    found = json.loads(saccade("look", "run", "--graph", "--json").out)
    assert [len(layer) for layer in found["layers"]] == [2, 4, 2]
    assert Path("run/report/graph.svg").exists()
    assert saccade("check", "run").code == 0
    said = saccade("train", "--resume", "run", "--target", "b")
    assert said.code == 2 and "data.target: 'answer' → 'b'" in said.err


def test_a_file_with_a_target_is_a_table(saccade: Command, table: Path) -> None:
    said = saccade("train", table, "--target", "b", "--model", "linear", *QUICK[:3])
    assert said.code == 0, said.err
    assert "rmse" in said.err and Path("runs/table/run.toml").exists()
    assert saccade("predict", "runs/table", "3,yes").code == 0
    said = saccade("predict", "runs/table", "3")
    assert said.code == 2 and "input 1 has 1 cell; wanted 2, with ',' between: a,answer" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--target", "anser"],
            "no column 'anser', which is to be foretold. Did you mean 'answer'?",
        ),
        ([], "Say --target NAME. It has: a, b, answer."),
        (["--target", "a", "--set=data.ignore=c"], "there is no column 'c' (data.ignore)."),
        (["--target", "answer", "--model", "linear"], "holds text ('no'); a number was wanted"),
    ],
)
def test_what_is_wrong_is_one_message(
    arguments: list[str], message: str, saccade: Command, table: Path
) -> None:
    said = saccade("train", "table", "--data", table, *arguments)
    assert said.code == 2 and said.out == "" and "Traceback" not in said.err
    assert said.err.count("saccade: ") == 1 and message in said.err
    assert not Path("runs").exists()


def test_a_target_is_for_tables(saccade: Command) -> None:
    said = saccade("train", "copy", "--target", "x")
    assert said.code == 2 and "there is no setting 'data.target'" in said.err
    said = saccade("look", "nothing", "--graph")
    assert said.code == 2
