"""Going on with a run, as a person types it."""

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


def test_on(saccade: Command, run: Path) -> None:
    said = saccade("train", run, "--finetune-on", "new.csv", *QUICK)
    assert said.code == 0, said.err
    assert "Before it goes on, on new.csv: loss" in said.err
    assert "On the held-out part of new.csv: loss" in said.err
    assert "On what runs/old was tested on: loss" in said.err
    assert "saccade predict runs/old-on " in said.err
    assert saccade("evaluate", "runs/old-on").code == 0


def test_online(saccade: Command, run: Path) -> None:
    said = saccade("train", run, "--finetune-on", "new.csv", "--online", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert found["run"] == "runs/old-online"
    new, old = found["transfer"]
    assert new["after"]["accuracy"] > new["before"]["accuracy"]
    assert old["after"]["accuracy"] < old["before"]["accuracy"]
    assert Path("runs/old-online/report/online.png").exists()
    # it is finished: to resume it changes nothing, and says the same
    said = saccade("train", "--resume", "runs/old-online", "--json")
    assert said.code == 0 and json.loads(said.out) == {**found, "stop_reason": "steps"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nowhere", "--finetune-on", "new.csv"],
            "nowhere is not a run: there is no run.toml in it",
        ),
        (
            ["--finetune-on", "new.csv"],
            "--on needs the run that goes on: saccade train RUN --on FILE.",
        ),
        (["RUN", "--finetune-on", "none.csv"], "There is no file none.csv."),
        (["RUN", "--finetune-on", "empty.csv"], "empty.csv is empty; a row of names"),
        (
            ["RUN", "--finetune-on", "short.csv"],
            "short.csv has no column 'answer', which is to be foretold",
        ),
        (
            ["RUN", "--finetune-on", "new.csv", "--resume", "RUN"],
            "--resume cannot be given beside that",
        ),
        (
            ["RUN", "--finetune-on", "new.csv", "--init-from", "RUN"],
            "--init-from cannot be given beside that",
        ),
        (
            ["RUN", "--finetune-on", "new.csv", "--data", "new.csv"],
            "--data cannot be given beside that",
        ),
        (["RUN", "--online"], "to learn online is to go on from a run"),
        (["RUN", "--finetune-on", "new.csv", "--set=model.outputs=9"], "outputs: 2 → 9"),
        (["RUN", "--finetune-on", "new.csv", "--out", "RUN", "--overwrite"], "would be replaced"),
    ],
)
def test_what_is_wrong_with_going_on_is_one_message(
    arguments: list[str], message: str, saccade: Command, run: Path
) -> None:
    Path("empty.csv").write_text("")
    Path("short.csv").write_text("a,b\n" + "1,2\n" * 40)
    there = sorted(Path("runs").rglob("*"))
    said = saccade("train", *(str(run) if one == "RUN" else one for one in arguments))
    assert said.code == 2 and said.out == "" and "Traceback" not in said.err
    assert said.err.count("saccade: ") == 1 and message in said.err
    assert sorted(Path("runs").rglob("*")) == there


def test_a_task_without_rows_is_not_online(
    saccade: Command, trained_runs: dict[str, Path], words_file: Path
) -> None:
    said = saccade("train", trained_runs["bahdanau"], "--finetune-on", words_file, "--online")
    assert said.code == 2 and "the task translate, which has no rows" in said.err
