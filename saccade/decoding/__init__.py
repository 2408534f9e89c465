"""Decoding: `generate`, and the searches that it selects, for any model with a step function."""

from saccade.decoding.beam import beam_search
from saccade.decoding.config import (
    MAX_SEARCH_ROWS,
    DecodingConfig,
    GenerationConfig,
    check_decoding,
    parse_decoding,
)
from saccade.decoding.constraints import (
    NO_CONSTRAINTS,
    RepetitionConstraints,
    repeated_ngrams,
    repetition_penalty,
)
from saccade.decoding.continuations import score_continuations
from saccade.decoding.exhaustive import exhaustive_search
from saccade.decoding.generate import PromptedDecoder, UncachedDecoder, generate, run_decoding
from saccade.decoding.greedy import Hypothesis, greedy_search, length_penalty
from saccade.decoding.protocol import (
    AutoregressiveModel,
    Seq2SeqModel,
    SpecialTokens,
    TokenCallback,
    ignore_token,
)
from saccade.decoding.rerank import coverage_penalty, rerank_by_coverage
from saccade.decoding.sampling import apply_temperature, keep_top_k, keep_top_p, sample

__all__ = [
    "AutoregressiveModel",
    "DecodingConfig",
    "GenerationConfig",
    "Hypothesis",
    "MAX_SEARCH_ROWS",
    "NO_CONSTRAINTS",
    "PromptedDecoder",
    "RepetitionConstraints",
    "Seq2SeqModel",
    "SpecialTokens",
    "TokenCallback",
    "UncachedDecoder",
    "apply_temperature",
    "beam_search",
    "check_decoding",
    "coverage_penalty",
    "exhaustive_search",
    "generate",
    "greedy_search",
    "ignore_token",
    "keep_top_k",
    "keep_top_p",
    "length_penalty",
    "parse_decoding",
    "repeated_ngrams",
    "repetition_penalty",
    "rerank_by_coverage",
    "run_decoding",
    "sample",
    "score_continuations",
]
