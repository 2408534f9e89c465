import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.optim import SCHEDULES, lr_factor

Command = Callable[..., Any]
SHORT = ("--set", "train.steps=20", "--set", "train.warmup=4", "--set", "train.learning_rate=0.5")


def test_plot_schedules_equals_lr_factor(saccade: Command) -> None:
    result = saccade("plot", "schedules", *SHORT, "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert found["steps"] == list(range(1, 21))
    assert set(found["rates"]) == set(SCHEDULES) - {"none", "pid"}
    for schedule, rates in found["rates"].items():
        expected = [0.5 * lr_factor(step, (step - 1) / 20, 4, schedule) for step in range(1, 21)]
        assert rates == pytest.approx(expected)
    table = saccade("plot", "schedules", *SHORT)
    assert table.code == 0
    head, *lines = table.out.splitlines()
    assert head.split() == ["step", *sorted(found["rates"])]
    assert lines[0].split()[:2] == ["1", "0.125"] and lines[-1].split()[0] == "20"


def test_plot_schedules_of_one_schedule(saccade: Command, tmp_path: Path) -> None:
    result = saccade(
        "plot", "schedules", "--set", "train.schedule=linear", "--save", "rates.png", "--json"
    )
    assert result.code == 0 and "to rates.png" in result.err
    assert set(json.loads(result.out)["rates"]) == {"linear"}
    assert (tmp_path / "rates.png").stat().st_size > 1000


def test_plot_schedules_shows_the_switch_of_the_optimizer(saccade: Command) -> None:
    switch = ("--set", "train.switch_to=sgd", "--set", "train.switch_step=10")
    result = saccade(
        "plot", "schedules", *SHORT, *switch, "--set", "train.switch_learning_rate=2", "--json"
    )
    before = json.loads(saccade("plot", "schedules", *SHORT, "--json").out)["rates"]
    for schedule, rates in json.loads(result.out)["rates"].items():
        assert rates[:10] == before[schedule][:10]
        assert rates[10:] == pytest.approx([4 * rate for rate in before[schedule][10:]])
    refused = saccade("plot", "schedules", *SHORT, *switch)
    assert refused.code == 2 and "expected train.switch_learning_rate, too" in refused.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "train.schedule=pid"), "depends on losses measured while training"),
        (("--set", "train.schedule=cosin"), "Did you mean 'cosine'"),
        (("--set", "model.width=3"), "there is no setting 'model.width'"),
        (("--save", "rates.txt"), "try rates.png"),
    ],
)
def test_plot_schedules_refuses_invalid_options(
    arguments: tuple[str, ...], words: str, saccade: Command
) -> None:
    result = saccade("plot", "schedules", *arguments)
    assert (result.code, result.out) == (2, "") and words in result.err
