"""Tables as models of the task: learned from episodes, or planned. Does not import torch."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from saccade.data.environments.episodes import EpisodeRunner
from saccade.data.environments.make import (
    episode_seeds,
)
from saccade.data.environments.spaces import Spaces, Vector
from saccade.errors import ConfigError
from saccade.estimators.reinforcement.config import EpisodicConfig, PlanningConfig
from saccade.estimators.reinforcement.planning import PLANNERS
from saccade.estimators.reinforcement.tabular import TabularLearner
from saccade.seeding import RandomRows
from saccade.tasks.base import Components
from saccade.tasks.control.agent import MAX_TOGETHER, Valuation
from saccade.tasks.control.config import ControlRecipe
from saccade.tasks.control.data import EnvironmentSplit, count_states, read_transitions
from saccade.tasks.control.evaluate import ControlEvaluator
from saccade.tasks.control.predict import ActionPredictor
from saccade.tasks.control.table_inspect import ActionTableInspector
from saccade.training.estimator import FitContext
from saccade.types.arrays import FloatArray, IntArray

REPORTS = 20  # lines of the metrics log


class ActionTable:
    """A value for each state and action, and how it was computed."""

    def __init__(self, recipe: ControlRecipe, spaces: Spaces):
        self.action_values = np.zeros((count_states(spaces), spaces.actions))
        self.visits: IntArray = np.zeros(self.action_values.shape, np.int64)
        self.returns: FloatArray = np.zeros(0)  # of each training episode
        self.residuals: FloatArray = np.zeros(0)  # of each sweep of a planner
        self.evaluations: IntArray = np.zeros(0, np.int64)  # sweeps of each policy

    def state_dict(self) -> dict[str, Any]:
        """Return all arrays."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the arrays of a fit."""
        arrays = {name: np.asarray(state[name]) for name in vars(self)}
        for name in ("action_values", "visits"):
            if arrays[name].shape != self.action_values.shape:
                raise RuntimeError(
                    f"got {name} of shape {arrays[name].shape}; expected {self.action_values.shape}"
                )
        if not np.isfinite(arrays["action_values"]).all():
            raise RuntimeError("got action values that are not finite")
        vars(self).update(arrays)


class TableAgent:
    """Acts by a table of values."""

    is_policy = False
    is_continuous = False

    def __init__(self, recipe: ControlRecipe, model: ActionTable, spaces: Spaces):
        self.recipe, self.model, self.spaces = recipe, model, spaces
        self.random = RandomRows(recipe.data.seed, "exploration of a table", 2 * MAX_TOGETHER)

    def states(self, observations: Vector) -> IntArray:
        """Return the numbers of encoded observations (N,)."""
        ends = np.cumsum(self.spaces.sizes).tolist()
        parts = [
            observations[:, end - size : end].argmax(axis=1)
            for end, size in zip(ends, self.spaces.sizes, strict=True)
        ]
        return np.ravel_multi_index(parts, self.spaces.sizes)

    def value(self, observations: Vector) -> Valuation:
        """Return the action values of encoded observations (N, D)."""
        return Valuation(self.model.action_values[self.states(observations)])

    def greedy(self, observations: Vector) -> Any:
        """Return the action of the largest value."""
        return self.value(observations).actions.argmax(axis=1)

    def explore(self, observations: Vector, index: int) -> Any:
        """Return actions of the behaviour policy at the end of training; of a plan, the best."""
        best, config = self.greedy(observations), self.recipe.model
        if not isinstance(config, EpisodicConfig):
            return best
        epsilon = config.epsilon_start if config.epsilon_end is None else config.epsilon_end
        drawn = self.random[index].reshape(-1, 2)[: len(best)]
        random = (drawn[:, 1] * self.spaces.actions).astype(np.int64)
        return np.where(drawn[:, 0] < epsilon, random, best)


