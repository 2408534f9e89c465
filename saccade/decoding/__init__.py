"""Which token next, given a step function."""

from saccade.decoding.constraints import (
    NO_CONSTRAINTS,
    RepetitionConstraints,
    repeated_ngrams,
    repetition_penalty,
)
from saccade.decoding.exhaustive import exhaustive_search
from saccade.decoding.generate import (
    Hypothesis,
    SpecialTokens,
    TokenCallback,
    beam_search,
    greedy_search,
    ignore_token,
)
from saccade.decoding.penalties import coverage_penalty, length_penalty
from saccade.decoding.protocol import AutoregressiveModel
from saccade.decoding.rerank import rerank_by_coverage
from saccade.decoding.sampling import apply_temperature, keep_top_k, keep_top_p, sample

__all__ = [
    "AutoregressiveModel",
    "Hypothesis",
    "NO_CONSTRAINTS",
    "RepetitionConstraints",
    "SpecialTokens",
    "TokenCallback",
    "apply_temperature",
    "beam_search",
    "coverage_penalty",
    "exhaustive_search",
    "greedy_search",
    "ignore_token",
    "keep_top_k",
    "keep_top_p",
    "length_penalty",
    "repeated_ngrams",
    "repetition_penalty",
    "rerank_by_coverage",
    "sample",
]
