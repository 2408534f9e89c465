"""What comes back when a model is asked; here, so that who answers without torch can say it."""

from typing import NamedTuple


class Prediction(NamedTuple):
    """An answer, and the others that the search found, best first."""

    text: str
    score: float  # log-probability over the length penalty
    log_probability: float
    finished: bool  # False: it was cut off at the longest answer
    alternatives: tuple["Prediction", ...] = ()
