"""Errors of a fitted curve."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from saccade.data.points import CURVE_END, Points
from saccade.estimators.baselines import mean_prediction
from saccade.metrics.regression import rmse
from saccade.tasks.base import Evaluator
from saccade.tasks.kernel_regression.config import RegressionRecipe
from saccade.tasks.kernel_regression.data import PointSplit
from saccade.tasks.kernel_regression.predict import CurvePredictor
from saccade.tasks.kernel_regression.smoother import AnyKernelModel
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import Evaluation


class CurveEvaluator(Evaluator[PointSplit]):
    """Squared errors on held-out points; on training points, leave-one-out."""

    headline = ("rmse",)

    def __init__(self, recipe: RegressionRecipe, model: AnyKernelModel, points: Points):
        self.points = points
        self.predictor = CurvePredictor(recipe, model, points)
        self.smoother = self.predictor.smoother

    def evaluate(
        self,
        split: PointSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the errors of the curve, and of the mean of y."""
        self.predictor.parse_options(options or {})
        if split.leave_one_out:
            loss, count = self.smoother.leave_one_out(limit)
            on = "each training point, predicted from all others"
        else:
            points = split.points
            count = len(points.x)
            loss = float(((points.y - self.smoother.predict_at(points.x)) ** 2).mean())
            on = "held-out points"
        on_progress("evaluating", count, count)
        metrics = {"loss": loss, "rmse": loss**0.5, "average_rmse": self._mean_rmse(split)}
        conventions = {
            "loss": f"mean squared error in units of y², {on}",
            "rmse": "its square root, in units of y",
            "average_rmse": "the same with the mean of the training points as prediction",
            "width": "bandwidth of the kernel, in units of x",
        }
        if split.truth is not None:
            queries = np.linspace(0.0, CURVE_END, 50, endpoint=False)
            errors = self.smoother.predict_at(queries) - split.truth(queries)
            metrics["true_rmse"] = float((errors**2).mean() ** 0.5)
            conventions["true_rmse"] = "against the curve without noise, at 50 evenly spaced x"
        metrics |= {"width": self.smoother.bandwidth, "examples": float(count)}
        return Evaluation(metrics, conventions)

    def _mean_rmse(self, split: PointSplit) -> float:
        """Return the error of predicting the mean of the training points, or of all others."""
        y = self.points.y
        if split.leave_one_out:
            return rmse(y, (y.sum() - y) / (len(y) - 1))
        return mean_prediction(y, split.points.y).metrics["rmse"]

    def floors(self, train: PointSplit, split: PointSplit) -> dict[str, dict[str, float]]:
        """Return the errors of predicting the mean."""
        error = self._mean_rmse(split)
        return {"mean": {"loss": error**2, "rmse": error}}

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return the explained share of the variance, whatever the units of y."""
        variance = float(self.points.y.var())
        return 1 - metrics["loss"] / variance if variance else -metrics["loss"]