class SteppedWorld:
    """The environment of a split as a world of numbered states."""

    def __init__(self, split: EnvironmentSplit, seed: int, agent: TableAgent, first: int):
        self.agent = agent
        self.num_states, self.num_actions = agent.model.action_values.shape
        self.runner: EpisodeRunner = split.runner_for(episode_seeds(seed, "train"), first)
        self.is_new = True

    def reset(self, seed: int) -> int:
        """Start the next episode; its seed is a function of its number."""
        if not self.is_new:
            self.runner.next_episode()
        self.is_new = False
        return self._state()

    def step(self, action: int) -> tuple[int, float, bool, bool]:
        """Take an action."""
        _, reward, terminated, truncated = self.runner.step(action)
        return self._state(), reward, terminated, truncated

    def _state(self) -> int:
        return int(self.agent.states(self.runner.observation[None])[0])


class TableFit:
    """Base of the estimators: the table that is filled, and its environment."""

    is_resumable = False

    def __init__(
        self,
        recipe: ControlRecipe,
        model: ActionTable,
        spaces: Spaces,
        splits: Mapping[str, EnvironmentSplit],
    ):
        self.recipe, self.model, self.spaces, self.split = recipe, model, spaces, splits["train"]


class PlanFit(TableFit):
    """Estimator: policy or value iteration on the transition table."""

    def fit(self, context: FitContext) -> None:
        """Plan."""
        config = self.recipe.model
        assert isinstance(config, PlanningConfig)
        table = read_transitions(self.split.config, must_exist=True)
        assert table is not None
        planner = PLANNERS[self.recipe.model_name]
        try:
            plan = planner(table, config.discount, tolerance=config.tolerance)
        except ValueError as error:
            raise ConfigError(f"{self.spaces.world}: {error}") from None
        for sweep in np.unique(np.linspace(1, plan.sweeps, REPORTS).round().astype(int)).tolist():
            context.log_metrics({"sweep": sweep, "residual": plan.residuals[sweep - 1]})
        self.model.action_values = plan.action_values
        self.model.residuals = np.array(plan.residuals)
        self.model.evaluations = np.array(plan.evaluations)


class LearningFit(TableFit):
    """Estimator: learns the values from episodes."""

    is_resumable = True

    def fit(self, context: FitContext) -> None:
        """Learn from all episodes, with a checkpoint between two of them."""
        config, seed = self.recipe.model, self.recipe.train.seed
        assert isinstance(config, EpisodicConfig)
        learner = TabularLearner(config, *self.model.action_values.shape, seed)
        if context.resume_state is not None:
            learner.load_state_dict(context.resume_state)
        agent = TableAgent(self.recipe, self.model, self.spaces)
        world = read_transitions(self.split.config, must_exist=False) or SteppedWorld(
            self.split, seed, agent, learner.episode
        )
        learn = partial(
            learner.learn,
            world,
            max_steps=self.spaces.max_steps,
            on_episode=partial(_report, context, learner),
        )

        def fit_blocks(start: int, pause: Any) -> int:
            learn(pause=pause)
            return learner.episode

        context.run_blocks(config.episodes, fit_blocks, learner.state_dict)
        if isinstance(world, SteppedWorld):
            world.runner.close()
        self.model.action_values = learner.action_values.copy()
        self.model.visits = learner.counts.sum(axis=0)
        self.model.returns = learner.returns[: learner.episode]


def _report(context: FitContext, learner: TabularLearner, episode: int) -> None:
    """Log the mean return of the last episodes, twenty times."""
    total = learner.config.episodes
    every = max(total // REPORTS, 1)
    if episode % every == 0:
        mean = float(learner.returns[episode - every : episode].mean())
        context.log_metrics({"episode": episode, "episode_return": mean})
        context.on_progress("learning", episode, total)


ActionTableComponents = Components[ControlRecipe, Spaces, ActionTable, EnvironmentSplit]


def _components(estimator: type[PlanFit] | type[LearningFit]) -> ActionTableComponents:
    return ActionTableComponents(
        build_model=ActionTable,
        predictor=lambda *given: ActionPredictor(TableAgent(*given)),
        evaluator=lambda *given: ControlEvaluator(TableAgent(*given)),
        inspector=lambda *given: ActionTableInspector(TableAgent(*given)),
        estimator=estimator,
        is_incremental=False,
    )


PLANNED = _components(PlanFit)
LEARNED = _components(LearningFit)
