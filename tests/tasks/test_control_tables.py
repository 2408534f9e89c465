"""Tables as models of the task control: exact values, resuming, maps, messages."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from saccade.errors import ConfigError
from saccade.estimators.reinforcement.config import EPISODIC_CONFIGS, PLANNING_CONFIGS
from saccade.estimators.reinforcement.mdp import is_simulable, transition_table
from saccade.estimators.reinforcement.planning import value_iteration
from saccade.plots.render import save_figure
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.training import estimator

QUICK = {"data.dev_episodes": 2, "data.test_episodes": 4}


def train(folder: Path, model: str | None = None, world: str | None = None, **given: Any) -> Run:
    changes = QUICK | {name.replace("__", "."): value for name, value in given.items()}
    recipe = resolve_recipe("control", data=world, model=model, changes=changes).recipe
    return train_recipe(recipe, folder, TrainOptions()).run


def values_of(run: Run) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in run.model.state_dict().items()}


@pytest.fixture(scope="module")
def cliff(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of the recipe as it is: Q-learning on the cliff."""
    return train(tmp_path_factory.mktemp("cliff") / "run")


def test_cliff_is_learned_and_shown(cliff: Run, tmp_path: Path) -> None:
    assert cliff.recipe.model_name == "q_learning" and cliff.data_name == "CliffWalking-v1"
    found = cliff.evaluate()
    assert found.metrics["return"] == -13 and found.metrics["exploring_return"] < -13
    figures = cliff.inspector.figures({})
    assert [*figures] == ["values.png", "episodes.png"]
    for name, figure in figures.items():
        save_figure(figure, tmp_path / name)
    assert [answer.text for answer in cliff.predict(["[36]", "25", '{"observation": [35]}'])] == [
        "0",
        "1",
        "2",
    ]
    text = cliff.look("[36]").terminal(100, colour=False)
    assert "3  ↑ -13" in text and "↓ -1" in text
    reloaded = load_run(cliff.folder)
    for name, value in values_of(cliff).items():
        assert (values_of(reloaded)[name] == value).all(), name
    assert all(result.passed in (True, None) for result in cliff.check(inputs=8))


@pytest.mark.parametrize("model", PLANNING_CONFIGS)
def test_planners_solve_the_lake(model: str, tmp_path: Path) -> None:
    run = train(tmp_path / "run", model, "FrozenLake-v1", data__arguments={"is_slippery": False})
    table = transition_table(gymnasium.make("FrozenLake-v1", is_slippery=False))
    expected = value_iteration(table, 0.99).action_values
    np.testing.assert_allclose(values_of(run)["action_values"], expected, atol=1e-8)
    assert run.evaluate().metrics["return"] == 1
    [_, (name, figure)] = run.inspector.figures({}).items()
    assert name == "sweeps.png" and save_figure(figure, tmp_path / name) == []
    lines = [json.loads(x) for x in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    residuals = [line["residual"] for line in lines if "residual" in line]
    assert residuals[-1] <= 1e-10 < residuals[0]


@pytest.mark.parametrize("world", ["CliffWalking-v1", "Blackjack-v1"])
@pytest.mark.parametrize("model", ["double_q", "monte_carlo"])
def test_resuming_gives_the_same_bits(
    world: str,
    model: str,
    tmp_path: Path,
    killed_once_saved: Callable[[Callable[[], object]], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"model__episodes": 1200, "data__max_episode_steps": 30}
    whole = train(tmp_path / "whole", model, world, **given)
    monkeypatch.setattr(estimator, "SAVE_INTERVAL", -1.0)  # after each block
    block = killed_once_saved(lambda: train(tmp_path / "killed", model, world, **given))
    assert 0 < block < 1200
    monkeypatch.setattr(estimator, "SAVE_INTERVAL", 60.0)
    resumed = resume(tmp_path / "killed", {}, TrainOptions()).run
    for name, value in values_of(whole).items():
        assert (values_of(resumed)[name] == value).all(), name


@pytest.mark.parametrize("model", EPISODIC_CONFIGS)
def test_blackjack_is_learned_by_stepping(model: str, tmp_path: Path) -> None:
    run = train(
        tmp_path / "run",
        model,
        "Blackjack-v1",
        model__episodes=1500,
        model__epsilon_start=0.5,
        model__learning_rate=1.0,
        model__learning_rate_power=1.0,
    )
    values = values_of(run)
    assert values["visits"].sum() >= 1500 and np.abs(values["action_values"]).max() <= 1
    # with 20 and more, to stick is better than to hit
    stick, hit = values["action_values"].reshape(32, 11, 2, 2)[20:22, :, 0].mean((0, 1))
    assert stick > hit
    with pytest.raises(ConfigError, match="an episode as text"):
        run.look("[20, 5, 0]")


class LaterReward(gymnasium.RewardWrapper[Any, Any]):
    """A wrapper after which the table does not describe the rewards."""

    def reward(self, reward: Any) -> Any:
        return reward - 1.0


def test_only_known_worlds_are_simulated() -> None:
    lake = gymnasium.make("FrozenLake-v1")
    assert is_simulable(lake) and not is_simulable(LaterReward(lake))
    assert is_simulable(gymnasium.make("Taxi-v4"))
    assert not is_simulable(gymnasium.make("Taxi-v4", fickle_passenger=True))
    assert not is_simulable(gymnasium.make("Blackjack-v1"))


@pytest.mark.parametrize(
    ("world", "model", "message"),
    [
        ("Blackjack-v1", "value_iteration", "publishes no transition table"),
        ("CartPole-v1", "sarsa", "expected categories and discrete actions.*--model dqn"),
        ("Pendulum-v1", "q_learning", "continuous actions for a table of values"),
    ],
)
def test_worlds_that_do_not_fit_are_refused(
    world: str, model: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(tmp_path / "run", model, world)
    assert not (tmp_path / "run").exists()
