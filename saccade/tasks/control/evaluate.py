"""Returns of whole episodes: greedy, with exploration, and of the random policy."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from saccade.metrics.seeds import interquartile_mean
from saccade.tasks.base import Evaluator
from saccade.tasks.control.agent import Agent
from saccade.tasks.control.data import EnvironmentSplit
from saccade.tasks.control.episodes import Episodes, play_episodes
from saccade.types.arrays import FloatArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation

NORMAL_95 = 1.96  # standard errors on both sides of a mean, for 95 %


class ControlEvaluator(Evaluator[EnvironmentSplit]):
    """Mean undiscounted return over episodes."""

    metric = ComparisonMetric("return", higher_is_better=True, by_seeds=True)
    headline = ("return", "deviation", "low", "high", "exploring_return")

    def __init__(self, agent: Agent):
        self.agent = agent

    def evaluate(
        self,
        split: EnvironmentSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the returns of the greedy policy; of test episodes also with exploration."""
        self.refuse_options(options, "an action is computed, not searched for")
        count = min(split.episodes, limit or split.episodes)
        greedy = play_episodes(
            self.agent, split.runner, count, explore=False, on_progress=on_progress
        )
        metrics = summarise(greedy)
        conventions = {
            "return": f"mean undiscounted return of {count} episodes, greedy",
            "interquartile_mean": "mean of the middle half of the returns",
            "deviation": "standard deviation of the returns over the episodes",
            "low": "lower end of the 95 % confidence interval of the mean",
            "high": "its upper end",
            "length": "mean number of steps of an episode",
            "truncated": "share of the episodes that the time limit ended",
        }
        notes: tuple[str, ...] = ()
        if split.name == "test":
            exploring = play_episodes(
                self.agent, split.runner, count, explore=True, on_progress=on_progress
            )
            metrics["exploring_return"] = float(exploring.returns.mean())
            conventions["exploring_return"] = "mean return with the exploration of the training"
            notes = _verdict(greedy.returns, split.random_episodes.returns)
        metrics["examples"] = float(count)
        tables = {"returns": greedy.returns.tolist(), "lengths": greedy.lengths.tolist()}
        return Evaluation(metrics, conventions, tables, notes=notes)

    def floors(
        self, train: EnvironmentSplit, split: EnvironmentSplit
    ) -> dict[str, dict[str, float]]:
        """Return the metrics of the random policy on the same episodes."""
        found = summarise(split.random_episodes)
        return {"random policy": {**found, "exploring_return": found["return"]}}

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return the mean return."""
        return metrics["return"]


def summarise(episodes: Episodes) -> dict[str, float]:
    """Return means, deviation and confidence interval of the returns, and the mean length."""
    mean, error = _mean_and_error(episodes.returns)
    return {
        "return": mean,
        "interquartile_mean": float(interquartile_mean(episodes.returns)),
        "deviation": float(episodes.returns.std()),
        "low": mean - NORMAL_95 * error,
        "high": mean + NORMAL_95 * error,
        "length": float(episodes.lengths.mean()),
        "truncated": float(episodes.truncated.mean()),
    }


def _mean_and_error(returns: FloatArray) -> tuple[float, float]:
    """Return the mean and its standard error."""
    error = float(returns.std(ddof=1)) / len(returns) ** 0.5 if len(returns) > 1 else 0.0
    return float(returns.mean()), error


def _verdict(returns: FloatArray, random: FloatArray) -> tuple[str, ...]:
    """Return a note if the agent is no better than the random policy."""
    (mean, error), (floor, floor_error) = map(_mean_and_error, (returns, random))
    margin = NORMAL_95 * float(np.hypot(error, floor_error))
    if mean - floor > margin:
        return ()
    return (
        f"This agent is no better than random: its mean return is {mean:.4g}, that of the random "
        f"policy {floor:.4g} in the same {len(random)} episodes (95 % interval of the difference: "
        f"±{margin:.3g}). Try more train.steps, or another seed.",
    )
