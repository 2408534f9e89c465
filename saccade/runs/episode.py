"""One episode of a run of the task control: as a picture, in a terminal, as JSON."""

from typing import Any

from saccade.inspection.episode import EpisodeRecord
from saccade.runs.picture import Picture


class Episode(Picture):
    """The steps of an episode, with the values of the actions."""

    def __init__(self, record: EpisodeRecord):
        self.record = record

    def __repr__(self) -> str:
        found = self.record
        return f"Episode({found.world!r}, return={found.total:.4g}, length={len(found.rewards)})"

    def figure(self) -> EpisodeRecord:
        """Return the data of the picture; an animation if it is saved as .gif."""
        return self.record

    def terminal(self, width: int = 80) -> str:
        """Return the episode as text, a line for each step."""
        from saccade.plots.episode import render_episode

        return render_episode(self.record, width)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return self.record.to_dict()
