"""`saccade settings`."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from saccade.tasks.registry import TASKS

Command = Callable[..., Any]


def test_settings_without_a_task_lists_the_tasks(saccade: Command) -> None:
    result = saccade("settings")
    assert result.code == 0 and all(name in result.out for name in TASKS)
    listed = json.loads(saccade("settings", "--json").out)
    assert {row["task"] for row in listed} == {*TASKS}


@pytest.mark.parametrize("name", TASKS)
def test_settings_of_a_task_are_grouped(name: str, saccade: Command) -> None:
    result = saccade("settings", name)
    assert result.code == 0
    positions = [result.out.index(f"\n{group}.") for group in ("data", "model", "train")]
    assert positions == sorted(positions)
    assert "train.seed" in result.out and "Random seed" in result.out or "Seed of" in result.out


def test_settings_are_searched(saccade: Command) -> None:
    result = saccade("settings", "translate", "lr")
    assert "train.learning_rate  0.001" in result.out and "(number, > 0, ≤ 1e+09)" in result.out
    assert "train.steps" not in result.out
    assert "No setting of translate matches zzz" in saccade("settings", "translate", "zzz").out
    assert json.loads(saccade("settings", "translate", "zzz", "--json").out) == []


def test_settings_of_a_model_and_of_a_recipe(saccade: Command) -> None:
    of_transformer = json.loads(
        saccade("settings", "translate", "--model", "transformer", "--json").out
    )
    paths = {row["path"]: row for row in of_transformer}
    assert (
        paths["model.heads"]["limits"] == "≥ 1, ≤ 65536"
        and paths["model.heads"]["type"] == "integer"
    )
    assert "relu" in paths["model.activation"]["choices"]
    dates = {row["path"]: row for row in json.loads(saccade("settings", "dates", "--json").out)}
    assert dates["train.steps"]["default"] == 700 and "model.heads" not in dates


def test_settings_refuses_unknown_names(saccade: Command) -> None:
    assert "Did you mean 'translate'?" in saccade("settings", "tranlsate").err
    result = saccade("settings", "translate", "--model", "transfomer")
    assert result.code == 2 and "Did you mean 'transformer'?" in result.err
