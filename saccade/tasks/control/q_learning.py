"""Training objective of DQN: acting, replay memory, target network, temporal-difference loss."""

from collections.abc import Iterator, Mapping
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from saccade.data.environments.make import episode_seeds
from saccade.data.environments.spaces import Spaces, Vector
from saccade.inspection.figures import Figure, LinePanel, PlotLine
from saccade.models.control import QNetwork
from saccade.models.control_config import DQNConfig
from saccade.nn.losses import huber_loss, mse_loss
from saccade.nn.temporal_difference import q_targets
from saccade.seeding import RandomRows
from saccade.tasks.control.config import ControlRecipe
from saccade.tasks.control.data import EnvironmentSplit
from saccade.tasks.control.history import History
from saccade.tasks.control.replay import ReplayMemory, Transitions
from saccade.tasks.control.running import PolicyDependentObjective, restore_runner, runner_state
from saccade.training.objective import Loss


class DQNObjective(PolicyDependentObjective[Transitions]):
    r"""Σ Huber(r + γ (1 - d) max_a Q⁻(s', a) - Q(s, a)) over a batch of the replay memory.

    Mnih et al. 2015. A round is `collect_steps` ε-greedy steps of the environment and `updates`
    batches. Its state is the replay memory, the target network, the counters, and of the running
    episode its number and actions.
    """

    model: QNetwork

    def __init__(
        self,
        recipe: ControlRecipe,
        model: QNetwork,
        spaces: Spaces,
        splits: Mapping[str, EnvironmentSplit],
    ):
        super().__init__(recipe, model)
        assert isinstance(recipe.model, DQNConfig)
        self.config, self.spaces = recipe.model, spaces
        seed, rows = self.settings.seed, self.settings.batch_tokens
        capacity = self.config.replay_size if self.config.replay else rows
        self.memory = ReplayMemory(capacity, spaces.width)
        self.target = deepcopy(model).requires_grad_(False) if self.config.target else model
        self.exploration = RandomRows(seed, "exploration", 2)
        self.sampling = RandomRows(seed, "replay", rows)
        self.runner = splits["train"].runner_for(episode_seeds(seed, "train"))
        self.history = History()
        self.steps = self.updates = 0

    def epsilon(self) -> float:
        """Return the probability of a random action now."""
        config = self.config
        if not config.exploration:
            return 0.0
        share = min(1.0, self.steps / config.exploration_steps)
        return config.epsilon_start + share * (config.epsilon_end - config.epsilon_start)

    @torch.no_grad()
    def choose(self, observation: Vector) -> int:
        """Return an ε-greedy action."""
        explores, which = self.exploration[self.steps].tolist()
        if explores < self.epsilon():
            return int(which * self.spaces.actions)
        return int(self.model(torch.from_numpy(observation)[None]).argmax())

    def collect(self, count: int) -> None:
        """Make steps of the environment, and store them."""
        runner, memory = self.runner, self.memory
        for _ in range(count):
            observation = runner.observation
            action = self.choose(observation)
            step = runner.step(action)
            memory.add(observation, action, step.reward, step.observation, step.terminated)
            self.steps += 1
            if step.terminated or step.truncated:
                self.history.add(self.steps, runner.total, len(runner.actions))
                runner.next_episode()

    def batches(self, split: str, start: int = 0) -> Iterator[Transitions]:
        """Act and yield batches without end; `start` is part of the state."""
        config, rows = self.config, self.settings.batch_tokens
        while True:
            if self.updates % config.updates == 0:
                self.collect(max(config.collect_steps, config.learning_starts - self.steps, 1))
            if config.target and self.updates % config.target_interval == 0:
                self.target.load_state_dict(self.model.state_dict())
            self.updates += 1
            if config.replay:
                indices = (self.sampling[self.updates] * self.memory.size).astype(np.int64)
                yield self.memory.take(torch.from_numpy(indices))
            else:
                yield self.memory.newest(rows)

    def targets(self, batch: Transitions) -> Tensor:
        """Return the targets of a batch."""
        with torch.no_grad():
            following = self.target(batch.next_observations)
            chooser = self.model(batch.next_observations) if self.config.double else None
            return q_targets(
                batch.rewards, batch.terminated, following, self.config.discount, chooser
            )

    def loss(self, batch: Transitions) -> Loss:
        """Return the summed loss of the temporal-difference errors."""
        values = self.model(batch.observations).gather(1, batch.actions).squeeze(1)
        targets = self.targets(batch)
        if self.config.huber:
            return Loss(huber_loss(values, targets, reduction="sum"))
        return Loss(0.5 * mse_loss(values, targets, reduction="sum"))

    def state_dict(self) -> dict[str, Tensor]:
        """Return replay memory, target network, counters and the running episode."""
        state = {f"memory/{name}": value for name, value in self.memory.state_dict().items()}
        if self.config.target:
            state |= {f"target/{name}": w for name, w in self.target.state_dict().items()}
        counters = torch.tensor([self.steps, self.updates], dtype=torch.int64)
        return {
            **state,
            **self.history.state_dict(),
            **runner_state(self.runner, "episode"),
            "counters": counters,
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned; nothing of an empty one."""
        if not state:
            return
        self.steps, self.updates = state["counters"].tolist()
        self.memory.load_state_dict(
            {name.removeprefix("memory/"): value for name, value in state.items()}
        )
        if self.config.target:
            weights = {n.removeprefix("target/"): w for n, w in state.items() if n[:7] == "target/"}
            self.target.load_state_dict(weights)
        self.history.load_state_dict(state)
        restore_runner(self.runner, state, "episode")

    def figures(self) -> dict[str, Figure]:
        """Return the episodes of the training, and the rewards in the replay memory."""
        rows = self.memory.rows[: self.memory.size].numpy()
        if not len(rows):
            return {}
        order = (np.arange(len(rows)) + self.memory.position) % len(rows)
        rewards = np.cumsum(rows[order, 2 * self.memory.width]) / np.arange(1, len(rows) + 1)
        age = np.arange(len(rows), dtype=np.float64) - len(rows)
        panel = LinePanel(
            "Replay memory: mean reward, oldest first",
            [PlotLine("mean so far", age, rewards)],
            "age in steps",
            "reward",
        )
        return self.history.figures([panel])
