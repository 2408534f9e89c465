"""The agent of a trained network: values or probabilities of the actions, and actions."""

from typing import Any

import numpy as np
import torch

from saccade.data.environments.spaces import Spaces, Vector
from saccade.models.control import PolicyNetwork, QNetwork
from saccade.models.control_config import DQNConfig
from saccade.seeding import RandomRows
from saccade.tasks.control.agent import MAX_TOGETHER, Valuation
from saccade.tasks.control.config import ControlRecipe
from saccade.tasks.neural import device_of
from saccade.types.arrays import FloatArray

ControlNetwork = QNetwork | PolicyNetwork


class NetworkAgent:
    """Acts by a network. Thread-safe: no state is kept between calls but cached random numbers."""

    def __init__(self, recipe: ControlRecipe, model: ControlNetwork, spaces: Spaces):
        self.recipe, self.model, self.spaces = recipe, model, spaces
        self.is_policy = isinstance(model, PolicyNetwork)
        self.is_continuous = spaces.action == "continuous"
        self.width = spaces.actions if self.is_continuous else 2  # random numbers of an action
        self.noise = RandomRows(
            recipe.data.seed,
            "exploration of an evaluation",
            self.width * MAX_TOGETHER,
            self.is_continuous,
        )

    @torch.no_grad()
    def value(self, observations: Vector) -> Valuation:
        """Return the values of encoded observations (N, D)."""
        rows = torch.from_numpy(np.ascontiguousarray(observations, np.float32))
        rows = rows.to(device_of(self.model), next(self.model.parameters()).dtype)
        found = self.model(rows)
        if isinstance(self.model, QNetwork):
            return Valuation(found.double().cpu().numpy())
        states = None if found.values is None else found.values.double().cpu().numpy()
        policy, deviation = found.policy.double(), None
        if found.log_deviation is None:
            policy = policy.softmax(dim=-1)
        else:
            deviation = found.log_deviation.double().exp().cpu().numpy()
        return Valuation(policy.cpu().numpy(), deviation, states)

    def greedy(self, observations: Vector) -> Any:
        """Return the action of the largest value or probability; of a Gaussian, its mean."""
        actions = self.value(observations).actions
        return actions.argmax(1) if not self.is_continuous else actions

    def explore(self, observations: Vector, index: int) -> Any:
        """Return actions with the exploration at the end of training: ε-greedy, or sampled."""
        found, count = self.value(observations), len(observations)
        noise = self.noise[index][: count * self.width].reshape(count, self.width)
        if self.is_continuous:
            assert found.deviation is not None
            return found.actions + found.deviation * noise
        if isinstance(self.recipe.model, DQNConfig):
            epsilon = self.recipe.model.epsilon_end if self.recipe.model.exploration else 0.0
            best = found.actions.argmax(1)
            random = (noise[:, 1] * self.spaces.actions).astype(np.int64)
            return np.where(noise[:, 0] < epsilon, random, best)
        return sample_actions(found.actions, noise[:, 0])


def sample_actions(probabilities: FloatArray, uniform: FloatArray) -> Any:
    """Return an action for each row of probabilities, by inversion of a uniform number."""
    sums = probabilities.cumsum(1)
    return (sums < uniform[:, None] * sums[:, -1:]).sum(1).clip(max=probabilities.shape[1] - 1)
