"""`saccade finetune`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
QUICK = [f"--set={s}" for s in ("train.steps=20", "train.evaluate_every=10", "train.threads=1")]


def write(path: Path, turned: bool) -> None:
    rows = [
        f"{at % 7},{at * 5 % 11},{'yes' if (at % 7 > 3) != turned else 'no'}" for at in range(60)
    ]
    path.write_text("a,b,answer\n" + "\n".join(rows) + "\n")


@pytest.fixture
def run(saccade: Command) -> Path:
    """A finished run of a table, and a file whose answers are the other way round."""
    write(Path("old.csv"), turned=False)
    write(Path("new.csv"), turned=True)
    how = ("--target", "answer", "--model", "softmax", "--set=train.learning_rate=0.3")
    assert saccade("train", "old.csv", *how, *QUICK).code == 0
    return Path("runs/old")


def test_finetune_reports_transfer(saccade: Command, run: Path) -> None:
    result = saccade("finetune", run, "--data", "new.csv", *QUICK)
    assert result.code == 0, result.err
    assert "Before fine-tuning, on new.csv: loss" in result.err
    assert "On the held-out part of new.csv: loss" in result.err
    assert "On the test split of runs/old: loss" in result.err
    assert "saccade predict runs/old-finetuned " in result.err
    assert saccade("evaluate", "runs/old-finetuned").code == 0


def test_finetune_online(saccade: Command, run: Path) -> None:
    result = saccade("finetune", run, "--data", "new.csv", "--online", "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["run"] == "runs/old-online"
    new, old = found["transfer"]
    assert new["after"]["accuracy"] > new["before"]["accuracy"]
    assert old["after"]["accuracy"] < old["before"]["accuracy"]
    assert Path("runs/old-online/report/online.png").exists()
    # it is finished: to resume it changes nothing, and prints the same
    result = saccade("train", "--resume", "runs/old-online", "--json")
    assert result.code == 0 and json.loads(result.out) == {**found, "stop_reason": "steps"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--data", "new.csv"], "nowhere is not a run: there is no run.toml in it"),
        (["RUN", "--data", "none.csv"], "There is no file none.csv."),
        (["RUN", "--data", "empty.csv"], "empty.csv: got an empty file; expected rows"),
        (
            ["RUN", "--data", "short.csv"],
            "short.csv: got no column 'answer', the target",
        ),
        (["RUN", "--data", "new.csv", "--set=model.outputs=9"], "outputs: 2 → 9"),
        (["RUN", "--data", "new.csv", "--out", "RUN", "--overwrite"], "would be replaced"),
    ],
)
def test_finetune_errors_are_one_message(
    arguments: list[str], message: str, saccade: Command, run: Path
) -> None:
    Path("empty.csv").write_text("")
    Path("short.csv").write_text("a,b\n" + "1,2\n" * 40)
    there = sorted(Path("runs").rglob("*"))
    result = saccade("finetune", *(str(run) if word == "RUN" else word for word in arguments))
    assert result.code == 2 and result.out == "" and "Traceback" not in result.err
    assert result.err.count("saccade: ") == 1 and message in result.err
    assert sorted(Path("runs").rglob("*")) == there


def test_finetune_online_needs_a_table(
    saccade: Command, trained_runs: dict[str, Path], words_file: Path
) -> None:
    result = saccade("finetune", trained_runs["bahdanau"], "--data", words_file, "--online")
    assert result.code == 2 and "the task translate; --online needs a table" in result.err
