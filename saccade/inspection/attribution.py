r"""Attributions as data: the contribution of each part of one input to one output (torch-free).

A part is a token of a text or a column of a row. Its score is positive if it raises the value of
the output and negative if it lowers it. For a complete method the scores add up:

    Σ_i score_i = value - base

with `value` that of the input and `base` that of an input without any part (a bias, or a baseline
input). Contributions of a linear model are complete exactly, integrated gradients up to the error
of the numerical integral; gradient × input, occlusion and attention weights are not complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saccade.types.arrays import FloatArray, IntArray

# method → its scores in words
ATTRIBUTION_METHODS = {
    "contributions": "terms of a linear model, exact",
    "occlusion": "change of the value when a part is left out",
    "gradient": "gradient × input",
    "integrated_gradients": "gradients along the path from the baseline (Sundararajan et al. 2017)",
    "attention": "attention weights, which are not signed",
}
COMPLETE_METHODS = ("contributions", "integrated_gradients")


@dataclass(frozen=True, eq=False)
class Attribution:
    """Signed scores of the parts of one input, for one output of a model.

    Parts are tokens in the order of the text, with their positions in it, or columns, with their
    cells.
    """

    parts: Sequence[str]  # tokens, or names of columns
    scores: FloatArray  # (parts,)
    output: str  # the label or column that is explained
    method: str  # a key of ATTRIBUTION_METHODS
    value: float  # of the output for this input
    base: float = 0.0  # of the output for an input without parts
    unit: str = "log-odds"  # of the value, the base and the scores
    against: str = ""  # the value is the output's logit minus that of this label
    probability: float | None = None  # of the output
    text: str = ""  # the raw input, of tokens
    spans: Sequence[tuple[int, int]] = ()  # token i is text[start:end]
    cells: Sequence[str] = ()  # values of the columns
    baseline: str = "an empty text"  # the input without any part

    @property
    def is_complete(self) -> bool:
        """True if the scores add up to `value - base`."""
        return self.method in COMPLETE_METHODS

    @property
    def residual(self) -> float:
        """The part of `value - base` that the scores do not explain."""
        return self.value - self.base - float(np.sum(self.scores))

    def strongest(self, limit: int | None = None) -> IntArray:
        """Return the indices of the parts, largest absolute score first."""
        return np.argsort(-np.abs(self.scores), kind="stable")[:limit]


def check_attribution(attribution: Attribution) -> Attribution:
    """Return the attribution; raise `ValueError` if its fields disagree or a score is invalid."""
    count = len(attribution.parts)
    if np.shape(attribution.scores) != (count,) or not count:
        raise ValueError(
            f"got scores of shape {np.shape(attribution.scores)} for {count} parts; expected one "
            "score for each of one or more parts."
        )
    for name in ("spans", "cells"):
        given = len(getattr(attribution, name))
        if given not in (0, count):
            raise ValueError(f"got {given} {name} for {count} parts; expected {count}, or none.")
    if not np.isfinite(attribution.scores).all():
        raise ValueError("got scores that are not finite; look for a NaN in the model.")
    if attribution.method not in ATTRIBUTION_METHODS:
        known = ", ".join(ATTRIBUTION_METHODS)
        raise ValueError(f"got the method {attribution.method!r}; expected one of {known}.")
    return attribution
