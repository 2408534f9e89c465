import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.optim import SCHEDULES, lr_factor

Command = Callable[..., Any]
SHORT = ("--set", "train.steps=20", "--set", "train.warmup=4", "--set", "train.learning_rate=0.5")


def test_every_schedule_is_shown_as_it_is(saccade: Command) -> None:
    said = saccade("look", "schedule", *SHORT, "--json")
    assert said.code == 0
    found = json.loads(said.out)
    assert found["steps"] == list(range(1, 21))
    assert set(found["rates"]) == set(SCHEDULES) - {"none", "pid"}
    for schedule, rates in found["rates"].items():
        wanted = [0.5 * lr_factor(step, (step - 1) / 20, 4, schedule) for step in range(1, 21)]
        assert rates == pytest.approx(wanted)
    table = saccade("look", "schedule", *SHORT)
    assert table.code == 0
    head, *lines = table.out.splitlines()
    assert head.split() == ["step", *sorted(found["rates"])]
    assert lines[0].split()[:2] == ["1", "0.125"] and lines[-1].split()[0] == "20"


def test_one_is_shown_if_it_is_asked_for_and_drawn(saccade: Command, tmp_path: Path) -> None:
    said = saccade(
        "look", "schedule", "--set", "train.schedule=linear", "--save", "rates.png", "--json"
    )
    assert said.code == 0 and "drawn in rates.png" in said.err
    assert set(json.loads(said.out)["rates"]) == {"linear"}
    assert (tmp_path / "rates.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "train.schedule=pid"), "follows from what is measured"),
        (("--set", "train.schedule=cosin"), "Did you mean 'cosine'"),
        (("--set", "model.width=3"), "there is no setting 'model.width'"),
        (("--save", "rates.txt"), "try rates.png"),
    ],
)
def test_nonsense_is_refused(arguments: tuple[str, ...], words: str, saccade: Command) -> None:
    said = saccade("look", "schedule", *arguments)
    assert (said.code, said.out) == (2, "") and words in said.err


def test_a_file_of_that_name_is_looked_at_itself(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "schedule").write_text("one two two three three three\n" * 9, encoding="utf-8")
    said = saccade("look", "schedule")
    assert said.code == 0 and "exponent" in said.out


def test_a_run_has_its_settings(saccade: Command, trained_runs: dict[str, Path]) -> None:
    said = saccade("look", trained_runs["seq2seq"], "abc", "--set", "train.steps=3")
    assert said.code == 2 and "--set is for look schedule" in said.err
