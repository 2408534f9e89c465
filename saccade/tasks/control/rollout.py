"""Rollouts: steps of several environments under the current policy, with advantages."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.environments.episodes import EpisodeRunner
from saccade.data.environments.spaces import Vector
from saccade.models.control import PolicyNetwork, PolicyOutput
from saccade.models.control_config import PolicyModelConfig, ReinforceConfig
from saccade.nn.policy_gradient import categorical_log_probs, gaussian_log_probs
from saccade.nn.temporal_difference import discounted_returns, generalised_advantages
from saccade.types.arrays import FloatArray

Act = Callable[[Vector], Any]  # observations of the active environments → actions
OnEpisode = Callable[[EpisodeRunner], None]  # an episode has ended


class Rollout(NamedTuple):
    """Steps of N environments; `alive` is 0 after an environment has stopped."""

    observations: Vector  # (T, N, D)
    actions: NDArray[Any]  # (T, N, 1), or vectors (T, N, A)
    rewards: FloatArray  # (T, N)
    ends: FloatArray  # 1 where an episode ended with the step (T, N)
    cut_off: FloatArray  # 1 where the time limit ended it (T, N)
    following: Vector  # observation after each step (T, N, D)
    alive: FloatArray  # (T, N)


class PolicyBatch(NamedTuple):
    """Steps with their advantages, the returns for the value network, and old probabilities."""

    observations: Float[Tensor, "B D"]
    actions: Float[Tensor, "B A"]
    advantages: Float[Tensor, " B"]
    returns: Float[Tensor, " B"]
    log_probs: Float[Tensor, " B"]

    @property
    def tokens(self) -> int:
        """Number of steps."""
        return len(self.advantages)

    def rows(self, indices: Tensor) -> "PolicyBatch":
        """Return some of the steps."""
        return PolicyBatch(*(part[indices] for part in self))


def collect_steps(
    runners: Sequence[EpisodeRunner], act: Act, steps: int, on_episode: OnEpisode
) -> Rollout:
    """Make so many steps in each environment; the next episode follows where one ends."""
    parts: list[list[Any]] = []
    for _ in range(steps):
        observations = np.stack([runner.observation for runner in runners])
        actions = act(observations)
        made = []
        for runner, action in zip(runners, listed(actions), strict=True):
            step = runner.step(action)
            made.append(step)
            if step.terminated or step.truncated:
                on_episode(runner)
                runner.next_episode()
        parts.append([observations, actions, made, np.ones(len(runners))])
    return _stack(parts)


def collect_episodes(runners: Sequence[EpisodeRunner], act: Act, on_episode: OnEpisode) -> Rollout:
    """Run the episode of each environment to its end, then start the next."""
    parts: list[list[Any]] = []
    count = len(runners)
    last = [None] * count
    active = list(range(count))
    while active:
        observations = np.stack([runner.observation for runner in runners])
        alive = np.zeros(count)
        alive[active] = 1.0
        actions = act(observations)
        made: list[Any] = list(last)
        for index in active:
            made[index] = runners[index].step(listed(actions)[index])
        parts.append([observations, actions, made, alive])
        last = made
        active = [i for i in active if not (made[i].terminated or made[i].truncated)]
    for runner in runners:
        on_episode(runner)
        runner.next_episode()
    return _stack(parts)


def listed(actions: Any) -> list[Any]:
    """Return the actions one by one: integers, or vectors."""
    return list(actions.tolist()) if actions.ndim == 1 else list(actions)


def _stack(parts: list[list[Any]]) -> Rollout:
    observations, actions, made, alive = zip(*parts, strict=True)
    taken = np.stack(actions)
    steps = [[(s.reward, s.terminated or s.truncated, s.truncated) for s in row] for row in made]
    rewards, ends, cut_off = np.array(steps, np.float64).transpose(2, 0, 1)
    return Rollout(
        np.stack(observations),
        taken[..., None] if taken.ndim == 2 else taken,
        rewards,
        ends,
        cut_off,
        np.stack([[step.observation for step in row] for row in made]),
        np.stack(alive),
    )


def log_probabilities(found: PolicyOutput, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return log π(a | s) of actions and the entropy of their distributions."""
    if found.log_deviation is None:
        return categorical_log_probs(found.policy, actions)
    return gaussian_log_probs(found.policy, found.log_deviation, actions)


@torch.no_grad()
def prepare_batch(
    rollout: Rollout, model: PolicyNetwork, config: PolicyModelConfig, trace: float
) -> PolicyBatch:
    """Compute values, returns and advantages of a rollout, and keep the steps that were made."""
    weight = next(model.parameters())

    def tensor(array: NDArray[Any]) -> Tensor:
        flat = array.reshape(-1, *array.shape[2:])
        return torch.from_numpy(np.ascontiguousarray(flat)).to(weight)

    shape = rollout.rewards.shape
    observations, actions = tensor(rollout.observations), tensor(rollout.actions)
    found = model(observations)
    log_probs, _ = log_probabilities(found, actions)
    values = np.zeros(shape)
    rewards, last = rollout.rewards * rollout.alive, np.zeros(shape[1])
    if found.values is not None:
        values = found.values.double().cpu().numpy().reshape(shape)
        if not isinstance(config, ReinforceConfig):
            after = model(tensor(rollout.following)).values
            assert after is not None
            following = after.double().cpu().numpy().reshape(shape)
            rewards = rewards + config.discount * rollout.cut_off * following
            last = following[-1]
    returns, advantages = _advantages(config, rewards, rollout.ends, values, last, trace)
    kept = torch.from_numpy(rollout.alive.reshape(-1) > 0)
    advantage = tensor(advantages[..., None]).squeeze(-1)[kept]
    if config.normalize_advantages and len(advantage) > 1:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return PolicyBatch(
        observations[kept],
        actions[kept],
        advantage,
        tensor(returns[..., None]).squeeze(-1)[kept],
        log_probs[kept],
    )


def _advantages(
    config: PolicyModelConfig,
    rewards: FloatArray,
    ends: FloatArray,
    values: FloatArray,
    last: FloatArray,
    trace: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the targets of the value network and the advantages, (T, N) each."""
    if isinstance(config, ReinforceConfig):
        returns = discounted_returns(rewards, ends, last, config.discount)
        weights = returns if config.reward_to_go else np.broadcast_to(returns[0], returns.shape)
        return returns, weights - values
    advantages = generalised_advantages(rewards, ends, values, last, config.discount, trace)
    return advantages + values, advantages
