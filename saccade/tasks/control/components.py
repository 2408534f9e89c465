"""Capabilities of the task control, by recipe. Does not import torch."""

from typing import Any

from saccade.data.environments.spaces import Spaces
from saccade.estimators.reinforcement.config import EPISODIC_CONFIGS, PLANNING_CONFIGS
from saccade.registry import LazyRegistry
from saccade.tasks.base import Components
from saccade.tasks.control.config import ControlRecipe
from saccade.tasks.control.data import EnvironmentSplit

ControlComponents = Components[ControlRecipe, Spaces, Any, EnvironmentSplit]

_KINDS: LazyRegistry[ControlComponents] = LazyRegistry(
    {
        "learned": "saccade.tasks.control.table:LEARNED",
        "planned": "saccade.tasks.control.table:PLANNED",
        "policy": "saccade.tasks.control.networks:BY_POLICY",
        "values": "saccade.tasks.control.networks:BY_VALUES",
    }
)


def control_components(recipe: ControlRecipe) -> ControlComponents:
    """Return the capabilities of a recipe: a table, or a network of values or of a policy."""
    name = recipe.model_name
    if name in EPISODIC_CONFIGS:
        return _KINDS["learned"]
    if name in PLANNING_CONFIGS:
        return _KINDS["planned"]
    return _KINDS["values" if name == "dqn" else "policy"]
