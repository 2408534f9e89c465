"""Networks that act: action values (DQN), and a policy with a value (REINFORCE, A2C, PPO)."""

from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.control_config import (
    ControlModelConfig,
    DQNConfig,
    PolicyModelConfig,
)
from saccade.nn.activations import ActivationLayer

POLICY_GAIN = 0.01  # of the first weights of the policy: all actions start about equally probable


def hidden_layers(config: ControlModelConfig) -> nn.Sequential:
    """Return the hidden layers of a multi-layer perceptron."""
    widths = [config.inputs, *[config.hidden] * config.depth]
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), ActivationLayer(config.activation)]
    return nn.Sequential(*layers)


class QNetwork(nn.Module):
    r"""Action values Q(s, ·) of DQN (Mnih et al. 2015).

    Dueling (Wang et al. 2016): Q(s, a) = V(s) + A(s, a) - mean_b A(s, b).
    """

    def __init__(self, config: DQNConfig):
        super().__init__()
        self.hidden = hidden_layers(config)
        self.output = nn.Linear(config.hidden, config.actions)
        self.value = nn.Linear(config.hidden, 1) if config.dueling else None

    def forward(self, observations: Float[Tensor, "B D"]) -> Float[Tensor, "B A"]:
        """Return the value of each action."""
        hidden = self.hidden(observations)
        values = self.output(hidden)
        if self.value is None:
            return values
        return self.value(hidden) + values - values.mean(dim=-1, keepdim=True)


class PolicyOutput(NamedTuple):
    """Parameters of the distribution of actions, and the value of each state."""

    policy: Tensor  # logits of the actions, or mean of a Gaussian (B, A)
    log_deviation: Tensor | None  # of the Gaussian (A); None: discrete actions
    values: Tensor | None  # (B); None: no value network


class PolicyNetwork(nn.Module):
    """A policy, and a value network of its own if there is a baseline.

    Discrete actions have a categorical distribution. Continuous ones have a Gaussian distribution
    whose deviation does not depend on the state.
    """

    def __init__(self, config: PolicyModelConfig):
        super().__init__()
        self.hidden = hidden_layers(config)
        self.output = nn.Linear(config.hidden, config.actions)
        self.log_deviation = (
            nn.Parameter(torch.zeros(config.actions)) if config.continuous else None
        )
        self.value = None
        value_output = nn.Linear(config.hidden, 1)
        if config.baseline:
            self.value = nn.Sequential(hidden_layers(config), value_output)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, 2**0.5)
                nn.init.zeros_(layer.bias)
        nn.init.orthogonal_(self.output.weight, POLICY_GAIN)
        if self.value is not None:
            nn.init.orthogonal_(value_output.weight, 1.0)

    def forward(self, observations: Float[Tensor, "B D"]) -> PolicyOutput:
        """Return the distribution of actions and the values."""
        values = None if self.value is None else self.value(observations).squeeze(-1)
        return PolicyOutput(self.output(self.hidden(observations)), self.log_deviation, values)
