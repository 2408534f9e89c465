"""The environment of a recipe, and the episodes of each split."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from saccade.data.environments.config import DEFAULT_MAX_STEPS, EnvironmentConfig
from saccade.data.environments.episodes import EpisodeRunner
from saccade.data.environments.make import (
    EpisodeSeed,
    episode_seeds,
    has_stated_limit,
    is_deterministic,
    open_spaces,
)
from saccade.data.environments.spaces import Spaces
from saccade.errors import ConfigError, DataError
from saccade.tasks.base import Choice, PrepareContext, PreparedData, fingerprint_arrays
from saccade.tasks.control.agent import RandomAgent
from saccade.tasks.control.config import ControlRecipe
from saccade.tasks.control.episodes import Episodes, play_episodes

FINGERPRINT_STEPS = 50


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


PreparedEnvironment = PreparedData[ControlRecipe, Spaces, EnvironmentSplit]


def prepare_environment(
    recipe: ControlRecipe, context: PrepareContext[Spaces]
) -> PreparedEnvironment:
    """Make the environment, check it, and set what follows from it."""
    spaces = open_spaces(recipe.data)
    if context.preprocessor is not None:
        _check_same_spaces(spaces, context.preprocessor)
    recipe, choices = _choose_model(recipe, spaces, context.auto_model)
    _check_actions(recipe, spaces)
    recipe = recipe.with_values(
        model=recipe.model.model_dump(exclude_unset=True) | _sizes(recipe, spaces)
    )
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
    data = recipe.data
    counts = {"train": data.dev_episodes, "dev": data.dev_episodes, "test": data.test_episodes}
    splits = {
        name: EnvironmentSplit(name, data, spaces, count, deterministic)
        for name, count in counts.items()
    }
    return PreparedData(
        recipe, spaces, splits, lambda: _fingerprint(splits["train"]), choices, notes
    )


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


def _choose_model(
    recipe: ControlRecipe, spaces: Spaces, is_open: bool
) -> tuple[ControlRecipe, list[Choice]]:
    """Choose a model for the actions, if none is named."""
    if not is_open or spaces.action == "discrete":
        return recipe, []
    reason = f"{spaces.world} has continuous actions"
    return recipe.with_values(model={"name": "ppo"}), [Choice("model.name", "ppo", reason)]


def _check_actions(recipe: ControlRecipe, spaces: Spaces) -> None:
    if spaces.action == "continuous" and not hasattr(recipe.model, "continuous"):
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
