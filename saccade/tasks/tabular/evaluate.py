"""Metrics of predicted columns: accuracy and F1 of classes, errors of numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.tables.csv import pluralise
from saccade.data.tables.schema import NumericColumn, TableSchema
from saccade.estimators.baselines import majority_class, mean_prediction
from saccade.metrics.classification import accuracy, confusion_matrix, macro_f1
from saccade.metrics.regression import mae, r_squared, rmse
from saccade.tasks.base import Evaluator
from saccade.tasks.tabular.config import TableRecipe
from saccade.tasks.tabular.data import TableSplit
from saccade.tasks.tabular.predict import RowPredictor
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import Evaluation


class TableEvaluator(Evaluator[TableSplit]):
    """The training loss, and accuracy and macro-F1, or RMSE, MAE and R²."""

    def __init__(self, recipe: TableRecipe, model: Any, schema: TableSchema):
        self.recipe, self.schema = recipe, schema
        self.predictor = RowPredictor(recipe, model, schema)
        self.scorer = self.predictor.scorer
        self.classes = self.scorer.classes
        self.headline = ("accuracy", "macro_f1") if self.classes else ("rmse", "r2")

    def evaluate(
        self,
        split: TableSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of a split; with no limit, also the confusion matrix."""
        self.predictor.parse_options(options or {})
        indices = split.spread(limit)
        loss = self.scorer.training_loss(split, limit)
        outputs = self.scorer.outputs(split.rows.features[indices])
        truth = split.rows.target[indices]
        scores = (
            self._score_classes(truth, outputs)
            if self.classes
            else self._score_numbers(truth, outputs)
        )
        on_progress("evaluating", len(indices), len(indices))
        metrics = {**loss.metrics, **scores.metrics, "examples": float(len(indices))}
        conventions = {**loss.conventions, **scores.conventions}
        if split.was_trained_on:
            conventions = {
                name: f"{text}; on rows that may have been trained on"
                for name, text in conventions.items()
            }
        tables = {}
        if self.classes and limit is None:
            counts = confusion(self.scorer.outputs(split.rows.features), split, len(self.classes))
            tables["confusion"] = {"classes": list(self.classes), "counts": counts.tolist()}
        return Evaluation(metrics, conventions, tables, notes=split.notes)

    def _score_classes(self, truth: IntArray, outputs: FloatArray) -> Evaluation:
        predicted, count = outputs.argmax(1), len(self.classes)
        metrics = {
            "accuracy": accuracy(truth, predicted),
            "macro_f1": macro_f1(truth, predicted, count),
        }
        unknown = int((truth < 0).sum())
        note = f"; {pluralise(unknown, 'row')} of unseen classes count as wrong" if unknown else ""
        conventions = {
            "accuracy": f"share of rows whose class was predicted{note}",
            "macro_f1": "mean F1 over the classes that occur or were predicted",
            "confusion": "rows: true classes; columns: predicted classes",
        }
        return Evaluation(metrics, conventions)

    def _score_numbers(self, truth: FloatArray, outputs: FloatArray) -> Evaluation:
        column = self.schema.target
        assert isinstance(column, NumericColumn)
        expected = column.inverse_transform(truth)
        predicted = column.inverse_transform(outputs[:, 0])
        metrics = {"rmse": rmse(expected, predicted), "mae": mae(expected, predicted)}
        conventions = {
            "rmse": f"in units of {column.name!r}",
            "mae": f"in units of {column.name!r}",
        }
        share = r_squared(expected, predicted)
        if share == share:  # a single row has no variance to explain
            metrics["r2"] = share
            conventions["r2"] = "1 - squared errors over those of predicting the mean of these rows"
        return Evaluation(metrics, conventions)

    def floors(self, train: TableSplit, split: TableSplit) -> dict[str, dict[str, float]]:
        """Return the metrics of the majority class, or of the mean of the training rows."""
        target, column = train.rows.target, self.schema.target
        if isinstance(column, NumericColumn):
            both = (column.inverse_transform(rows) for rows in (target, split.rows.target))
            return {"mean": mean_prediction(*both).metrics}
        found = majority_class(target[target >= 0], split.rows.target, unknown=-1)
        return {"majority class": found.metrics}


def confusion(outputs: FloatArray, split: TableSplit, count: int) -> NDArray[np.int64]:
    """Return how often each class (rows) was predicted as each (columns)."""
    return confusion_matrix(split.rows.target, outputs.argmax(1), count)
