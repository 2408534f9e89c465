"""Networks as agents of the task."""

from collections.abc import Callable

from saccade.config import Config
from saccade.data.environments.spaces import Spaces
from saccade.models.registry import CONTROL_MODELS
from saccade.tasks.base import Components
from saccade.tasks.control.config import ControlRecipe
from saccade.tasks.control.data import EnvironmentSplit
from saccade.tasks.control.evaluate import ControlEvaluator
from saccade.tasks.control.network_agent import ControlNetwork, NetworkAgent
from saccade.tasks.control.network_inspect import ControlNetworkInspector
from saccade.tasks.control.policy_gradient import PolicyObjective
from saccade.tasks.control.predict import ActionPredictor
from saccade.tasks.control.q_learning import DQNObjective
from saccade.tasks.neural import build_network

NetworkComponents = Components[ControlRecipe, Spaces, ControlNetwork, EnvironmentSplit]


def build_control_network(recipe: ControlRecipe, spaces: Spaces) -> ControlNetwork:
    """Build the network of a recipe."""
    model_class: Callable[[Config], ControlNetwork] = CONTROL_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


BY_VALUES = NetworkComponents(
    build_model=build_control_network,
    predictor=lambda *given: ActionPredictor(NetworkAgent(*given)),
    evaluator=lambda *given: ControlEvaluator(NetworkAgent(*given)),
    inspector=lambda *given: ControlNetworkInspector(NetworkAgent(*given)),
    objective=DQNObjective,
)
BY_POLICY = NetworkComponents(
    build_model=build_control_network,
    predictor=lambda *given: ActionPredictor(NetworkAgent(*given)),
    evaluator=lambda *given: ControlEvaluator(NetworkAgent(*given)),
    inspector=lambda *given: ControlNetworkInspector(NetworkAgent(*given)),
    objective=PolicyObjective,
)
