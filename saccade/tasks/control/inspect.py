"""Episodes and invariance checks of an agent."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from saccade.data.environments.spaces import Vector
from saccade.inspection.checks import BATCH_INVARIANCE, RELOAD_CONSISTENCY, CheckResult
from saccade.inspection.episode import EpisodeRecord
from saccade.inspection.figures import Figure
from saccade.tasks.base import Inspector
from saccade.tasks.control.agent import ValueAgent
from saccade.tasks.control.data import EnvironmentSplit
from saccade.tasks.control.recording import record_episode
from saccade.types.arrays import FloatArray

CHECK_TOLERANCE = 1e-4  # of values in float32, relative to the largest


class ControlInspector(Inspector[EnvironmentSplit]):
    """Shows what an agent values."""

    def __init__(self, agent: ValueAgent):
        self.agent, self.spaces = agent, agent.spaces
        self.make_agent: Callable[[Any, Any, Any], ValueAgent] = type(agent)

    def example_input(self, split: EnvironmentSplit) -> str:
        """Return the first observation of an episode."""
        return self._text(observations_of(self.agent, split, 1)[0])

    def views(self) -> dict[str, str]:
        """Return the views of an episode."""
        return {
            "--save play.gif": "an episode with the values next to it",
            "--terminal": "an episode as text",
        }

    def episode(
        self, split: EnvironmentSplit, number: int, explore: bool, mode: str | None
    ) -> EpisodeRecord:
        """Return what the agent values and does in one episode."""
        return record_episode(self.agent, split, number=number, explore=explore, mode=mode)

    def figures(self, splits: Mapping[str, EnvironmentSplit]) -> dict[str, Figure]:
        """Return the values, rewards and returns of the first test episode."""
        return {"episode.png": record_episode(self.agent, splits["test"]).panels()}

    def _text(self, observation: Vector) -> str:
        if self.spaces.observation == "categories":
            return json.dumps(list(self.spaces.decode_categories(observation)))
        return json.dumps([round(float(value), 4) for value in observation])

    def checks(self, split: EnvironmentSplit, count: int) -> Iterator[CheckResult]:
        """Check that an observation has the same values alone as among others."""
        observations = observations_of(self.agent, split, count)
        together = self.agent.value(observations).actions
        single = np.concatenate([self.agent.value(row[None]).actions for row in observations])
        yield _compare(BATCH_INVARIANCE, together, single)

    def compare_reloaded(self, other: Any, split: EnvironmentSplit, count: int) -> CheckResult:
        """Check that the reloaded network computes the same values."""
        observations = observations_of(self.agent, split, count)
        reloaded = self.make_agent(self.agent.recipe, other, self.spaces)
        one, two = (agent.value(observations).actions for agent in (self.agent, reloaded))
        return _compare(RELOAD_CONSISTENCY, one, two)


def observations_of(agent: ValueAgent, split: EnvironmentSplit, count: int) -> Vector:
    """Return the first observations of greedy episodes."""
    runner = split.runner()
    found: list[Vector] = []
    while len(found) < count:
        found.append(runner.observation)
        step = runner.step(agent.greedy(runner.observation[None])[0])
        if step.terminated or step.truncated:
            runner.next_episode()
    runner.close()
    return np.stack(found)


def _compare(invariant: str, one: FloatArray, other: FloatArray) -> CheckResult:
    tolerance = CHECK_TOLERANCE * max(1.0, float(np.abs(one).max()))
    return CheckResult(invariant, len(one), float(np.abs(one - other).max()), tolerance)
