"""Heat maps of one prediction: gates and states, influence of the context, counts."""

from collections.abc import Mapping
from typing import Any

from saccade.errors import ConfigError
from saccade.inspection.attention_map import attention_title
from saccade.inspection.figures import HeatMap, HeatMapGrid
from saccade.plots.figure_json import figure_to_json
from saccade.runs.picture import Picture
from saccade.tasks.base import HeatMapKey


class HeatMaps(Picture):
    """Heat maps of one prediction, by kind and layer."""

    def __init__(self, source: str, answer: str, maps: Mapping[HeatMapKey, HeatMap], model: str):
        self.source, self.answer, self.model = source, answer, model
        self.maps = dict(maps)  # layers are counted from 1

    def __repr__(self) -> str:
        names = ", ".join(f"{kind} {layer}" for kind, layer in self.maps)
        return f"HeatMaps({self.source!r} → {self.answer!r}: {names})"

    def figure(self) -> HeatMapGrid:
        """Return the data of the picture."""
        title = attention_title(self.model, self.source, self.answer)
        return HeatMapGrid(list(self.maps.values()), title)

    def terminal(self, width: int = 80, colour: bool = True) -> str:
        """Return the first map as text for a terminal."""
        from saccade.plots.figure_text import render_heat_map

        return render_heat_map(next(iter(self.maps.values())), width, colour)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        maps = figure_to_json(self.figure())["maps"]
        keyed = [
            {"kind": kind, "layer": layer, **map}
            for (kind, layer), map in zip(self.maps, maps, strict=True)
        ]
        return {"source": self.source, "answer": self.answer, "maps": keyed}


def select_heat_maps(
    maps: Mapping[HeatMapKey, HeatMap], kind: str | None, layer: int | None
) -> dict[HeatMapKey, HeatMap]:
    """Return the maps of a kind and a layer; None: of all."""
    chosen = {
        key: map for key, map in maps.items() if kind in (None, key[0]) and layer in (None, key[1])
    }
    if not chosen:
        known = ", ".join(f"{name} (layer {number})" for name, number in maps)
        raise ConfigError(f"There is no map of kind {kind} and layer {layer}. There are: {known}.")
    return chosen
