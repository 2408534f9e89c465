"""Results of `predict` and `evaluate`. Does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Prediction(NamedTuple):
    """One answer of a model, and the alternatives that the search found, best first.

    Fields that a task has no use for are None: a translator has no `value`, a forecaster no
    `log_probability`.
    """

    text: str  # the answer as people read it
    score: float | None = None  # higher is better; the scale depends on the task
    log_probability: float | None = None
    finished: bool | None = None  # False: generation was cut off at the length limit
    alternatives: tuple["Prediction", ...] = ()
    value: float | None = None  # predicted number
    values: tuple[float, ...] | None = None  # predicted sequence of numbers
    probabilities: dict[str, float] | None = None  # by class
    votes: dict[str, int] | None = None  # by class, of a model without probabilities

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set, ready for JSON."""
        known = {name: value for name, value in self._asdict().items() if value is not None}
        known["alternatives"] = [other.to_dict() for other in self.alternatives]
        return known


@dataclass(frozen=True)
class Evaluation(Mapping[str, float]):
    """Metrics of a model on a split, how each is computed, and the scores of trivial baselines.

    It is a mapping from metric name to value; `floors` has the metrics of each baseline (majority
    class, mean, copied source, unigram model, …) on the same split.
    """

    metrics: dict[str, float]
    conventions: dict[str, str] = field(default_factory=dict)  # by metric: how it is computed
    tables: dict[str, Any] = field(default_factory=dict)  # confusion matrix, per-class scores, …
    floors: dict[str, dict[str, float]] = field(default_factory=dict)  # baseline → metrics

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    def __iter__(self) -> Any:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        found: dict[str, Any] = {**self.metrics, **self.tables, "conventions": self.conventions}
        return {**found, "floors": self.floors} if self.floors else found


class ComparisonMetric(NamedTuple):
    """The metric by which models of a task are compared."""

    name: str
    higher_is_better: bool
    factor: float = 1.0  # 100 for shares that are shown in percent

    @property
    def label(self) -> str:
        """Axis label."""
        return f"{self.name}, %" if self.factor == 100 else self.name
