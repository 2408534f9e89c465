"""The attention maps of one prediction: selection by kind, layer and head, and saving."""

import sys
from collections.abc import Mapping
from importlib import import_module

from saccade.errors import ConfigError
from saccade.inspection.attention_map import AttentionMap, attention_title, crop_map
from saccade.inspection.figures import AttentionGrid
from saccade.runs.picture import Picture
from saccade.tasks.base import AttentionKey

MAX_TERMINAL_ROWS, MAX_TERMINAL_COLUMNS = 40, 60  # tokens of a map in a terminal


class AttentionMaps(Picture):
    """Attention maps of one prediction, by (kind, layer, head)."""

    def __init__(
        self,
        source: str,
        answer: str,
        maps: Mapping[AttentionKey, AttentionMap],
        model: str,
    ):
        self.source, self.answer, self.model = source, answer, model
        self.maps = dict(maps)  # layer and head are counted from 1

    @property
    def title(self) -> str:
        """Model, input and answer in one line, shortened."""
        return attention_title(self.model, self.source, self.answer)

    def figure(self) -> AttentionGrid:
        """Return the data of the picture."""
        return AttentionGrid(list(self.maps.values()), self.title)

    def __repr__(self) -> str:
        kinds = ", ".join(_available(self.maps))
        return f"AttentionMaps({self.source!r} → {self.answer!r}: {kinds})"

    def show(self) -> None:
        """Show the maps: as a picture in a notebook, as text elsewhere."""
        if "ipykernel" in sys.modules:
            import_module("IPython.display").display(self)
        else:
            print(self.terminal(colour=sys.stdout.isatty()))

    def terminal(self, width: int = 80, colour: bool = True) -> str:
        """Return the first map as text for a terminal; of a large one, a part."""
        from saccade.plots.terminal import render_terminal

        first = next(iter(self.maps.values()))
        return render_terminal(
            crop_map(first, MAX_TERMINAL_ROWS, MAX_TERMINAL_COLUMNS), width, colour
        )


def select_maps(
    maps: Mapping[AttentionKey, AttentionMap],
    kind: str | None,
    layer: int | None,
    head: int | None,
) -> dict[AttentionKey, AttentionMap]:
    """Return the maps of a kind, layer and head; with no kind, cross-attention if there is any."""
    if kind is None:
        kind = "cross" if any(key[0] == "cross" for key in maps) else next(iter(maps))[0]
    chosen = {
        key: map_
        for key, map_ in maps.items()
        if key[0] == kind and layer in (None, key[1]) and head in (None, key[2])
    }
    if not chosen:
        given = [f"{what} {n}" for what, n in (("layer", layer), ("head", head)) if n is not None]
        which = f" with {' and '.join(given)}" if given else ""
        raise ConfigError(
            f"There is no {kind} attention{which}. There are: {', '.join(_available(maps))}."
        )
    return chosen


def _available(maps: Mapping[AttentionKey, AttentionMap]) -> list[str]:
    kinds = sorted({kind for kind, _, _ in maps})
    found = []
    for kind in kinds:
        layers = max(layer for k, layer, _ in maps if k == kind)
        heads = max(head for k, _, head in maps if k == kind)
        found.append(f"{kind} (layers 1–{layers}, heads 1–{heads})")
    return found
