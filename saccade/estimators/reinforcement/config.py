"""Settings of reinforcement learning with tables. Does not import torch."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.types.limits import MAX_COUNT


class PlanningConfig(Config):
    """Planning on the transition table of a world."""

    name: str
    discount: float = Field(0.99, ge=0, le=1)
    """Discount factor γ: a reward n steps ahead counts γⁿ; with 1, episodes must end."""
    tolerance: float = Field(1e-10, gt=0, le=1)
    """Bellman residual at which the sweeps end."""


class PolicyIterationConfig(PlanningConfig):
    """Policy iteration (Howard 1960)."""

    name: Literal["policy_iteration"] = "policy_iteration"


class ValueIterationConfig(PlanningConfig):
    """Value iteration (Bellman 1957)."""

    name: Literal["value_iteration"] = "value_iteration"


class EpisodicConfig(Config):
    """Learning action values from episodes of an ε-greedy behaviour policy."""

    name: str
    discount: float = Field(1.0, ge=0, le=1)
    """Discount factor γ: a reward n steps ahead counts γⁿ."""
    episodes: int = Field(500, ge=1, le=MAX_COUNT)
    """Episodes to learn from."""
    epsilon_start: float = Field(0.1, ge=0, le=1)
    """Probability ε of a random action of the behaviour policy, in the first episode."""
    epsilon_end: float | None = Field(None, ge=0, le=1)
    """ε in the last episode, reached linearly; None: as in the first."""
    learning_rate: float = Field(0.5, gt=0, le=1)
    """Step size α at the first visit of a state and action."""
    learning_rate_power: float = Field(0.0, ge=0, le=1)
    """Step size α / n^power at the n-th visit; above ½, noise vanishes; 0: constant."""
    initial_value: float = Field(0.0, ge=-1e6, le=1e6)
    """Action values before learning; above the true ones they lead to exploration."""


class QLearningConfig(EpisodicConfig):
    """Q-learning (Watkins 1989): off-policy, the target policy is greedy."""

    name: Literal["q_learning"] = "q_learning"


class DoubleQConfig(EpisodicConfig):
    """Double Q-learning (van Hasselt 2010): off-policy, one table values the best of the other."""

    name: Literal["double_q"] = "double_q"


class SarsaConfig(EpisodicConfig):
    """SARSA (Rummery and Niranjan 1994): on-policy, the target has the action taken next."""

    name: Literal["sarsa"] = "sarsa"


class ExpectedSarsaConfig(EpisodicConfig):
    """Expected SARSA (van Seijen et al. 2009): on-policy, the target is an expectation."""

    name: Literal["expected_sarsa"] = "expected_sarsa"


class MonteCarloConfig(EpisodicConfig):
    """On-policy Monte-Carlo control: targets are returns of whole episodes."""

    name: Literal["monte_carlo"] = "monte_carlo"
    visits: Literal["first", "every"] = "first"
    """Occurrences of a state and action in an episode whose returns count."""
    learning_rate: float = Field(1.0, gt=0, le=1)
    """Step size α at the first visit of a state and action."""
    learning_rate_power: float = Field(1.0, ge=0, le=1)
    """Step size α / n^power at the n-th visit; 1: the mean of all returns; 0: constant."""


PLANNING_CONFIGS: dict[str, type[PlanningConfig]] = {
    "policy_iteration": PolicyIterationConfig,
    "value_iteration": ValueIterationConfig,
}
EPISODIC_CONFIGS: dict[str, type[EpisodicConfig]] = {
    "double_q": DoubleQConfig,
    "expected_sarsa": ExpectedSarsaConfig,
    "monte_carlo": MonteCarloConfig,
    "q_learning": QLearningConfig,
    "sarsa": SarsaConfig,
}
