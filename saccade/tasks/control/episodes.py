"""Whole episodes of an agent, several environments at a time."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from saccade.data.environments.episodes import EpisodeRunner
from saccade.tasks.control.agent import MAX_TOGETHER, Agent
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.progress import Progress, ignore_progress

MakeRunner = Callable[[int, int], EpisodeRunner]  # first episode, stride


class Episodes(NamedTuple):
    """Undiscounted return, length and end of each episode, in the order of their numbers."""

    returns: FloatArray
    lengths: IntArray
    truncated: IntArray  # 1 where the time limit ended the episode


def play_episodes(
    agent: Agent,
    make_runner: MakeRunner,
    count: int,
    *,
    explore: bool = True,
    on_progress: Progress = ignore_progress,
) -> Episodes:
    """Run episodes 0 to `count` - 1 with an agent, several environments at a time."""
    together = min(count, MAX_TOGETHER)
    runners = [make_runner(first, together) for first in range(together)]
    returns, lengths = np.zeros(count), np.zeros(count, np.int64)
    truncated = np.zeros(count, np.int64)
    active, index, done = runners, 0, 0
    while active:
        observations = np.stack([runner.observation for runner in active])
        if explore:
            actions = agent.explore(observations, index)
        else:
            actions = agent.greedy(observations)
        index += 1
        still = []
        taken = actions.tolist() if actions.ndim == 1 else list(actions)
        for runner, action in zip(active, taken, strict=True):
            step = runner.step(action)
            if step.terminated or step.truncated:
                episode = runner.episode
                returns[episode], lengths[episode] = runner.total, len(runner.actions)
                truncated[episode] = step.truncated
                done += 1
                on_progress("evaluating", done, count)
                if episode + together >= count:
                    continue
                runner.next_episode()
            still.append(runner)
        active = still
    for runner in runners:
        runner.close()
    return Episodes(returns, lengths, truncated)
