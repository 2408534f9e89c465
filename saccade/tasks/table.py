"""A table in, one of its columns foretold from the others: a number, or a class.

Numbers are learned in deviations from their mean, and said as the table has them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.layout import Category, Floats, Layout, Number, Rows
from saccade.data.made_tables import TABLES
from saccade.data.rows import shuffled
from saccade.data.tables import Indices, Table, counted, read_table
from saccade.errors import DataError, several
from saccade.look.draw import save_maps
from saccade.look.draw_graph import Graph
from saccade.look.finding import Finding, not_tried
from saccade.look.laws import TOLERANCE
from saccade.look.terminal import Map
from saccade.metrics.classification import accuracy, confusion, macro_f1
from saccade.metrics.regression import mae, r_squared, rmse
from saccade.models.tabular import TABULAR
from saccade.nn.backward import at_answer, backward, forward
from saccade.nn.losses import (
    MARGINS,
    Risk,
    absolute,
    cross_entropy,
    huber,
    penalty,
    square,
)
from saccade.tasks.graphs import graph_of
from saccade.tasks.network import Network
from saccade.tasks.numbers import answer_of as said_number
from saccade.tasks.numbers import refuse_search
from saccade.tasks.table_recipe import PreparedTable, TableRecipe, prepare
from saccade.tasks.task import Kind, Scored, anywhere
from saccade.training.loop import Loss

MODELS = dict(TABULAR)
NUMBERS = {"absolute": absolute, "huber": huber, "square": square}
AT_ONCE = 4096  # rows that are answered in one pass
DRAWN = 40  # classes that a confusion table is drawn for


class RowsBatch(NamedTuple):
    """Rows to learn from."""

    features: Float[Tensor, "B D"]
    target: Float[Tensor, " B"] | Int[Tensor, " B"]
    weights: Float[Tensor, " B"] | None  # None: every row counts once
    lines: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """How many rows there are."""
        return len(self.features)


class Said(NamedTuple):
    """A class, how likely it and the others are, and the next best."""

    text: str
    score: float
    probabilities: dict[str, float]
    others: tuple["Said", ...] = ()


class Tabular(Network):
    """A model, what the columns mean and, where they are needed, rows of a table."""

    def __init__(self, recipe: TableRecipe, layout: Layout):
        super().__init__(recipe, lambda: MODELS[recipe.model.name](recipe.model))
        self.layout = layout
        self.rows: dict[str, Rows] = {}
        self.example = ""

    def give(self, prepared: PreparedTable) -> None:
        """Hand over the rows that training and evaluating need."""
        self.rows, self.example = dict(prepared.rows), prepared.example

    def weigh(self, weights: Floats | None, split: str = "train") -> None:
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

    def add_file(self, path: str | Path) -> str:
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
        return self.layout.target.values if isinstance(self.layout.target, Category) else ()

    # --- training --------------------------------------------------------------------------

    def batches(self, split: str, start: int = 0) -> Iterator[RowsBatch]:
        """Rows without end, in an order that depends on the seed; a few are taken all at once."""
        count, seed = len(self.rows[split].lines), self.recipe.train.seed
        for some in shuffled(count, self._together(count), seed, start):
            yield self.batch(split, some)

    def batches_in_epoch(self) -> int:
        """How many batches have every row once."""
        count = len(self.rows["train"].lines)
        return -(-count // self._together(count))

    def _together(self, count: int) -> int:
        """Of so many rows, how many are in a batch."""
        size = -(-count // -(-count // self.recipe.train.batch_tokens))  # none is much smaller
        if getattr(self.recipe.model, "norm", "") == "batch":  # one row alone has no variance
            size = next(n for n in range(max(size, 2), count + 1) if count % n != 1)
        return size

    def batch(self, split: str, some: Indices) -> RowsBatch:
        """The chosen rows as tensors; weights have a mean of 1 over the split."""
        features, target, weights, lines = self.rows[split]
        share = None if weights is None else torch.from_numpy(weights[some] / weights.mean())
        wanted = torch.from_numpy(target[some])
        return RowsBatch(
            torch.from_numpy(features[some]).float().to(self.device),
            (wanted if self.classes else wanted.float()).to(self.device),
            None if share is None else share.float().to(self.device),
            tuple(lines[some].tolist()),
        )

    def loss(self, batch: RowsBatch) -> Loss:
        """The structural risk of a batch, times its rows; of classes, how many were right."""
        answers = self.model(batch.features)
        total = self.summed(answers, batch)
        if self.recipe.train.penalty:
            total = total + batch.tokens * self.penalty()
        if not self.classes:
            return Loss(total)
        return Loss(total, (answers.argmax(1) == batch.target).sum())

    def summed(
        self, answers: Float[Tensor, "B V"], batch: RowsBatch, smoothing: float | None = None
    ) -> Float[Tensor, ""]:
        r"""Σ_n w_n ℓ(f(x_n), y_n), by `train.loss`; smoothed as in training if nothing is said."""
        train = self.recipe.train
        if train.loss in NUMBERS:
            return NUMBERS[train.loss](answers[:, 0], batch.target, batch.weights)
        if train.loss == "cross_entropy":
            spread = train.smoothing if smoothing is None else smoothing
            return cross_entropy(answers, batch.target, spread, batch.weights)
        margins = (answers[:, 1] - answers[:, 0]) * (2 * batch.target - 1)
        by_margin: Any = MARGINS[train.loss]
        return by_margin(margins, batch.weights)

    def penalty(self) -> Float[Tensor, ""]:
        r"""λ/2 ‖W‖² over all matrices."""
        matrices = [weight for weight in self.model.parameters() if weight.dim() > 1]
        return penalty(matrices, self.recipe.train.penalty)

    @torch.no_grad()
    def risk(self, split: str, most: int | None = None) -> Risk:
        """The weighted mean loss of rows whose class is known, without smoothing; the penalty."""
        self.model.eval()
        some = self._some(split, most)
        if self.classes:
            some = some[self.rows[split].target[some] >= 0]
        summed, weights = torch.zeros(()), 0.0
        for at in range(0, len(some), AT_ONCE):
            batch = self.batch(split, some[at : at + AT_ONCE])
            summed = summed + self.summed(self.model(batch.features), batch, 0.0).cpu()
            weights += batch.tokens if batch.weights is None else float(batch.weights.sum())
        return Risk(summed / weights if weights else torch.tensor(torch.nan), self.penalty().cpu())

    def where(self, batch: RowsBatch) -> str:
        """The file and lines of a batch."""
        shown = ", ".join(map(str, batch.lines[:5]))
        more = f" and {len(batch.lines) - 5} more" if len(batch.lines) > 5 else ""
        return f"{self.name}, line{'s' if len(batch.lines) > 1 else ''} {shown}{more}"

    # --- scores ----------------------------------------------------------------------------

    @torch.no_grad()
    def answers(self, features: Floats) -> Floats:
        """(N, V): a logit for each class, or one number, in the model's units."""
        self.model.eval()
        parts = [
            self.model(torch.from_numpy(features[at : at + AT_ONCE]).float().to(self.device))
            for at in range(0, len(features), AT_ONCE)
        ]
        return torch.cat(parts).double().cpu().numpy()

    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """The risk, and accuracy and F1 of classes, or the errors of numbers."""
        refuse_search(self.recipe.task, {"beam": beam})
        rows, risk, some = self.rows[split], self.risk(split, most), self._some(split, most)
        truth = rows.target[some]
        figures = {"loss": float(risk.empirical)}
        weighed = "" if rows.weights is None else ", weighted"
        conventions = {"loss": f"mean {self.recipe.train.loss} of a row{weighed}"}
        if self.recipe.train.penalty:
            figures |= {"penalty": float(risk.penalty), "risk": float(risk.structural)}
            conventions |= {"penalty": "λ/2 ‖W‖²", "risk": "loss and penalty: what is made small"}
        judge = self._classes_judged if self.classes else self._numbers_judged
        more, how = judge(truth, self.answers(rows.features[some]))
        tell(len(truth))
        return {**figures, **more, "examples": float(len(truth))}, {**conventions, **how}

    def _classes_judged(self, truth: Indices, answers: Floats) -> Scored:
        said, count = answers.argmax(1), len(self.classes)
        figures = {"accuracy": accuracy(truth, said), "macro_f1": macro_f1(truth, said, count)}
        strange = int((truth < 0).sum())
        unknown = f"; {counted(strange, 'row')} of unseen classes are wrong" if strange else ""
        return figures, {
            "accuracy": f"share of rows whose class was said{unknown}",
            "macro_f1": "mean of F1 over the classes that are there or were said",
            "confusion": "a row for each class that is, a column for each that was said",
        }

    def _numbers_judged(self, truth: Floats, answers: Floats) -> Scored:
        column = self.layout.target
        assert isinstance(column, Number)
        wanted, said = column.outside(truth), column.outside(answers[:, 0])
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
        return confusion(rows.target, self.answers(rows.features).argmax(1), len(self.classes))

    def pictures(self, folder: Path) -> list[str]:
        """Of classes: which are taken for which."""
        if not self.classes:
            return []
        table = self.confusion("test")[:DRAWN, :DRAWN]
        shares = (table / np.maximum(table.sum(1, keepdims=True), 1)).astype(np.float32)
        names = list(self.classes[:DRAWN])
        shown = Map(shares, names, names, "what is taken for what", "said", "is")
        return save_maps([shown], folder / "confusion.png")

    # --- answers ---------------------------------------------------------------------------

    def predict(
        self,
        texts: Sequence[str | Mapping[str, Any]],
        *,
        first: int = 1,
        tell: Callable[[int], None] = lambda more: None,
        n_best: int = 1,
        **how: Any,
    ) -> list[Any]:
        """The answer to each row: a line of a table, or values by name.

        An empty line is answered by nothing, a row of names by the target's.
        """
        refuse_search(self.recipe.task, how | ({} if self.classes else {"n_best": n_best}))
        told = {number: self._told(row) for number, row in enumerate(texts, first)}
        asked = {n: row for (n, said), row in zip(told.items(), texts, strict=True) if said is None}
        found = iter(self._found(asked, n_best))
        tell(len(texts))
        return [next(found) if said is None else self._as_text(said) for said in told.values()]

    def _told(self, row: str | Mapping[str, Any]) -> str | None:
        """What is said of a line that is no row."""
        if not isinstance(row, str):
            return None
        if not row.strip():
            return ""
        return self.layout.target.name if self.layout.is_names(row) else None

    def _as_text(self, text: str) -> Any:
        if self.classes:
            return Said(text, 0.0, {})
        return said_number([], 1.0)._replace(text=text)

    def _found(self, rows: Mapping[int, str | Mapping[str, Any]], n_best: int) -> list[Any]:
        if not rows:
            return []
        answers = self.answers(self._features(rows))
        target = self.layout.target
        if isinstance(target, Number):
            values = target.outside(answers[:, 0]).tolist()
            return [said_number([value], target.deviation) for value in values]
        return [self._said(row, n_best) for row in _softmax(answers)]

    def _features(self, rows: Mapping[int, str | Mapping[str, Any]]) -> Floats:
        cells = [self.layout.cells(row, number) for number, row in rows.items()]
        columns = {c.name: [row[c.name] for row in cells] for c in self.layout.columns}
        table = Table("inputs", columns, np.array([*rows], np.int64), unit="input")
        if complaints := self.layout.complaints(table):
            raise DataError(several(complaints, "these rows cannot be answered:"))
        return self.layout.features(columns)

    def _said(self, chances: Floats, n_best: int) -> Said:
        every = dict(zip(self.classes, chances.tolist(), strict=True))
        best = np.argsort(-chances, kind="stable")[:n_best]
        found = [Said(self.classes[at], float(chances[at]), every) for at in best]
        return found[0]._replace(others=tuple(found[1:]))

    def first_input(self) -> str:
        """A row that was not learned from, to show how a run is asked."""
        return self.example

    def graph(self, row: int, split: str = "test") -> Graph:
        """One row's way forward and back, every number of it; rows count from 1."""
        return graph_of(self, row, split)

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[Finding]:
        """Try every law on this very model, with rows spread evenly over a split."""
        batch = self.batch(split, self._some(split, count))
        self.model.eval()
        yield self._neighbours(batch.features)
        yield self._by_hand(batch)

    @torch.no_grad()
    def _neighbours(self, features: Float[Tensor, "B D"]) -> Finding:
        together = self.model(features)
        alone = torch.cat([self.model(row[None]) for row in features])
        return _finding("neighbours change nothing", [(together, alone)])

    def _by_hand(self, batch: RowsBatch) -> Finding:
        """Every gradient of the weights, by autograd and as `nn.backward` writes it out."""
        law = "written out equals autograd"
        if getattr(self.recipe.model, "norm", "none") != "none":
            return not_tried(law, "it is written out for networks without norms")
        if self.classes and int(batch.target.min()) < 0:
            return not_tried(law, "there are rows of a class that was not learned")
        model: Any = self.model
        layers, train = model.layers(), self.recipe.train
        batch = batch._replace(weights=None)
        summed = self.summed(self.model(batch.features), batch)
        wanted = torch.autograd.grad(summed, [part for layer in layers for part in layer])
        with torch.no_grad():
            activation = getattr(self.recipe.model, "activation", "relu")
            there = forward(batch.features, layers, activation)
            last = at_answer(train.loss, there.sums[-1], batch.target, train.smoothing)
            back = backward(there, layers, activation, last)
        found = [part for pair in zip(back.weights, back.biases, strict=True) for part in pair]
        scale = max(1.0, *(float(part.abs().max()) for part in wanted))
        pairs = [(one / scale, two / scale) for one, two in zip(wanted, found, strict=True)]
        return _finding(law, pairs)._replace(tried=batch.tokens)

    @torch.no_grad()
    def again(self, other: Any, split: str, count: int) -> Finding:
        """Whether the same task, saved and reopened, says the same."""
        features = self.batch(split, self._some(split, count)).features
        one, two = self.model.eval()(features), other.model.eval()(features)
        return _finding("saved and reopened agree", [(one, two)])

    def _some(self, split: str, most: int | None) -> Indices:
        """So many rows at most, spread evenly: a file may be sorted."""
        rows = len(self.rows[split].lines)
        return np.unique(np.linspace(0, rows - 1, min(most or rows, rows)).astype(np.int64))


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def _finding(law: str, pairs: list[tuple[Tensor, Tensor]]) -> Finding:
    worst = [float((one - other).abs().max()) for one, other in pairs]
    difference = float(np.max(worst))  # of NaN numpy makes NaN
    return Finding(law, len(pairs[0][0]), difference, TOLERANCE[pairs[0][0].dtype])


TABLE = Kind(TableRecipe, MODELS, TABLES, {}, anywhere(prepare), Tabular, Layout.from_json)
