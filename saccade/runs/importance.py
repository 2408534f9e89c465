"""The importance of a table's columns: as a picture, as JSON."""

from typing import Any

from saccade.inspection.figures import FeatureImportance
from saccade.runs.picture import Picture


class ColumnImportance(Picture):
    """Importance of each column of a table: the loss of score if its values are shuffled."""

    def __init__(self, importance: FeatureImportance):
        self.importance = importance

    def __repr__(self) -> str:
        found = self.importance
        means = found.drops.mean(1)
        listed = ", ".join(f"{found.names[row]} {means[row]:.3g}" for row in found.order())
        return f"ColumnImportance({found.metric}: {listed})"

    def figure(self) -> FeatureImportance:
        """Return the data of the picture."""
        return self.importance

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; the most important column first."""
        found = self.importance
        means = found.drops.mean(1).round(12) + 0.0
        columns = [
            {
                "column": found.names[row],
                "mean": float(means[row]),
                "each": found.drops[row].tolist(),
            }
            for row in found.order()
        ]
        return {
            "metric": found.metric,
            "score": found.score,
            "rows": found.rows,
            "importance": columns,
        }
