"""Maps of one image, and grids of filters or feature maps: as pictures, in a terminal, as JSON."""

from typing import Any

from saccade.inspection.image_figures import EmbeddingMap, ImageGrid, ImageMaps
from saccade.plots.figure_json import figure_to_json
from saccade.runs.picture import Picture


class ImageExplanation(Picture):
    """Which regions of an image led to its class, or to each word of its caption."""

    def __init__(self, maps: ImageMaps):
        self.maps = maps

    def __repr__(self) -> str:
        names = ", ".join(part.name for part in self.maps.maps)
        return f"ImageExplanation({self.maps.output!r}, {names})"

    def figure(self) -> ImageMaps:
        """Return the data of the picture."""
        return self.maps

    def terminal(self, width: int = 80, colour: bool = True) -> str:
        """Return the maps as shades for a terminal."""
        from saccade.plots.images import render_image_maps

        return render_image_maps(self.maps.maps, width)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return figure_to_json(self.maps)


class ImageTiles(Picture):
    """Filters of a convolution, or feature maps of a layer."""

    def __init__(self, grid: ImageGrid):
        self.grid = grid

    def __repr__(self) -> str:
        return f"ImageTiles({self.grid.title!r})"

    def figure(self) -> ImageGrid:
        """Return the data of the picture."""
        return self.grid

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return figure_to_json(self.grid)


class ImageEmbedding(Picture):
    """Features of the images of a split in two dimensions."""

    def __init__(self, map: EmbeddingMap):
        self.map = map

    def __repr__(self) -> str:
        return f"ImageEmbedding({len(self.map.names):,} images)"

    def figure(self) -> EmbeddingMap:
        """Return the data of the picture."""
        return self.map

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, without the pixels."""
        found = figure_to_json(self.map)
        del found["thumbnails"]
        return found
