"""Which token next, given a step function."""

from saccade.decoding.penalties import length_penalty
from saccade.decoding.search import Answer, Marks, beam, greedy
from saccade.decoding.stepper import Stepper

__all__ = [
    "Answer",
    "Marks",
    "Stepper",
    "beam",
    "greedy",
    "length_penalty",
]
