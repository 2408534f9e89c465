"""Predictions for rows: lines of a table, or mappings from column to value."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saccade.config import Config
from saccade.data.tables.csv import Table
from saccade.data.tables.schema import NumericColumn, TableSchema
from saccade.errors import ConfigError, DataError, bullet_list
from saccade.tasks.base import NoOptions, PredictContext, Predictor
from saccade.tasks.numbers import numeric_prediction
from saccade.tasks.tabular.config import TableRecipe
from saccade.tasks.tabular.scoring import NetworkScorer, TableScorer
from saccade.tasks.tabular.svm import SVMModel, SVMScorer
from saccade.tasks.text_classification.predict import RankedOptions
from saccade.types.arrays import FloatArray
from saccade.types.results import Prediction

Row = str | Mapping[str, Any]


def make_scorer(recipe: TableRecipe, model: Any, schema: TableSchema) -> TableScorer:
    """Return the scorer of a model."""
    if isinstance(model, SVMModel):
        return SVMScorer(recipe, model, schema)
    return NetworkScorer(recipe, model, schema)


class RowPredictor(Predictor[Row]):
    """Predicts the target of each row; an empty line gives nothing, a header the target's name."""

    input_types = (str, Mapping)

    def __init__(self, recipe: TableRecipe, model: Any, schema: TableSchema):
        self.schema = schema
        self.scorer = make_scorer(recipe, model, schema)
        self.classes = self.scorer.classes
        self.options = RankedOptions if self.classes else NoOptions

    def parse(self, raw: object, number: int) -> Row:
        """Return the row."""
        if not isinstance(raw, str | Mapping):
            raise ConfigError(
                f"input {number}: got a {type(raw).__name__}; expected a line of the table, or a "
                "mapping from column to value."
            )
        return raw

    def predict(
        self, inputs: Sequence[Row], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the prediction for each row."""
        n_best = options.n_best if isinstance(options, RankedOptions) else 1
        fixed = {n: self._not_a_row(row) for n, row in enumerate(inputs, context.first)}
        rows = {
            n: row for (n, text), row in zip(fixed.items(), inputs, strict=True) if text is None
        }
        found = iter(self._predict_rows(rows, n_best))
        context.on_progress("predicting", len(inputs), len(inputs))
        return [next(found) if text is None else Prediction(text) for text in fixed.values()]

    def _not_a_row(self, row: Row) -> str | None:
        """Return the answer to a line that is not a row: empty, or the header."""
        if not isinstance(row, str):
            return None
        if not row.strip():
            return ""
        return self.schema.target.name if self.schema.is_header(row) else None

    def _predict_rows(self, rows: Mapping[int, Row], n_best: int) -> list[Prediction]:
        if not rows:
            return []
        columns = self._columns(rows)
        found = self._predict_features(self.schema.features(columns), n_best)
        for row, notes in self.schema.unseen_categories(columns).items():
            found[row] = found[row]._replace(notes=tuple(notes))
        return found

    def _predict_features(self, features: FloatArray, n_best: int) -> list[Prediction]:
        outputs = self.scorer.outputs(features)
        target = self.schema.target
        if isinstance(target, NumericColumn):
            values = target.inverse_transform(outputs[:, 0]).tolist()
            return [numeric_prediction([value], target.deviation) for value in values]
        if isinstance(self.scorer, SVMScorer):
            return [self._by_votes(row, n_best) for row in outputs]
        return [self._by_probability(row, n_best) for row in class_probabilities(outputs)]

    def features(self, rows: Mapping[int, Row]) -> FloatArray:
        """Return the features of rows, which are numbered for messages."""
        return self.schema.features(self._columns(rows))

    def _columns(self, rows: Mapping[int, Row]) -> dict[str, list[str]]:
        """Return the cells of the inputs by column, or raise one error with all that is wrong."""
        cells = [self.schema.cells(row, number) for number, row in rows.items()]
        columns = {c.name: [row[c.name] for row in cells] for c in self.schema.columns}
        table = Table("inputs", columns, np.array([*rows], np.int64), unit="input")
        if complaints := self.schema.complaints(table):
            raise DataError(bullet_list(complaints, "these rows cannot be predicted:"))
        return columns

    def _by_probability(self, probabilities: FloatArray, n_best: int) -> Prediction:
        by_class = dict(zip(self.classes, probabilities.tolist(), strict=True))
        order = np.argsort(-probabilities, kind="stable")[:n_best]
        ranked = [
            Prediction(self.classes[i], float(probabilities[i]), probabilities=by_class)
            for i in order
        ]
        return ranked[0]._replace(alternatives=tuple(ranked[1:]))

    def _by_votes(self, votes: FloatArray, n_best: int) -> Prediction:
        """Rank classes by votes; the score is the number of pairs that the class won."""
        by_class = {name: int(count) for name, count in zip(self.classes, votes, strict=True)}
        order = np.argsort(-votes, kind="stable")[:n_best]
        ranked = [Prediction(self.classes[i], float(votes[i]), votes=by_class) for i in order]
        return ranked[0]._replace(alternatives=tuple(ranked[1:]))


def class_probabilities(logits: FloatArray) -> FloatArray:
    """Return the probabilities of logits, row by row."""
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)
