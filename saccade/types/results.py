"""Results of `predict` and `evaluate`. Does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from saccade.types.html import html_table

MAX_HTML_CLASSES = 20  # classes that a notebook shows


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


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
    notes: tuple[str, ...] | None = None  # about the input: a category that training had not
    tokens: tuple[str, ...] | None = None  # words of the input, of a tagger
    tags: tuple[str, ...] | None = None  # the tag of each
    spans: tuple[dict[str, Any], ...] | None = None  # label, text, start, end and score of each
    error: str | None = None  # why there is no answer, such as an image that cannot be read

    def __repr__(self) -> str:
        fields = {**self.to_dict(), "alternatives": len(self.alternatives)}
        given = [f"{name}={value!r}" for name, value in fields.items() if value != 0]
        return f"Prediction({', '.join(given)})"

    def _repr_html_(self) -> str:
        """Return the answers, best first, as a table for a notebook."""
        ranked = [(found.text, _short(found.score)) for found in (self, *self.alternatives)]
        parts = [html_table(["prediction", "score"], ranked)]
        shares = self.probabilities or self.votes
        if shares:
            rows = sorted(shares.items(), key=lambda item: -item[1])[:MAX_HTML_CLASSES]
            name = "probability" if self.probabilities else "votes"
            parts.append(html_table(["class", name], [(c, _short(share)) for c, share in rows]))
        return "".join(parts)

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
    omitted: dict[str, str] = field(default_factory=dict)  # by metric: why it has no meaning here
    notes: tuple[str, ...] = ()  # about the data: categories that training had not

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    def __iter__(self) -> Any:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_short(value)}" for name, value in self.metrics.items())
        return f"Evaluation({values})"

    def _repr_html_(self) -> str:
        """Return the metrics next to the baselines, and the confusion matrix, for a notebook."""
        columns = ["metric", "value", *self.floors, "convention"]
        rows = [
            [
                name,
                _short(value),
                *(_short(floor.get(name)) for floor in self.floors.values()),
                self.conventions.get(name, ""),
            ]
            for name, value in self.metrics.items()
        ]
        parts = [html_table(columns, rows)]
        confusion = self.tables.get("confusion")
        if confusion and len(confusion["classes"]) <= MAX_HTML_CLASSES:
            classes = confusion["classes"]
            counts = [[name, *row] for name, row in zip(classes, confusion["counts"], strict=True)]
            parts.append(html_table(["true ↓ predicted →", *classes], counts))
        return "".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        found: dict[str, Any] = {**self.metrics, **self.tables, "conventions": self.conventions}
        more = {"floors": self.floors, "omitted": self.omitted, "notes": list(self.notes)}
        return found | {name: values for name, values in more.items() if values}


class ComparisonMetric(NamedTuple):
    """The metric by which models of a task are compared."""

    name: str
    higher_is_better: bool
    factor: float = 1.0  # 100 for shares that are given in percent
    by_seeds: bool = False  # the interquartile mean over the seeds is stated with its interval

    @property
    def label(self) -> str:
        """Axis label."""
        return f"{self.name}, %" if self.factor == 100 else self.name
