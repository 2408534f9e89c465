"""Gradients in, updates out."""

from saccade.optim.adaptive import adamw, set_rate
from saccade.optim.clipping import clip_by_norm
from saccade.optim.constrained import Solution, minimise
from saccade.optim.layerwise import LAMB, LARS
from saccade.optim.schedules import DECAYS, scale

__all__ = [
    "DECAYS",
    "LAMB",
    "LARS",
    "Solution",
    "adamw",
    "clip_by_norm",
    "minimise",
    "scale",
    "set_rate",
]
