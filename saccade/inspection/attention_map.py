"""Attention maps as data: weights with the tokens of their rows and columns (torch-free)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# ends of the colour scale that are tried, so that faint maps are visible and scales are round
SCALE_LIMITS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)


class AttentionMap(NamedTuple):
    """Attention weights of one head: row t holds the weights of query t over all keys."""

    weights: np.ndarray  # (T, S), rows sum to 1, or to 0 where every key is masked
    rows: Sequence[str]  # T query tokens
    columns: Sequence[str]  # S key tokens
    title: str  # "cross attention, layer 1, head 2"
    across: str = "source (keys)"  # label of the column axis
    down: str = "target (queries)"  # label of the row axis


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


def scale_limit(weights: np.ndarray) -> float:
    """Return the end of the colour scale: the first round number that no weight exceeds."""
    return next((limit for limit in SCALE_LIMITS if weights.max() <= limit), float(weights.max()))
