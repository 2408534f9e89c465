"""Parts that the objectives of the task share: data that depends on the policy, and its state."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from saccade.data.environments.episodes import EpisodeRunner
from saccade.tasks.neural import StatelessObjective
from saccade.training.objective import BatchT


class PolicyDependentObjective(StatelessObjective[BatchT]):
    """Base of objectives whose batches depend on the policy that is trained."""

    addressable = False
    unit = "transitions"

    def batches_in_epoch(self) -> int:
        """Return 1: there is no data set to go through."""
        return 1

    def describe_batch(self, batch: BatchT) -> str:
        """Return the name of the environment."""
        return self.recipe.data_name


def runner_state(runner: EpisodeRunner, name: str) -> dict[str, Tensor]:
    """Return the running episode: its number, and the actions so far."""
    actions = np.array(runner.actions)
    return {
        f"{name}/number": torch.tensor([runner.episode], dtype=torch.int64),
        f"{name}/actions": torch.from_numpy(actions) if len(actions) else torch.zeros(0),
    }


def restore_runner(runner: EpisodeRunner, state: Mapping[str, Tensor], name: str) -> None:
    """Play the running episode again up to where it was."""
    actions = state[f"{name}/actions"]
    played = actions.tolist() if actions.ndim == 1 else list(actions.numpy())
    runner.restore(int(state[f"{name}/number"][0]), played)
