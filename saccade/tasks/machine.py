"""A support vector machine on a table: it fits itself, and says a class without a probability."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from saccade.data.tables.schema import FloatArray, TableSchema
from saccade.errors import ConfigError
from saccade.estimators.svm.svm import SVM, SVMConfig
from saccade.inspection.checks import CheckResult
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.plots.margin import save_margin
from saccade.tasks.table_recipe import TableRecipe
from saccade.tasks.table_rows import TabularTask
from saccade.tasks.task import Evaluation, FitContext, FittedTask


class VotePrediction(NamedTuple):
    """A class, the votes that it and the others have, and the next best.

    There are no probabilities: the score is the class's votes, one for each pair that it won.
    """

    text: str
    score: float
    votes: dict[str, int]
    alternatives: tuple["VotePrediction", ...] = ()


class SVMTask(TabularTask, FittedTask):
    """Support vectors, found by solving the dual (`fitted.svm`)."""

    def __init__(self, recipe: TableRecipe, layout: TableSchema):
        super().__init__(recipe, layout)
        assert isinstance(recipe.model, SVMConfig)
        self.machine = SVM(recipe.model)

    def fit(self, context: FitContext) -> None:
        """Solve the dual of each pair of classes."""
        context.on_progress("finding the support vectors", 0, 0)
        rows = self.rows["train"]
        try:
            self.machine.fit(rows.features, rows.target, rows.weights)
        except ValueError as error:
            raise ConfigError(f"svm: {error}") from None

    def weights(self) -> dict[str, Tensor]:
        """The support vectors, what each weighs, and which rows they were."""
        return {name: torch.from_numpy(a) for name, a in self.machine.to_arrays().items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take up a machine."""
        wanted = self.machine.to_arrays().keys()
        if weights.keys() != wanted:
            raise RuntimeError(f"wanted {', '.join(wanted)}, and there is {', '.join(weights)}")
        arrays = {name: weight.numpy() for name, weight in weights.items()}
        self.machine = SVM.from_arrays(self.machine.config, arrays)

    # --- scores and answers ------------------------------------------------------------------

    def answers(self, features: FloatArray) -> FloatArray:
        """(N, V): the votes for each class, one of each pair."""
        votes = np.zeros((len(features), len(self.classes)))
        for (first, second), f in self._pairs(features):
            votes[:, second] += f > 0
            votes[:, first] += f <= 0
        return votes

    def _pairs(self, features: FloatArray) -> Iterator[tuple[tuple[int, int], FloatArray]]:
        """Each pair of classes, by their numbers, and f of each row, over 0 for the second."""
        decided = self.machine.decision_function(features).reshape(len(features), -1)
        pairs = combinations(self.machine.classes.tolist(), 2)
        yield from zip(pairs, decided.T, strict=True)

    def objective(self, split: str, limit: int | None) -> Evaluation:
        """The hinge loss, which with ½‖w‖² is what was made small."""
        rows, some = self.rows[split], self._some(split, limit)
        hinge = "mean hinge of a row, over the pairs that its class is in"
        return {"loss": self._hinge(rows.features[some], rows.target[some])}, {"loss": hinge}

    def _hinge(self, features: FloatArray, truth: Any) -> float:
        r"""Mean of max(0, 1 - y f(x)) over rows and pairs, y = ±1 for the second and the first."""
        short = []
        for (first, second), f in self._pairs(features):
            signs = (truth == second) * 1.0 - (truth == first)
            short.append(np.maximum(0, 1 - signs * f)[signs != 0])
        every = np.concatenate(short)
        return float(every.mean()) if len(every) else float("nan")

    def _classes_said(self, answers: FloatArray, n_best: int) -> list[Any]:
        return [self._voted(row, n_best) for row in answers]

    def _voted(self, votes: FloatArray, n_best: int) -> VotePrediction:
        every = {name: int(count) for name, count in zip(self.classes, votes, strict=True)}
        best = np.argsort(-votes, kind="stable")[:n_best]
        found = [VotePrediction(self.classes[at], float(votes[at]), every) for at in best]
        return found[0]._replace(alternatives=tuple(found[1:]))

    def _as_text(self, text: str) -> VotePrediction:
        return VotePrediction(text, 0.0, {})

    # --- seeing, and laws --------------------------------------------------------------------

    def save_plots(self, folder: Path) -> list[str]:
        """What is taken for what; of two inputs and two classes the margin, in deviations."""
        said = super().save_plots(folder)
        rows = self.rows.get("train")
        if rows is not None and rows.features.shape[1] == len(self.classes) == 2:
            support = np.zeros(len(rows.lines), np.bool_)
            support[self.machine.support] = True
            labels = np.array(self.classes)[rows.target]
            save_margin(
                rows.features,
                labels,
                support,
                self.machine.decision_function,
                folder / "margin.png",
            )
        return said

    def check(self, split: str, count: int) -> Iterator[CheckResult]:
        """A row is answered as it is alone."""
        features = self.rows[split].features[self._some(split, count)]
        together = self.machine.decision_function(features)
        alone = np.concatenate([self.machine.decision_function(row[None]) for row in features])
        yield self._agreeing("neighbours change nothing", together, alone)

    def compare_reloaded(self, other: Any, split: str, count: int) -> CheckResult:
        """Whether the same task, saved and reopened, says the same."""
        features = self.rows[split].features[self._some(split, count)]
        both = [task.machine.decision_function(features) for task in (self, other)]
        return self._agreeing("saved and reopened agree", *both)

    def _agreeing(self, invariant: str, one: FloatArray, two: FloatArray) -> CheckResult:
        scale = max(1.0, float(np.abs(self.machine.weights).sum()))  # of the sum that f is
        difference = float(np.abs(one - two).max()) / scale
        return CheckResult(invariant, len(one), difference, LOGIT_TOLERANCE[torch.float64])
