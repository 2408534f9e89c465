"""Episodes, saliency of an observation, and invariance checks of a network."""

from typing import Any

from saccade.inspection.attribution import Attribution
from saccade.tasks.control.inspect import ControlInspector
from saccade.tasks.control.network_agent import NetworkAgent
from saccade.tasks.control.saliency import attribute_action


class ControlNetworkInspector(ControlInspector):
    """Shows what a network values."""

    attribution_methods = ("integrated_gradients", "occlusion", "gradient")

    def __init__(self, agent: NetworkAgent):
        super().__init__(agent)
        self.network = agent

    def views(self) -> dict[str, str]:
        """Return an episode, and the saliency of an observation."""
        return {
            **super().views(),
            "OBSERVATION": "the contribution of each number of an observation",
        }

    def attributions(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> Attribution:
        """Return the contribution of each number of an observation to the best action.

        It is relative to an observation of zeros.
        """
        return attribute_action(self.network, raw, method or self.attribution_methods[0], output)
