"""Support vector machines on tables: one-vs-one votes without probabilities, and regression."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saccade.data.tables.schema import CategoricalColumn, TableSchema
from saccade.errors import ConfigError
from saccade.estimators.svm.config import SVMConfig, SVRConfig
from saccade.estimators.svm.svm import SVM
from saccade.estimators.svm.svr import SVR
from saccade.tasks.tabular.config import TableRecipe
from saccade.tasks.tabular.data import TableSplit
from saccade.tasks.tabular.scoring import TableScorer
from saccade.training.estimator import FitContext
from saccade.types.arrays import FloatArray
from saccade.types.results import Evaluation


class SVMModel:
    """A support vector machine whose state is tensors."""

    def __init__(self, recipe: TableRecipe, schema: TableSchema):
        assert isinstance(recipe.model, SVMConfig | SVRConfig)
        self.svm = SVM(recipe.model) if isinstance(recipe.model, SVMConfig) else SVR(recipe.model)
        self.features = len(schema.feature_names)
        target = schema.target
        self.class_count = len(target.values) if isinstance(target, CategoricalColumn) else 0

    def state_dict(self) -> dict[str, Tensor]:
        """Return the support vectors, their weights and their rows."""
        return {name: torch.from_numpy(array) for name, array in self.svm.to_arrays().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a fitted machine."""
        expected = self.svm.to_arrays().keys()
        if state.keys() != expected:
            raise RuntimeError(f"got {', '.join(state)}; expected {', '.join(expected)}")
        arrays = {name: tensor.numpy() for name, tensor in state.items()}
        machine: SVM | SVR
        if isinstance(self.svm, SVM):
            machine = SVM.from_arrays(self.svm.config, arrays)
            self._check_classes(machine)
        else:
            machine = SVR.from_arrays(self.svm.config, arrays)
        if machine.vectors.shape[1] != self.features:
            raise ValueError(
                f"got vectors of {machine.vectors.shape[1]} numbers; expected {self.features}"
            )
        self.svm = machine

    def _check_classes(self, machine: SVM) -> None:
        if machine.classes.min() < 0 or machine.classes.max() >= self.class_count:
            raise ValueError(f"got a class outside of the {self.class_count} of the table")


class SVMFit:
    """Estimator: solves the dual problem, for classes that of each pair."""

    is_resumable = False

    def __init__(
        self,
        recipe: TableRecipe,
        model: SVMModel,
        schema: TableSchema,
        splits: Mapping[str, TableSplit],
    ):
        self.name, self.model, self.rows = recipe.model_name, model, splits["train"].rows

    def fit(self, context: FitContext) -> None:
        """Fit the machine."""
        context.on_progress("solving for the support vectors", 0, None)
        try:
            self.model.svm.fit(self.rows.features, self.rows.target, self.rows.weights)
        except ValueError as error:
            raise ConfigError(f"{self.name}: {error}") from None


class SVMScorer(TableScorer):
    """Votes of the pairwise machines and hinge loss, or numbers and ε-insensitive loss."""

    def __init__(self, recipe: TableRecipe, model: SVMModel, schema: TableSchema):
        super().__init__(recipe, schema)
        self.model = model

    def outputs(self, features: FloatArray) -> FloatArray:
        """Return (N, V): the votes for each class, one of each pair, or one standardised number."""
        if isinstance(self.model.svm, SVR):
            return self.model.svm.predict(features)[:, None]
        votes = np.zeros((len(features), len(self.classes)))
        for (first, second), decision in self._decisions(features):
            votes[:, second] += decision > 0
            votes[:, first] += decision <= 0
        return votes

    def margins(self, features: FloatArray, chosen: int, other: int) -> FloatArray:
        """Return the decision function of two classes, positive for the first; 0 if untrained."""
        for (first, second), decision in self._decisions(features):
            if {first, second} == {chosen, other}:
                return decision if chosen == second else -decision
        return np.zeros(len(features))

    def _decisions(self, features: FloatArray) -> Iterator[tuple[tuple[int, int], FloatArray]]:
        """Yield each pair of class ids, and f of each row: above 0 for the second."""
        svm = self.model.svm
        assert isinstance(svm, SVM)
        decisions = svm.decision_function(features).reshape(len(features), -1)
        pairs = combinations(svm.classes.tolist(), 2)
        yield from zip(pairs, decisions.T, strict=True)

    def training_loss(self, split: TableSplit, limit: int | None) -> Evaluation:
        """Return the hinge or ε-insensitive loss, which the fit minimises together with ½‖w‖²."""
        indices = split.spread(limit)
        features, target = split.rows.features[indices], split.rows.target[indices]
        if isinstance(self.model.svm, SVR):
            return self.loss_evaluation(
                float(self.model.svm.losses(features, target).mean()), "ε-insensitive loss"
            )
        loss = self._hinge(features, target)
        convention = "mean hinge loss of a row, over the pairs with its class"
        return Evaluation({"loss": loss}, {"loss": convention})

    def _hinge(self, features: FloatArray, truth: Any) -> float:
        r"""Return the mean of max(0, 1 - y f(x)) over rows and pairs, y = ±1."""
        losses = []
        for (first, second), decision in self._decisions(features):
            signs = (truth == second) * 1.0 - (truth == first)
            losses.append(np.maximum(0, 1 - signs * decision)[signs != 0])
        every = np.concatenate(losses)
        return float(every.mean()) if len(every) else float("nan")
