"""Environments: names, spaces, determinism, restored episodes, and messages."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.environments.config import EnvironmentConfig
from saccade.data.environments.episodes import EpisodeRunner
from saccade.data.environments.make import (
    episode_seeds,
    is_deterministic,
    make_environment,
    open_spaces,
    random_action,
)
from saccade.errors import ConfigError, DataError
from saccade.seeding import RandomRows, generator

WORLDS = "tests.tasks.worlds"


def world(name: str, **settings: Any) -> EnvironmentConfig:
    return EnvironmentConfig(world=f"{WORLDS}:{name}", **settings)


def runner_of(config: EnvironmentConfig, first: int = 0, stride: int = 1) -> EpisodeRunner:
    return EpisodeRunner(config, open_spaces(config), episode_seeds(7, "train"), first, stride)


def test_spaces_of_gymnasium() -> None:
    expected = {
        "CartPole-v1": ("numbers", 4, "discrete", 2, 500),
        "MountainCar-v0": ("numbers", 2, "discrete", 3, 200),
        "Pendulum-v1": ("numbers", 3, "continuous", 1, 200),
        "Blackjack-v1": ("categories", 32 + 11 + 2, "discrete", 2, 1000),
        "FrozenLake-v1": ("categories", 16, "discrete", 4, 100),
        "Taxi-v4": ("categories", 500, "discrete", 6, 200),
    }
    for name, (kind, width, action, actions, limit) in expected.items():
        spaces = open_spaces(EnvironmentConfig(world=name))
        assert (spaces.observation, spaces.width) == (kind, width)
        assert (spaces.action, spaces.actions, spaces.max_steps) == (action, actions, limit)
        assert type(spaces).from_json(spaces.to_json()) == spaces


def test_categories_are_one_hot_and_actions_start_where_they_start() -> None:
    from tests.tasks.worlds import Cards

    config = world("Cards")
    spaces, runner = open_spaces(config), runner_of(config)
    assert runner.observation.tolist() == [0, 0, 1, 0, 1, 1, 0]
    assert spaces.decode_categories(runner.observation) == (3, 1, 0)
    assert spaces.parse([3, 1, 0], "input 1").tolist() == runner.observation.tolist()
    Cards.taken.clear()
    assert runner.step(1).terminated and Cards.taken == [6]
    for wrong in ([4, 0, 0], [0, 0, 0], [1, 0], [1.5, 0, 0], ["a", 0, 0], [1, 0, 0, 0], None):
        with pytest.raises(DataError, match=r"expected whole numbers \(1 to 3, 0 to 1, 0 to 1\)"):
            spaces.parse(wrong, "input 1")


def test_wrong_observation_is_refused() -> None:
    spaces = open_spaces(EnvironmentConfig(world="CartPole-v1"))
    for wrong in ([1, 2, 3], [1, 2, 3, math.nan], [[1, 2], [3]], "x", {}, [1, 2, 3, 10**400]):
        with pytest.raises(DataError, match="expected 4 finite numbers, an observation of CartP"):
            spaces.parse(wrong, "input 1")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPol-v1", r"no environment 'CartPol-v1'\. Did you mean 'CartPole-v1'\?"),
        ("nowhere:World", r"module 'nowhere' cannot be imported"),
        (f"{WORLDS}:Corridr", r"Did you mean 'Corridor'\? The module has: Corridor, NaN"),
        (f"{WORLDS}:Fails", r"cannot be made \(RuntimeError: the simulator is not running\)"),
        (f"{WORLDS}:DictObservations", r"type Dict with the keys camera, speed; .*FlattenObs"),
        (f"{WORLDS}:TwoActions", r"actions of the type MultiDiscrete; expected one discrete"),
        (None, r"no environment; expected the name of one; try --world CartPole-v1"),
    ],
)
def test_world_that_cannot_be_used(name: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_spaces(EnvironmentConfig(world=name))


def test_unknown_argument_is_refused() -> None:
    with pytest.raises(ConfigError, match="got 'gravity' in data.arguments.* It takes: sutton_bar"):
        make_environment(EnvironmentConfig(world="CartPole-v1", arguments={"gravity": 3}))
    slippery = EnvironmentConfig(world="FrozenLake-v1", arguments={"is_slippery": False})
    transitions = make_environment(slippery).unwrapped.P[0][0]
    assert [probability for probability, *_ in transitions] == [1.0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Corridor", True), ("Steered", True), ("Unseeded", False), ("Remembering", False)],
)
def test_environment_that_is_not_deterministic_is_found(name: str, expected: bool) -> None:
    config = world(name)
    assert is_deterministic(config, open_spaces(config)) is expected


def test_reward_that_is_not_a_number_is_refused() -> None:
    runner = runner_of(world("NaNRewards"))
    with pytest.raises(DataError, match="reward of nan in step 1 of episode 0; expected a finite"):
        runner.step(0)


def test_episode_without_an_end_is_cut_off() -> None:
    runner = runner_of(world("Corridor", max_episode_steps=9))
    steps = [runner.step(0) for _ in range(9)]  # to the left for ever
    assert [step.truncated for step in steps] == [False] * 8 + [True]
    assert not any(step.terminated for step in steps)
    assert open_spaces(world("Corridor")).max_steps == 1000


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 60))
def test_restored_episode_continues_with_the_same_bits(seed: int, stride: int, count: int) -> None:
    """Numbers of episode and actions are all that is needed, in the middle of an episode too."""
    config = world("Corridor", arguments={"slip": 0.3}, max_episode_steps=8)
    draw = generator(seed, "actions")
    one, other = runner_of(config, 1, stride), runner_of(config)

    def advance(runner: EpisodeRunner, action: int) -> tuple[Any, ...]:
        step = runner.step(action)
        if step.terminated or step.truncated:
            runner.next_episode()
        return step.observation.tolist(), step[1:], runner.observation.tolist(), runner.episode

    for action in draw.integers(2, size=count).tolist():
        advance(one, action)
    other.stride = stride
    other.restore(one.episode, list(one.actions))
    assert other.total == one.total and (other.observation == one.observation).all()
    for action in draw.integers(2, size=20).tolist():
        assert advance(one, action) == advance(other, action)


def test_episode_seeds_depend_on_seed_purpose_and_number() -> None:
    found = {
        episode_seeds(seed, purpose)(episode)
        for seed in range(3)
        for purpose in ("train", "dev", "test")
        for episode in range(50)
    }
    assert len(found) == 450 and all(0 <= seed < 2**31 for seed in found)


def test_random_actions_cover_the_space() -> None:
    spaces = open_spaces(EnvironmentConfig(world="Pendulum-v1"))
    draw = generator(0, "actions")
    found = np.array([random_action(spaces, draw) for _ in range(2000)])
    assert abs(found.mean()) < 0.1 and abs(found.std() - 2 / 3**0.5) < 0.1  # U(-2, 2)
    assert abs(found).max() <= 2


def test_random_rows_are_functions_of_their_index() -> None:
    rows = RandomRows(3, "test", 2)
    ahead = [rows[index].tolist() for index in (5000, 7, 4095, 4096)]
    again = RandomRows(3, "test", 2)
    assert [again[index].tolist() for index in (5000, 7, 4095, 4096)] == ahead
    assert len({*map(tuple, ahead)}) == 4
    assert RandomRows(4, "test", 2)[7].tolist() != ahead[1]
