"""Actions for observations, with the value or probability of each action."""

import json
from collections.abc import Sequence

import numpy as np

from saccade.config import Config
from saccade.data.environments.spaces import Spaces, Vector
from saccade.errors import DataError
from saccade.tasks.base import PredictContext, Predictor
from saccade.tasks.control.agent import Valuation, ValueAgent
from saccade.types.progress import ProgressCounter
from saccade.types.results import Prediction

PREDICTION_CHUNK = 4096  # observations of one forward pass


class ActionPredictor(Predictor[Vector]):
    """Predicts the action of an observation: a JSON list of numbers, or numbers with spaces."""

    input_types = (str, np.ndarray, dict, int)

    def __init__(self, agent: ValueAgent):
        self.agent, self.spaces = agent, agent.spaces

    def parse(self, raw: object, number: int) -> Vector:
        """Return the encoded observation."""
        return parse_observation(self.spaces, raw, f"input {number}")

    def predict(
        self, inputs: Sequence[Vector], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the greedy action of each observation."""
        counter = ProgressCounter(context.on_progress, "predicting", len(inputs))
        predictions: list[Prediction] = []
        size = min(PREDICTION_CHUNK, context.max_group or PREDICTION_CHUNK)
        for start in range(0, len(inputs), size):
            some = np.stack(inputs[start : start + size])
            found = self.agent.value(some)
            predictions += [self._prediction(found, row) for row in range(len(some))]
            counter.advance(len(some))
        return predictions

    def _prediction(self, found: Valuation, row: int) -> Prediction:
        state = None if found.states is None else float(found.states[row])
        actions = found.actions[row]
        if self.agent.is_continuous:
            taken = self.spaces.clip_action(actions)
            return Prediction(
                json.dumps([round(float(x), 6) for x in taken]),
                score=state,
                values=tuple(float(x) for x in taken),
            )
        best = int(actions.argmax())
        values = {str(self.spaces.first_action + a): float(v) for a, v in enumerate(actions)}
        text = str(self.spaces.first_action + best)
        if self.agent.is_policy:
            return Prediction(text, score=state, probabilities=values)
        return Prediction(text, value=float(actions[best]), values=tuple(values.values()))


def parse_observation(spaces: Spaces, raw: object, where: str) -> Vector:
    """Encode an observation: a JSON list, numbers with spaces between, or nested lists."""
    if isinstance(raw, str):
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            raw = str(raw).replace(",", " ").split()
    if isinstance(raw, dict):
        if "observation" not in raw:
            raise DataError(
                f"{where}: got an object without 'observation'; expected a list of numbers, or "
                '{"observation": [...]}.'
            )
        raw = raw["observation"]
    return spaces.parse(raw, where)
