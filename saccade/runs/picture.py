"""Results that have a picture: saved to a file, or shown in a notebook."""

from abc import ABC, abstractmethod
from pathlib import Path
from tempfile import TemporaryDirectory

from saccade.errors import ConfigError
from saccade.inspection.episode import EpisodeRecord
from saccade.inspection.figures import Figure
from saccade.plots.render import save_figure


class Picture(ABC):
    """A result with a figure, which is drawn when it is saved or shown."""

    @abstractmethod
    def figure(self) -> Figure | EpisodeRecord:
        """Return the data of the picture."""

    def save(self, path: str | Path) -> list[str]:
        """Save the picture (.png, .svg or .pdf); return warnings for the user."""
        try:
            return save_figure(self.figure(), Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def _repr_png_(self) -> bytes:
        """Return the picture for a notebook."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "figure.png"
            self.save(path)
            return path.read_bytes()
