"""Recording of one episode of an agent, with pictures where the environment draws them."""

from contextlib import closing
from typing import Any

import numpy as np

from saccade.data.environments.episodes import EpisodeRunner
from saccade.data.environments.make import make_environment, without_display
from saccade.errors import ConfigError, SaccadeError
from saccade.inspection.episode import EpisodeRecord
from saccade.tasks.control.agent import ValueAgent
from saccade.tasks.control.data import EnvironmentSplit

TEXT_MODES = ("ansi",)


def render_modes(split: EnvironmentSplit) -> tuple[str, ...]:
    """Return how an environment can be drawn."""
    environment = make_environment(split.config)
    modes = tuple(environment.metadata.get("render_modes", ()))
    environment.close()
    return modes


def record_episode(
    agent: ValueAgent,
    split: EnvironmentSplit,
    *,
    number: int = 0,
    explore: bool = False,
    mode: str | None = None,
) -> EpisodeRecord:
    """Run one episode, greedy or with exploration, and record each step.

    `mode` is how the environment is drawn: "rgb_array" (pictures), "ansi" (text) or not at all.
    """
    if mode is not None and mode not in render_modes(split):
        mode = None
    with without_display():
        try:
            with closing(split.runner(number, 1, mode)) as runner:
                return _record(agent, runner, split, explore, mode)
        except (SaccadeError, KeyboardInterrupt):
            raise
        except Exception as error:  # of code that is not ours
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            needs = "an episode" if mode is None else "one that is drawn without a display"
            advice = "to correct the environment"
            if mode is not None:
                advice = "--save play.png for the values only, or pip install 'saccade[rl]'"
            raise ConfigError(
                f"{split.spaces.world}: got an error of the environment ({reason}); expected "
                f"{needs}; try {advice}."
            ) from None


def _record(
    agent: ValueAgent,
    runner: EpisodeRunner,
    split: EnvironmentSplit,
    explore: bool,
    mode: str | None,
) -> EpisodeRecord:
    drawn: list[Any] = []
    rows: list[tuple[Any, ...]] = []
    while True:
        observation = runner.observation[None]
        if mode is not None:
            drawn.append(runner.environment.render())
        found = agent.value(observation)
        index = len(rows)
        action = agent.explore(observation, index) if explore else agent.greedy(observation)
        taken = action.tolist()[0] if action.ndim == 1 else action[0]
        step = runner.step(taken)
        predicted = _predicted(agent, found.actions[0], found.states, taken)
        rows.append((found.actions[0], taken, step.reward, predicted))
        if step.terminated or step.truncated:
            break
    numbers, actions, rewards, values = zip(*rows, strict=True)
    spaces = split.spaces
    kind = "probability" if agent.is_policy else "value"
    names = [str(spaces.first_action + action) for action in range(spaces.actions)]
    return EpisodeRecord(
        world=spaces.world,
        model=agent.recipe.model_name,
        quantity="mean" if agent.is_continuous else kind,
        names=names,
        numbers=np.array(numbers),
        actions=np.array(actions),
        rewards=np.array(rewards),
        discount=float(agent.recipe.model.model_dump()["discount"]),
        is_cut_off=step.truncated,
        predicted=None if values[0] is None else np.array(values),
        frames=tuple(drawn) if mode == "rgb_array" else (),
        texts=tuple(map(str, drawn)) if mode in TEXT_MODES else (),
    )


def _predicted(agent: ValueAgent, numbers: Any, states: Any, taken: Any) -> float | None:
    """Return the value of the action taken, or of the state; None without a value network."""
    if not agent.is_policy:
        return float(numbers[taken])
    return None if states is None else float(states[0])
