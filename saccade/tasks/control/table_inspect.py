"""Maps of the values and the policy of a grid world, curves of learning and of planning."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import ConfigError
from saccade.estimators.reinforcement.config import EpisodicConfig
from saccade.inspection.figures import Figure, HeatMap, HeatMapGrid
from saccade.inspection.reinforcement import learning_panels, planning_panels, policy_map
from saccade.tasks.base import HeatMapKey
from saccade.tasks.control.data import EnvironmentSplit, read_grid
from saccade.tasks.control.inspect import ControlInspector

if TYPE_CHECKING:
    from saccade.tasks.control.table import TableAgent

VALUES_KIND = "values"


class ActionTableInspector(ControlInspector):
    """Shows a table of values."""

    has_attention = False

    def __init__(self, agent: "TableAgent"):
        super().__init__(agent)
        self.table = agent.model
        self.grid = read_grid(agent.recipe.data)
        if self.grid is not None:
            self.heat_map_kinds = (VALUES_KIND,)
            self.default_input = json.dumps(list(self.spaces.starts))

    def views(self) -> dict[str, str]:
        """Return what can be shown of the model."""
        views = super().views()
        if self.grid is not None:
            views["--kind values"] = "the values of all cells, and the best actions"
        return views

    def heat_maps(self, text: str, answer: str | None = None) -> dict[HeatMapKey, HeatMap]:
        """Return the map of a grid world; it is the same for every observation."""
        grid = self.grid
        if grid is None:
            raise ConfigError(
                f"{self.spaces.world}: got states that are not the cells of a grid; expected a "
                "grid world, such as CliffWalking-v1 or FrozenLake-v1; try saccade predict "
                "--json for the values of a state."
            )
        values = self.table.action_values
        title = f"{self.spaces.world}: value and best action by {self.agent.recipe.model_name}"
        return {(VALUES_KIND, 1): policy_map(values, grid.arrows, grid.shape, title, grid.visible)}

    def figures(self, splits: Mapping[str, EnvironmentSplit]) -> dict[str, Figure]:
        """Return the map, where there is a grid, and the curves of learning or planning."""
        found: dict[str, Figure] = {}
        name = self.agent.recipe.model_name
        if self.grid is not None:
            found["values.png"] = HeatMapGrid(list(self.heat_maps("").values()))
        if isinstance(self.agent.recipe.model, EpisodicConfig):
            found["episodes.png"] = learning_panels({name: self.table.returns}, self.spaces.world)
        else:
            residuals = {name.replace("_", " "): self.table.residuals.tolist()}
            sweeps: list[Any] = np.asarray(self.table.evaluations).tolist()
            found["sweeps.png"] = planning_panels(residuals, sweeps, self.spaces.world)
        return found
