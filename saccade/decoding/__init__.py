"""Which token next, given a step function."""

from saccade.decoding.coverage import covered
from saccade.decoding.exhaustive import exhaustive
from saccade.decoding.penalties import coverage_penalty, length_penalty
from saccade.decoding.rules import NO_RULES, Rules, repeats, repetition_penalty
from saccade.decoding.sampling import at_temperature, keep_top_k, keep_top_p, sample
from saccade.decoding.search import Answer, Marks, Told, beam, greedy, silent
from saccade.decoding.stepper import Stepper

__all__ = [
    "Answer",
    "Marks",
    "NO_RULES",
    "Rules",
    "Stepper",
    "Told",
    "at_temperature",
    "beam",
    "coverage_penalty",
    "covered",
    "exhaustive",
    "greedy",
    "keep_top_k",
    "keep_top_p",
    "length_penalty",
    "repeats",
    "repetition_penalty",
    "sample",
    "silent",
]
