"""The attribution of one prediction: as a picture, in a terminal, as JSON."""

from typing import Any

from saccade.inspection.attribution import Attribution
from saccade.plots.figure_json import figure_to_json
from saccade.runs.picture import Picture


class Explanation(Picture):
    """Which parts of an input led to a prediction."""

    def __init__(self, source: str, attribution: Attribution):
        self.source, self.attribution = source, attribution

    def __repr__(self) -> str:
        found = self.attribution
        return f"Explanation({found.output!r}, method={found.method!r}, {len(found.parts)} parts)"

    def figure(self) -> Attribution:
        """Return the data of the picture."""
        return self.attribution

    def terminal(self, width: int = 80, colour: bool = True) -> str:
        """Return the attribution as text for a terminal."""
        from saccade.plots.attribution_text import render_attribution

        return render_attribution(self.attribution, width, colour)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return figure_to_json(self.attribution)
