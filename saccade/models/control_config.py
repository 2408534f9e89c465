"""Settings of the networks that act in an environment. Does not import torch."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.types.limits import MAX_COUNT, MAX_DEPTH, MAX_VALUE, MAX_WIDTH

ControlActivation = Literal["relu", "tanh"]
MAX_ENVIRONMENTS = 1024


class ControlModelConfig(Config):
    """Settings that every network of the task control has."""

    name: str
    inputs: int = Field(0, ge=0, le=MAX_COUNT)
    """Number of components of an observation; set from the environment."""
    actions: int = Field(0, ge=0, le=MAX_COUNT)
    """Number of actions, or of components of a continuous one; set from the environment."""
    hidden: int = Field(64, ge=1, le=MAX_WIDTH)
    """Number of units of each hidden layer."""
    depth: int = Field(2, ge=1, le=MAX_DEPTH)
    """Number of hidden layers."""
    activation: ControlActivation = "relu"
    """Activation of the hidden layers."""
    discount: float = Field(0.99, ge=0, le=1)
    """Discount factor γ: a reward n steps ahead counts γⁿ."""


class DQNConfig(ControlModelConfig):
    """Settings of DQN (Mnih et al. 2015), whose tricks can be switched off one by one."""

    name: Literal["dqn"] = "dqn"
    replay: bool = True
    """Sample the batches from a replay memory; if false, a batch is the newest transitions."""
    replay_size: int = Field(50_000, ge=1, le=MAX_COUNT)
    """Number of transitions that the replay memory holds."""
    target: bool = True
    """Compute the targets with a copy of the network that is fixed between updates of it."""
    target_interval: int = Field(100, ge=1, le=MAX_COUNT)
    """Optimizer steps between two copies of the network to the target network."""
    huber: bool = True
    """Huber loss of the temporal-difference error; if false, half its square."""
    double: bool = False
    """Choose the next action with the network and value it with the target network (Double DQN,
    van Hasselt et al. 2016)."""
    dueling: bool = False
    """Sum of a state value and advantages of the actions (Wang et al. 2016)."""
    exploration: bool = True
    """Take random actions with probability ε; if false, always the one with the largest value."""
    epsilon_start: float = Field(1.0, ge=0, le=1)
    """Probability ε of a random action at the start of training."""
    epsilon_end: float = Field(0.04, ge=0, le=1)
    """Probability ε of a random action after `exploration_steps`."""
    exploration_steps: int = Field(8_000, ge=1, le=MAX_COUNT)
    """Environment steps over which ε falls linearly."""
    learning_starts: int = Field(1_000, ge=0, le=MAX_COUNT)
    """Environment steps before the first update."""
    collect_steps: int = Field(2, ge=1, le=MAX_COUNT)
    """Environment steps between two rounds of updates."""
    updates: int = Field(1, ge=1, le=MAX_COUNT)
    """Number of optimizer steps of a round."""


class PolicyModelConfig(ControlModelConfig):
    """Settings that the policy-gradient methods share."""

    continuous: bool = False
    """Whether actions are vectors of numbers; set from the environment."""
    activation: ControlActivation = "tanh"
    """Activation of the hidden layers."""
    environments: int = Field(8, ge=1, le=MAX_ENVIRONMENTS)
    """Number of environments that are stepped together."""
    baseline: bool = True
    """Subtract the value that a second network predicts from the return: the advantage."""
    normalize_advantages: bool = True
    """Scale the advantages of a batch to mean 0 and deviation 1."""
    value_coefficient: float = Field(0.5, ge=0, le=MAX_VALUE)
    """Factor of the squared error of the value network in the loss."""
    entropy_coefficient: float = Field(0.0, ge=0, le=MAX_VALUE)
    """Factor of the entropy of the policy, which is subtracted from the loss."""


class ReinforceConfig(PolicyModelConfig):
    """Settings of REINFORCE (Williams 1992): the return of whole episodes."""

    name: Literal["reinforce"] = "reinforce"
    environments: int = Field(8, ge=1, le=MAX_ENVIRONMENTS)
    """Number of environments that are stepped together, and of episodes of a batch."""
    reward_to_go: bool = True
    """Weight the probability of an action by the rewards that follow it; if false, by the return
    of the whole episode."""


class A2CConfig(PolicyModelConfig):
    """Settings of the advantage actor-critic (Mnih et al. 2016), synchronous."""

    name: Literal["a2c"] = "a2c"
    rollout_steps: int = Field(16, ge=1, le=MAX_COUNT)
    """Steps of each environment between two updates."""
    trace: float = Field(1.0, ge=0, le=1)
    """λ of the generalised advantage estimate: 0 is the one-step error, 1 the whole return."""


class PPOConfig(PolicyModelConfig):
    """Settings of proximal policy optimisation (Schulman et al. 2017)."""

    name: Literal["ppo"] = "ppo"
    rollout_steps: int = Field(128, ge=1, le=MAX_COUNT)
    """Steps of each environment between two rounds of updates."""
    trace: float = Field(0.95, ge=0, le=1)
    """λ of the generalised advantage estimate: 0 is the one-step error, 1 the whole return."""
    clip: float = Field(0.2, gt=0, le=1)
    """Largest change of the probability ratio that is rewarded."""
    clipping: bool = True
    """Clip the probability ratio; if false, the plain surrogate is maximised."""
    epochs: int = Field(4, ge=1, le=MAX_COUNT)
    """Number of times that the steps of a rollout are used."""
