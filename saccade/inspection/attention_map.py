"""Attention maps as data: weights with the tokens of their rows and columns (torch-free)."""

import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

# ends of the colour scale that are tried, so that faint maps are visible and scales are round
SCALE_LIMITS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)

MAX_TITLE_TEXT = 90  # characters of the input and of the answer in a title
MIN_SCALED_KEYS = 4  # keys of a row that the colour scale is fitted to


class AttentionMap(NamedTuple):
    """Attention weights of one head: row t holds the weights of query t over all keys."""

    weights: np.ndarray  # (T, S), rows sum to 1, or to 0 where every key is masked
    rows: Sequence[str]  # T query tokens
    columns: Sequence[str]  # S key tokens
    title: str  # "cross attention, layer 1, head 2"
    across: str = "source (keys)"  # label of the column axis
    down: str = "target (queries)"  # label of the row axis
    anchor: Literal["first", "last"] = "first"  # the tokens that a picture keeps of a large map
    lead: int = 0  # first keys (a prompt) that a picture keeps too, with the anchor "last"
    rest: int | None = None  # the column that has the summed weights of keys that are left out

    @property
    def own_weights(self) -> np.ndarray:
        """Weights of single keys: without the column of those that are left out."""
        return self.weights if self.rest is None else np.delete(self.weights, self.rest, axis=1)


def attention_title(model: str, source: str, answer: str) -> str:
    """Return model, input and answer in one line, as the heading of a picture; texts are cut.

    Without an answer, it is model and input.
    """
    title = f"{model}: {_title_text(source)}"
    return f"{title} → {_title_text(answer)}" if answer else title


def _title_text(text: str) -> str:
    line = " ".join(text.split())
    line = line if len(line) <= MAX_TITLE_TEXT else f"{line[: MAX_TITLE_TEXT - 1]}…"
    is_mixed = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in line)
    return f"\u2068{line}\u2069" if is_mixed else line  # isolated: its neighbours keep their order


def check_map(map: AttentionMap) -> AttentionMap:
    """Return the map; raise `ValueError` if shape and tokens disagree or a weight is invalid."""
    shape, expected = np.shape(map.weights), (len(map.rows), len(map.columns))
    if shape != expected:
        raise ValueError(
            f"{map.title}: got weights of shape {shape} for {expected[0]} rows and {expected[1]} "
            f"columns; give weights of shape {expected}."
        )
    if 0 in expected:
        raise ValueError(
            f"{map.title}: got an empty map of shape {expected}; expected at least one row and one "
            "column."
        )
    if not np.isfinite(map.weights).all() or np.min(map.weights) < 0:
        raise ValueError(
            f"{map.title}: got weights that are negative or not finite; expected weights between 0 "
            "and 1. Look for a NaN in the model."
        )
    return map


def crop_map(map: AttentionMap, max_rows: int, max_columns: int) -> AttentionMap:
    """Return the first or last tokens of a map that is too large to be read.

    The weights of the keys that are left out are summed in one more column, so that rows still sum
    to 1; the labels of the axes state how many tokens are kept.
    """
    weights, rows, columns = map.weights, list(map.rows), list(map.columns)
    across, down, is_last = map.across, map.down, map.anchor == "last"
    rest_column = map.rest
    if len(rows) > max_rows:
        kept = slice(-max_rows, None) if is_last else slice(max_rows)
        down += f", {map.anchor} {max_rows} of {len(rows)}"
        weights, rows = weights[kept], rows[kept]
    if len(columns) > max_columns:
        kept_keys = max(max_columns - 1, 1)
        lead = min(map.lead, kept_keys // 2) if is_last else kept_keys
        tail = kept_keys - lead if is_last else 0
        end = len(columns) - tail
        which = f"first {lead} and last {tail}" if lead and tail else f"{map.anchor} {kept_keys}"
        across += f", {which} of {len(columns)} (grey: the others)"
        summed = weights[:, lead:end].sum(1, keepdims=True)
        weights = np.hstack([weights[:, :lead], summed, weights[:, end:]])
        columns = [*columns[:lead], f"…+{end - lead}", *columns[end:]]
        rest_column = lead
    return map._replace(
        weights=weights, rows=rows, columns=columns, across=across, down=down, rest=rest_column
    )


def map_limit(map: AttentionMap) -> float:
    """Return the end of the colour scale of a map.

    Rows with few keys, such as the first ones of a causal map, have large weights in any model;
    they may exceed the scale, so that the others are visible.
    """
    weights = map.own_weights
    several = weights[(weights > 0).sum(1) >= MIN_SCALED_KEYS]
    return scale_limit(several if len(several) else weights)


def scale_limit(weights: np.ndarray) -> float:
    """Return the end of the colour scale: the first round number that no weight exceeds."""
    largest = float(weights.max(initial=0.0))
    return next((limit for limit in SCALE_LIMITS if largest <= limit), largest)
