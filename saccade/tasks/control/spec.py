"""The task control. Does not import torch."""

from saccade.data.environments.spaces import Spaces
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.control.config import AGENTS, ControlRecipe

CONTROL: AnyTaskSpec = TaskSpec(
    name="control",
    summary="reinforcement learning: act in an environment",
    recipe=ControlRecipe,
    models=AGENTS,
    synthetic={},
    datasets={},
    prepare=import_when_called("saccade.tasks.control.data:prepare_environment"),
    load_split=import_when_called("saccade.tasks.control.data:load_environment_split"),
    read_preprocessor=Spaces.from_json,
    transferable_data_settings=(),
    is_trained_by_steps=True,
    components=import_when_called("saccade.tasks.control.components:control_components"),
    torch_free=lambda recipe: not recipe.is_network,
)
