"""The attribution of one prediction: as a picture, in a terminal, as JSON."""

from pathlib import Path
from typing import Any

from saccade.errors import ConfigError
from saccade.inspection.attribution import Attribution
from saccade.plots.figure_json import figure_to_json
from saccade.plots.render import save_figure


class Explanation:
    """Which parts of an input led to a prediction."""

    def __init__(self, source: str, attribution: Attribution):
        self.source, self.attribution = source, attribution

    def __repr__(self) -> str:
        found = self.attribution
        return f"Explanation({found.output!r}, method={found.method!r}, {len(found.parts)} parts)"

    def save(self, path: str | Path) -> list[str]:
        """Save the attribution as a picture (.png, .svg or .pdf); return warnings for the user."""
        try:
            return save_figure(self.attribution, Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def terminal(self, width: int = 80, colour: bool = True) -> str:
        """Return the attribution as text for a terminal."""
        from saccade.plots.attribution_text import render_attribution

        return render_attribution(self.attribution, width, colour)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return figure_to_json(self.attribution)
