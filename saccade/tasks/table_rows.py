"""What is the same for every model of a table: its rows, how they are read, judged and answered."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.tables.csv import IntArray, Table, pluralise, read_table
from saccade.data.tables.schema import (
    CategoricalColumn,
    EncodedRows,
    FloatArray,
    NumericColumn,
    TableSchema,
)
from saccade.errors import DataError, bullet_list
from saccade.metrics.classification import accuracy, confusion_matrix, macro_f1
from saccade.metrics.regression import mae, r_squared, rmse
from saccade.plots.attention import save_attention_maps
from saccade.plots.terminal import AttentionMap
from saccade.tasks.numbers import numeric_prediction as said_number
from saccade.tasks.numbers import reject_search_options
from saccade.tasks.table_recipe import PreparedTable, TableRecipe
from saccade.tasks.task import Evaluation, Task

MAX_CONFUSION_CLASSES = 40  # classes that a confusion table is drawn for


class ClassPrediction(NamedTuple):
    """A class, how likely it and the others are, and the next best."""

    text: str
    score: float
    probabilities: dict[str, float]
    alternatives: tuple["ClassPrediction", ...] = ()


class TabularTask(Task):
    """What the columns mean and, where they are needed, rows of a table."""

    def __init__(self, recipe: TableRecipe, layout: TableSchema, *model: Any):
        super().__init__(recipe, *model)
        self.layout = layout
        self.rows: dict[str, EncodedRows] = {}
        self.example = ""

    @abstractmethod
    def answers(self, features: FloatArray) -> FloatArray:
        """(N, V): how much speaks for each class, or one number, in the model's units."""

    def attach_data(self, prepared: PreparedTable) -> None:
        """Hand over the rows that training and evaluating need."""
        self.rows, self.example = dict(prepared.rows), prepared.example

    def set_sample_weights(self, weights: FloatArray | None, split: str = "train") -> None:
        """Say how much each row of a split counts, in place of what the table says."""
        rows = self.rows[split]
        if weights is not None:
            fine = np.isfinite(weights) & (weights >= 0)
            if len(weights) != len(rows.lines) or not fine.all() or not weights.any():
                raise ValueError(
                    f"got {len(weights)} weights for {len(rows.lines)} rows; wanted one of 0 or "
                    "more for each, and not all 0."
                )
        self.rows[split] = rows._replace(weights=weights)

    def load_split(self, path: str | Path) -> str:
        """A file with another table as a split; columns are found by name."""
        self.rows["given"] = self.layout.rows(read_table(path))
        if not len(self.rows["given"].lines):
            raise DataError(f"{path} has no row with a {self.layout.target.name!r}.")
        return "given"

    def vocabulary_json(self) -> dict[str, Any]:
        """What the columns mean."""
        return self.layout.to_json()

    @property
    def classes(self) -> tuple[str, ...]:
        """That can be said; none if it is a number."""
        return (
            self.layout.target.values if isinstance(self.layout.target, CategoricalColumn) else ()
        )

    # --- scores ----------------------------------------------------------------------------

    @abstractmethod
    def objective(self, split: str, limit: int | None) -> Evaluation:
        """What learning makes small, by name, and how it is counted."""

    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """What was made small, and accuracy and F1 of classes, or the errors of numbers."""
        reject_search_options(self.recipe.task, {"beam": beam})
        rows, some = self.rows[split], self._some(split, limit)
        figures, conventions = self.objective(split, limit)
        judge = self._classes_judged if self.classes else self._numbers_judged
        more, how = judge(rows.target[some], self.answers(rows.features[some]))
        on_progress(len(some))
        return {**figures, **more, "examples": float(len(some))}, {**conventions, **how}

    def _classes_judged(self, truth: IntArray, answers: FloatArray) -> Evaluation:
        said, count = answers.argmax(1), len(self.classes)
        figures = {"accuracy": accuracy(truth, said), "macro_f1": macro_f1(truth, said, count)}
        strange = int((truth < 0).sum())
        unknown = f"; {pluralise(strange, 'row')} of unseen classes are wrong" if strange else ""
        return figures, {
            "accuracy": f"share of rows whose class was said{unknown}",
            "macro_f1": "mean of F1 over the classes that are there or were said",
            "confusion": "a row for each class that is, a column for each that was said",
        }

    def _numbers_judged(self, truth: FloatArray, answers: FloatArray) -> Evaluation:
        column = self.layout.target
        assert isinstance(column, NumericColumn)
        wanted, said = column.inverse_transform(truth), column.inverse_transform(answers[:, 0])
        figures = {"rmse": rmse(wanted, said), "mae": mae(wanted, said)}
        conventions = {
            "loss": f"mean {self.recipe.train.loss} of a row, in deviations of {column.name!r}",
            "rmse": f"in units of {column.name!r}",
            "mae": f"in units of {column.name!r}",
        }
        share = r_squared(wanted, said)
        if share == share:  # of one row there is no variance to explain
            figures["r2"] = share
            conventions["r2"] = "1 - squared errors over those of saying the mean of these rows"
        return figures, conventions

    def tables(self, split: str) -> dict[str, Any]:
        """Of classes: how often each was taken for each."""
        if not self.classes:
            return {}
        counts = self.confusion(split).tolist()
        return {"confusion": {"classes": list(self.classes), "counts": counts}}

    def confusion(self, split: str) -> NDArray[np.int64]:
        """How often each class (rows) was said to be each (columns)."""
        rows = self.rows[split]
        return confusion_matrix(
            rows.target, self.answers(rows.features).argmax(1), len(self.classes)
        )

    def save_plots(self, folder: Path) -> list[str]:
        """Of classes: which are taken for which."""
        if not self.classes:
            return []
        table = self.confusion("test")[:MAX_CONFUSION_CLASSES, :MAX_CONFUSION_CLASSES]
        shares = (table / np.maximum(table.sum(1, keepdims=True), 1)).astype(np.float32)
        names = list(self.classes[:MAX_CONFUSION_CLASSES])
        shown = AttentionMap(shares, names, names, "what is taken for what", "said", "is")
        return save_attention_maps([shown], folder / "confusion.png")

    # --- answers ---------------------------------------------------------------------------

    def predict(
        self,
        texts: Sequence[str | Mapping[str, Any]],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        n_best: int = 1,
        **how: Any,
    ) -> list[Any]:
        """The answer to each row: a line of a table, or values by name.

        An empty line is answered by nothing, a row of names by the target's.
        """
        reject_search_options(self.recipe.task, how | ({} if self.classes else {"n_best": n_best}))
        told = {number: self._told(row) for number, row in enumerate(texts, first)}
        asked = {n: row for (n, said), row in zip(told.items(), texts, strict=True) if said is None}
        found = iter(self._found(asked, n_best))
        on_progress(len(texts))
        return [next(found) if said is None else self._as_text(said) for said in told.values()]

    def _told(self, row: str | Mapping[str, Any]) -> str | None:
        """What is said of a line that is no row."""
        if not isinstance(row, str):
            return None
        if not row.strip():
            return ""
        return self.layout.target.name if self.layout.is_header(row) else None

    def _as_text(self, text: str) -> Any:
        if self.classes:
            return ClassPrediction(text, 0.0, {})
        return said_number([], 1.0)._replace(text=text)

    def _found(self, rows: Mapping[int, str | Mapping[str, Any]], n_best: int) -> list[Any]:
        if not rows:
            return []
        answers = self.answers(self._features(rows))
        target = self.layout.target
        if isinstance(target, NumericColumn):
            values = target.inverse_transform(answers[:, 0]).tolist()
            return [said_number([value], target.deviation) for value in values]
        return self._classes_said(answers, n_best)

    def _classes_said(self, answers: FloatArray, n_best: int) -> list[Any]:
        """By what speaks for each class; of logits, as probabilities."""
        return [self._said(row, n_best) for row in _softmax(answers)]

    def _features(self, rows: Mapping[int, str | Mapping[str, Any]]) -> FloatArray:
        cells = [self.layout.cells(row, number) for number, row in rows.items()]
        columns = {c.name: [row[c.name] for row in cells] for c in self.layout.columns}
        table = Table("inputs", columns, np.array([*rows], np.int64), unit="input")
        if complaints := self.layout.complaints(table):
            raise DataError(bullet_list(complaints, "these rows cannot be answered:"))
        return self.layout.features(columns)

    def _said(self, chances: FloatArray, n_best: int) -> ClassPrediction:
        every = dict(zip(self.classes, chances.tolist(), strict=True))
        best = np.argsort(-chances, kind="stable")[:n_best]
        found = [ClassPrediction(self.classes[at], float(chances[at]), every) for at in best]
        return found[0]._replace(alternatives=tuple(found[1:]))

    def example_input(self) -> str:
        """A row that was not learned from, to show how a run is asked."""
        return self.example

    def _some(self, split: str, limit: int | None) -> IntArray:
        """So many rows at most, spread evenly: a file may be sorted."""
        rows = len(self.rows[split].lines)
        return np.unique(np.linspace(0, rows - 1, min(limit or rows, rows)).astype(np.int64))


def _softmax(logits: FloatArray) -> FloatArray:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)
