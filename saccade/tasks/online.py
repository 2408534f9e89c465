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

from saccade.data.layout import Floats, Layout, Number
from saccade.data.made_tables import TABLES
from saccade.look.draw_online import running, save_online
from saccade.tasks.machine import Machine
from saccade.tasks.table import MODELS, RowsBatch, Tabular
from saccade.tasks.table_recipe import TableRecipe, prepare, rows_together
from saccade.tasks.task import Kind, Scored, anywhere
from saccade.training.loop import Loss

WINDOW = 100  # rows of which the recent score is


class Online(Tabular):
    """Answers, sees the truth, learns.

    `carried` has what was said of every row (NaN: not yet), and what the model as it was would
    have said; so both are in every checkpoint.
    """

    def batches(self, split: str, start: int = 0) -> Iterator[RowsBatch]:
        """The rows in the file's order, once."""
        count = len(self.rows[split].lines)
        size = rows_together(self.recipe, count)
        for at in range(start * size, count, size):
            yield self.batch(split, np.arange(at, min(at + size, count)))

    def shares(self, weights: Floats) -> Floats:
        """As the table has them: their mean would be known only at the end."""
        return weights

    def loss(self, batch: RowsBatch) -> Loss:
        """That of a batch once it is answered."""
        self._answer(batch)
        return super().loss(batch)

    def _answer(self, batch: RowsBatch) -> None:
        """Say what the batch's targets are, by the weights as they are now."""
        rows = self.rows["train"]
        if not self.carried:  # the weights are those that it starts from
            left = self._answered(rows.features)
            self.carried = {"said": torch.full_like(left, torch.nan), "left": left}
        places = np.searchsorted(rows.lines, batch.lines)
        said = self.carried["said"]
        if said[places].isnan().any():  # an optimiser that searches asks again, with other weights
            said[places] = self._answered(rows.features[places])

    def _answered(self, features: Floats) -> Tensor:
        """The answers as `predict` gives them, without dropout; training goes on after it."""
        answers = torch.from_numpy(self.answers(features)).float()
        self.model.train()
        return answers

    # --- scores ----------------------------------------------------------------------------

    def judged(self, which: str) -> Floats:
        """Of each row that was answered, whether the class was right, or the squared error."""
        rows, seen = self.rows["train"], self.seen
        said = self.carried[which][:seen].double().numpy()
        if self.classes:
            return np.asarray(said.argmax(1) == rows.target[:seen], np.float64)
        column = self.layout.target
        assert isinstance(column, Number)
        return np.square(column.deviation * (said[:, 0] - rows.target[:seen]))

    @property
    def seen(self) -> int:
        """How many rows were answered so far."""
        return int((~self.carried["said"][:, 0].isnan()).sum()) if self.carried else 0

    @property
    def figure(self) -> str:
        """What is counted."""
        return "accuracy" if self.classes else "rmse"

    def evaluate(self, split: str, most: int | None = None) -> dict[str, float]:
        """The running score: of all answers so far, of the recent ones, and as it was."""
        found = {"rows": float(self.seen)}
        for name, which in (("", "said"), ("left_", "left")):
            values = self.judged(which)
            for recent, window in (("", None), ("recent_", WINDOW)):
                score = running(values, window, root=not self.classes)[-1]
                found[f"{name}{recent}{self.figure}"] = float(score)
        return found

    def goodness(self, scores: dict[str, float]) -> float:
        """What has seen most is kept: the newest."""
        return scores["rows"]

    def scored(self, split: str, *how: Any, **more: Any) -> Scored:
        """As any table; but of its own rows none is held out."""
        figures, conventions = super().scored(split, *how, **more)
        own = "" if split == "given" else "; of rows that it may have learned from"
        return figures, {name: text + own for name, text in conventions.items()}

    def pictures(self, folder: Path) -> list[str]:
        """The running score, too."""
        messages = super().pictures(folder)
        if self.seen:
            lines = {"learning": self.judged("said"), "left as it was": self.judged("left")}
            save_online(lines, self.figure, WINDOW, folder / "online.png")
        return messages


def table_task(recipe: TableRecipe, layout: Layout) -> Tabular | Machine:
    """As the recipe has it: fitted at once, learned in any order and often, or online."""
    if recipe.model.name == "svm":
        return Machine(recipe, layout)
    return (Online if recipe.train.online else Tabular)(recipe, layout)


TABLE = Kind(
    TableRecipe,
    MODELS,
    TABLES,
    {},
    anywhere(prepare),
    table_task,
    Layout.from_json,
    kept=("answer", "categories", "ignore", "least", "target", "weights"),
)
