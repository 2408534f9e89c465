"""The environment of a recipe, and the episodes of each split."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from saccade.data.environments.config import DEFAULT_MAX_STEPS, EnvironmentConfig
from saccade.data.environments.episodes import EpisodeRunner
from saccade.data.environments.make import (
    EpisodeSeed,
    close_environment,
    episode_seeds,
    has_stated_limit,
    is_deterministic,
    make_environment,
    open_spaces,
)
from saccade.data.environments.spaces import Spaces
from saccade.errors import ConfigError, DataError
from saccade.estimators.reinforcement.config import EpisodicConfig, PlanningConfig
from saccade.estimators.reinforcement.mdp import (
    TransitionTable,
    has_transition_table,
    is_simulable,
    transition_table,
)
from saccade.estimators.reinforcement.policies import policy_pair
from saccade.tasks.base import PrepareContext, PreparedData, fingerprint_arrays
from saccade.tasks.control.agent import RandomAgent
from saccade.tasks.control.config import ControlRecipe
from saccade.tasks.control.episodes import Episodes, play_episodes
from saccade.types.arrays import BoolArray

FINGERPRINT_STEPS = 50
MAX_TABLE_VALUES = 50_000_000  # states times actions
MAX_CHOSEN_TABLE = 1_000_000  # values of a table that is chosen without being named


@dataclass
class EnvironmentSplit:
    """Episodes of an environment, given by their seeds."""

    name: str  # train, dev or test
    config: EnvironmentConfig
    spaces: Spaces
    episodes: int
    deterministic: bool = True

    @property
    def seed_of(self) -> EpisodeSeed:
        """Function from the number of an episode to its seed."""
        return episode_seeds(self.config.seed, self.name)

    def runner(
        self, first: int = 0, stride: int = 1, render_mode: str | None = None
    ) -> EpisodeRunner:
        """Return a runner of episodes `first`, `first` + `stride`, …."""
        return self.runner_for(self.seed_of, first, stride, render_mode)

    def runner_for(
        self,
        seed_of: EpisodeSeed,
        first: int = 0,
        stride: int = 1,
        render_mode: str | None = None,
    ) -> EpisodeRunner:
        """Return a runner of episodes with other seeds, such as those of the training."""
        return EpisodeRunner(self.config, self.spaces, seed_of, first, stride, render_mode)

    @cached_property
    def random_episodes(self) -> Episodes:
        """Returns of the uniform random policy in the same episodes."""
        return play_episodes(RandomAgent(self.spaces, self.config.seed), self.runner, self.episodes)


class GridWorld(NamedTuple):
    """The form of a grid world."""

    shape: tuple[int, int]
    arrows: list[str]  # of the actions
    visible: BoolArray  # states that an episode can visit


def read_grid(config: EnvironmentConfig) -> GridWorld | None:
    """Return the grid of an environment with a transition table; None: its states have none."""
    environment = make_environment(config)
    try:
        if not has_transition_table(environment):
            return None
        table = transition_table(environment)
        return None if table.grid is None else GridWorld(table.grid, table.arrows, table.reachable)
    finally:
        close_environment(environment)


def read_transitions(config: EnvironmentConfig, must_exist: bool) -> TransitionTable | None:
    """Return the transition table of an environment.

    Unless it must exist, only one that the environment itself is known to follow is returned.
    """
    environment = make_environment(config)
    try:
        if not must_exist and not is_simulable(environment):
            return None
        return transition_table(environment)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    finally:
        close_environment(environment)


PreparedEnvironment = PreparedData[ControlRecipe, Spaces, EnvironmentSplit]


def prepare_environment(
    recipe: ControlRecipe, context: PrepareContext[Spaces]
) -> PreparedEnvironment:
    """Make the environment, check it, and set what follows from it."""
    spaces = open_spaces(recipe.data)
    if context.preprocessor is not None:
        _check_same_spaces(spaces, context.preprocessor)
    _check_actions(recipe, spaces)
    if recipe.is_network:
        sizes = _sizes(recipe, spaces)
        recipe = recipe.with_values(model=recipe.model.model_dump(exclude_unset=True) | sizes)
    deterministic = is_deterministic(recipe.data, spaces)
    notes = []
    if not has_stated_limit(recipe.data):
        notes.append(
            f"{spaces.world} states no limit on the steps of an episode: each is cut off after "
            f"{DEFAULT_MAX_STEPS:,} (data.max_episode_steps)."
        )
    if not deterministic:
        notes.append(
            f"{spaces.world} is not deterministic: equal seeds and actions gave different "
            "episodes, so a training that is repeated or resumed has other results."
        )
    if isinstance(recipe.model, PlanningConfig):
        read_transitions(recipe.data, must_exist=True)
    if isinstance(recipe.model, EpisodicConfig):
        policies = policy_pair(recipe.model.name, recipe.model.epsilon_start)
        notes.append(f"{recipe.model.name} is {policies}.")
    data = recipe.data
    counts = {"train": data.dev_episodes, "dev": data.dev_episodes, "test": data.test_episodes}
    splits = {
        name: EnvironmentSplit(name, data, spaces, count, deterministic)
        for name, count in counts.items()
    }
    return PreparedData(recipe, spaces, splits, lambda: _fingerprint(splits["train"]), notes=notes)


def load_environment_split(
    recipe: ControlRecipe, spaces: Spaces, data: str | Path | object
) -> EnvironmentSplit:
    """Return the test episodes of another environment with the same spaces."""
    config = recipe.data.with_values(world=str(data))
    found = open_spaces(config)
    _check_same_spaces(found, spaces)
    return EnvironmentSplit("test", config, found, config.test_episodes)


def _check_same_spaces(found: Spaces, expected: Spaces) -> None:
    fields = ("observation", "sizes", "starts", "action", "actions", "first_action")
    if any(getattr(found, field) != getattr(expected, field) for field in fields):
        raise DataError(
            f"{found.world}: got observations {found.sizes} and {found.actions} {found.action} "
            f"actions; expected those of {expected.world}, {expected.sizes} and {expected.actions} "
            f"{expected.action}."
        )


def choose_agent(config: EnvironmentConfig) -> tuple[str, str]:
    """Return the model for an environment where none is named, and the reason."""
    spaces = open_spaces(config)
    if spaces.action == "continuous":
        return "ppo", "it has continuous actions"
    if spaces.observation == "numbers":
        return "dqn", "it has observations of numbers and discrete actions"
    states = prod(spaces.sizes)
    if states * spaces.actions > MAX_CHOSEN_TABLE:
        return "dqn", f"it has {states:,} states, too many for a table"
    return "q_learning", f"it has {states:,} states, which fit in a table"


def count_states(spaces: Spaces) -> int:
    """Return the number of states of an environment whose observations are categories."""
    if spaces.observation != "categories" or spaces.action != "discrete":
        raise ConfigError(
            f"{spaces.world}: got observations of {spaces.observation} and {spaces.action} actions "
            "for a table of values; expected categories and discrete actions, such as those of "
            "CliffWalking-v1; try --model dqn or ppo."
        )
    states = prod(spaces.sizes)
    if states * spaces.actions > MAX_TABLE_VALUES:
        raise ConfigError(
            f"{spaces.world}: got {states:,} states and {spaces.actions} actions; expected a table "
            f"of at most {MAX_TABLE_VALUES:,} values; try --model dqn."
        )
    return states


def _check_actions(recipe: ControlRecipe, spaces: Spaces) -> None:
    if not recipe.is_network:
        count_states(spaces)
    elif spaces.action == "continuous" and not hasattr(recipe.model, "continuous"):
        raise ConfigError(
            f"{spaces.world}: got continuous actions for {recipe.model_name}; expected discrete "
            "ones, of which it values each; try --model ppo, a2c or reinforce."
        )


def _sizes(recipe: ControlRecipe, spaces: Spaces) -> dict[str, Any]:
    """Return the settings of the model that follow from the environment."""
    sizes: dict[str, Any] = {"inputs": spaces.width, "actions": spaces.actions}
    if hasattr(recipe.model, "continuous"):
        sizes["continuous"] = spaces.action == "continuous"
    return sizes


def _fingerprint(split: EnvironmentSplit) -> str:
    """Return a hash of the first steps of a random policy, by which a change is noticed."""
    if not split.deterministic:
        return fingerprint_arrays(split.spaces.sizes, split.spaces.actions)
    runner = split.runner()
    agent = RandomAgent(split.spaces, 0)
    trace = [runner.observation]
    for index in range(FINGERPRINT_STEPS):
        step = runner.step(agent.explore(runner.observation[None], index)[0])
        trace.append(step.observation)
        if step.terminated or step.truncated:
            break
    runner.close()
    return fingerprint_arrays(*trace)
