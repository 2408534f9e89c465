r"""Online: a table's rows in the file's order, each answered before it is learned from.

    ŷ_n = f(x_n; θ_{n-1}),    θ_n = θ_{n-1} - η ∇ ℓ(f(x_n; θ_{n-1}), y_n)

The score of the answers ŷ_1 … ŷ_n is one on unseen rows, though every row is learned from
("prequential": Dawid 1984; Gama et al. 2013). Beside it stands that of the model left as it was.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saccade.data.synthetic.tables import SYNTHETIC_TABLES
from saccade.data.tables.schema import FloatArray, NumericColumn, TableSchema
from saccade.plots.online import running_mean, save_online_scores
from saccade.tasks.machine import SVMTask
from saccade.tasks.table import TABULAR_MODELS, NeuralTabularTask, TabularBatch
from saccade.tasks.table_recipe import TableRecipe, prepare_table, rows_per_batch
from saccade.tasks.task import Evaluation, TaskSpec, ignore_scratch_dir
from saccade.training.loop import Loss

RECENT_ROWS = 100  # rows of which the recent score is


class OnlineTabularTask(NeuralTabularTask):
    """Answers, sees the truth, learns.

    `carried` has what was said of every row (NaN: not yet), and what the model as it was would
    have said; so both are in every checkpoint.
    """

    def batches(self, split: str, start: int = 0) -> Iterator[TabularBatch]:
        """The rows in the file's order, once."""
        count = len(self.rows[split].lines)
        size = rows_per_batch(self.recipe, count)
        for at in range(start * size, count, size):
            yield self.batch(split, np.arange(at, min(at + size, count)))

    def normalized_weights(self, weights: FloatArray) -> FloatArray:
        """As the table has them: their mean would be known only at the end."""
        return weights

    def loss(self, batch: TabularBatch) -> Loss:
        """That of a batch once it is answered."""
        self._answer(batch)
        return super().loss(batch)

    def _answer(self, batch: TabularBatch) -> None:
        """Say what the batch's targets are, by the weights as they are now."""
        rows = self.rows["train"]
        if not self.carry:  # the weights are those that it starts from
            left = self._answered(rows.features)
            self.carry = {"said": torch.full_like(left, torch.nan), "left": left}
        places = np.searchsorted(rows.lines, batch.lines)
        said = self.carry["said"]
        if said[places].isnan().any():  # an optimiser that searches asks again, with other weights
            said[places] = self._answered(rows.features[places])

    def _answered(self, features: FloatArray) -> Tensor:
        """The answers as `predict` gives them, without dropout; training goes on after it."""
        answers = torch.from_numpy(self.answers(features)).float()
        self.model.train()
        return answers

    # --- scores ----------------------------------------------------------------------------

    def row_scores(self, which: str) -> FloatArray:
        """Of each row that was answered, whether the class was right, or the squared error."""
        rows, rows_seen = self.rows["train"], self.rows_seen
        said = self.carry[which][:rows_seen].double().numpy()
        if self.classes:
            return np.asarray(said.argmax(1) == rows.target[:rows_seen], np.float64)
        column = self.layout.target
        assert isinstance(column, NumericColumn)
        return np.square(column.deviation * (said[:, 0] - rows.target[:rows_seen]))

    @property
    def rows_seen(self) -> int:
        """How many rows were answered so far."""
        return int((~self.carry["said"][:, 0].isnan()).sum()) if self.carry else 0

    @property
    def metric(self) -> str:
        """What is counted."""
        return "accuracy" if self.classes else "rmse"

    def evaluate(self, split: str, limit: int | None = None) -> dict[str, float]:
        """The running score: of all answers so far, of the recent ones, and as it was."""
        found = {"rows": float(self.rows_seen)}
        for name, which in (("", "said"), ("left_", "left")):
            values = self.row_scores(which)
            for recent, window in (("", None), ("recent_", RECENT_ROWS)):
                score = running_mean(values, window, root=not self.classes)[-1]
                found[f"{name}{recent}{self.metric}"] = float(score)
        return found

    def selection_score(self, scores: dict[str, float]) -> float:
        """What has seen most is kept: the newest."""
        return scores["rows"]

    def evaluate_with_conventions(self, split: str, *how: Any, **more: Any) -> Evaluation:
        """As any table; but of its own rows none is held out."""
        figures, conventions = super().evaluate_with_conventions(split, *how, **more)
        own = "" if split == "given" else "; of rows that it may have learned from"
        return figures, {name: text + own for name, text in conventions.items()}

    def save_plots(self, folder: Path) -> list[str]:
        """The running score, too."""
        messages = super().save_plots(folder)
        if self.rows_seen:
            lines = {"learning": self.row_scores("said"), "left as it was": self.row_scores("left")}
            save_online_scores(lines, self.metric, RECENT_ROWS, folder / "online.png")
        return messages


def make_table_task(recipe: TableRecipe, layout: TableSchema) -> NeuralTabularTask | SVMTask:
    """As the recipe has it: fitted at once, learned in any order and often, or online."""
    if recipe.model.name == "svm":
        return SVMTask(recipe, layout)
    return (OnlineTabularTask if recipe.train.online else NeuralTabularTask)(recipe, layout)


TABLE = TaskSpec(
    TableRecipe,
    TABULAR_MODELS,
    SYNTHETIC_TABLES,
    {},
    ignore_scratch_dir(prepare_table),
    make_table_task,
    TableSchema.from_json,
    transferable_data_settings=(
        "target_type",
        "categories",
        "ignore",
        "min_count",
        "target",
        "weight_column",
    ),
)
