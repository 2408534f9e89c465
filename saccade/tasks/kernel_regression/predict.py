"""Predictions of a fitted curve."""

from collections.abc import Sequence

import numpy as np

from saccade.config import Config
from saccade.data.points import Points
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.kernel_regression.config import RegressionRecipe
from saccade.tasks.kernel_regression.smoother import AnyKernelModel, smoother_of
from saccade.tasks.numbers import numeric_prediction, parse_number_list
from saccade.types.arrays import FloatArray
from saccade.types.progress import ProgressCounter
from saccade.types.results import Prediction


class CurvePredictor(TextPredictor):
    """Predicts y at each x; an input may hold several x, separated by spaces."""

    def __init__(self, recipe: RegressionRecipe, model: AnyKernelModel, points: Points):
        self.points, self.smoother = points, smoother_of(model, points)

    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the estimates at the x of each input."""
        counter = ProgressCounter(context.on_progress, "predicting", len(inputs))
        spread = float(self.points.y.std())
        predictions = []
        for number, text in enumerate(inputs, context.first):
            values = self.smoother.predict_at(parse_queries(text, number)).tolist()
            predictions.append(numeric_prediction(values, spread))
            counter.advance(1)
        return predictions


def parse_queries(text: str, number: int) -> FloatArray:
    """Parse the x of an input."""
    return np.array(parse_number_list(text, number, "a number such as 2.5"), np.float64)
