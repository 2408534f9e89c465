"""Training objective of the policy-gradient methods: REINFORCE, A2C and PPO."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saccade.data.environments.episodes import EpisodeRunner
from saccade.data.environments.make import episode_seeds
from saccade.data.environments.spaces import Spaces, Vector
from saccade.inspection.figures import Figure
from saccade.models.control import PolicyNetwork
from saccade.models.control_config import PolicyModelConfig, PPOConfig, ReinforceConfig
from saccade.nn.policy_gradient import clipped_surrogate_loss, policy_gradient_loss
from saccade.seeding import RandomRows, generator
from saccade.tasks.control.config import ControlRecipe
from saccade.tasks.control.data import EnvironmentSplit
from saccade.tasks.control.history import History
from saccade.tasks.control.network_agent import sample_actions
from saccade.tasks.control.rollout import (
    PolicyBatch,
    collect_episodes,
    collect_steps,
    log_probabilities,
    prepare_batch,
)
from saccade.tasks.control.running import PolicyDependentObjective, restore_runner, runner_state
from saccade.training.objective import Loss


class PolicyObjective(PolicyDependentObjective[PolicyBatch]):
    r"""Σ_t -Â_t log π(a_t | s_t) + c_v ½ (G_t - V(s_t))² - c_e H(π(· | s_t)).

    The advantage Â is the return of the episode minus the baseline (REINFORCE, Williams 1992) or
    generalised advantages of a part of it (A2C, Mnih et al. 2016). PPO (Schulman et al. 2017)
    replaces the first term by the clipped surrogate and uses each rollout several times. The state
    is the running episodes, the counters, and of a rollout that is in use its batch.
    """

    model: PolicyNetwork

    def __init__(
        self,
        recipe: ControlRecipe,
        model: PolicyNetwork,
        spaces: Spaces,
        splits: Mapping[str, EnvironmentSplit],
    ):
        super().__init__(recipe, model)
        config = recipe.model
        assert isinstance(config, PolicyModelConfig)
        self.config, self.spaces = config, spaces
        seed, count = self.settings.seed, config.environments
        self.is_continuous = config.continuous
        width = spaces.actions if self.is_continuous else 1
        self.noise = RandomRows(seed, "actions", count * width, self.is_continuous)
        self.runners = [
            splits["train"].runner_for(episode_seeds(seed, "train"), first, count)
            for first in range(count)
        ]
        self.history = History()
        self.trace = float(getattr(config, "trace", 1.0))
        self.steps = 0  # of all environments
        self.calls = 0  # of the policy, each with random numbers of its own
        self.rollouts = self.parts = 0  # collected so far, and batches yielded of the last one
        self.batch: PolicyBatch | None = None

    @torch.no_grad()
    def act(self, observations: Vector) -> Any:
        """Return an action for each environment, sampled from the policy."""
        weight = next(self.model.parameters())
        found = self.model(torch.from_numpy(observations).to(weight))
        noise = self.noise[self.calls].reshape(len(observations), -1)
        self.calls += 1
        if found.log_deviation is None:
            return sample_actions(found.policy.double().softmax(1).cpu().numpy(), noise[:, 0])
        deviation = found.log_deviation.exp().cpu().numpy()
        return found.policy.cpu().numpy() + deviation * noise

    def collect(self) -> PolicyBatch:
        """Act in all environments with the current policy."""
        if isinstance(self.config, ReinforceConfig):
            rollout = collect_episodes(self.runners, self.act, self._record)
        else:
            steps: int = self.config.model_dump()["rollout_steps"]
            rollout = collect_steps(self.runners, self.act, steps, self._record)
        self.steps += int(rollout.alive.sum())
        self.rollouts += 1
        return prepare_batch(rollout, self.model, self.config, self.trace)

    def _record(self, runner: EpisodeRunner) -> None:
        self.history.add(self.steps, runner.total, len(runner.actions))

    def batches(self, split: str, start: int = 0) -> Iterator[PolicyBatch]:
        """Act and yield batches without end; `start` is part of the state."""
        while True:
            if self.batch is None:
                self.batch, self.parts = self.collect(), 0
            batch = self.batch
            if not isinstance(self.config, PPOConfig):
                self.batch = None
                yield batch
                continue
            rows = min(self.settings.batch_tokens, batch.tokens)
            count = -(-batch.tokens // rows)
            epoch, part = divmod(self.parts, count)
            step = self.rollouts * self.config.epochs + epoch
            order = generator(self.settings.seed, "parts of a rollout", step)
            chosen = np.array_split(order.permutation(batch.tokens), count)[part]
            self.parts += 1
            if self.parts == count * self.config.epochs:
                self.batch = None
            yield batch.rows(torch.from_numpy(chosen))

    def loss(self, batch: PolicyBatch) -> Loss:
        """Return the summed loss of a batch."""
        config = self.config
        found = self.model(batch.observations)
        log_probs, entropy = log_probabilities(found, batch.actions)
        if isinstance(config, PPOConfig):
            clip = config.clip if config.clipping else None
            each = clipped_surrogate_loss(log_probs, batch.log_probs, batch.advantages, clip)
        else:
            each = policy_gradient_loss(log_probs, batch.advantages)
        if found.values is not None:
            each = each + 0.5 * config.value_coefficient * (found.values - batch.returns).square()
        if config.entropy_coefficient:
            each = each - config.entropy_coefficient * entropy
        return Loss(each.sum())

    def state_dict(self) -> dict[str, Tensor]:
        """Return the running episodes, the counters, and the rollout in use."""
        counters = [self.steps, self.calls, self.rollouts, self.parts]
        state = {**self.history.state_dict(), "counters": torch.tensor(counters)}
        for index, runner in enumerate(self.runners):
            state |= runner_state(runner, f"episode/{index}")
        if self.batch is not None:
            state |= {f"batch/{name}": part for name, part in self.batch._asdict().items()}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned; nothing of an empty one."""
        if not state:
            return
        self.steps, self.calls, self.rollouts, self.parts = state["counters"].tolist()
        self.history.load_state_dict(state)
        for index, runner in enumerate(self.runners):
            restore_runner(runner, state, f"episode/{index}")
        if "batch/advantages" in state:
            self.batch = PolicyBatch(*(state[f"batch/{name}"] for name in PolicyBatch._fields))

    def figures(self) -> dict[str, Figure]:
        """Return the episodes of the training."""
        return self.history.figures([])
