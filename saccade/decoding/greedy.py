"""Greedy search: the most probable token at every step."""

from typing import Any

from torch import Tensor

from saccade.decoding.constraints import NO_CONSTRAINTS, RepetitionConstraints
from saccade.decoding.protocol import (
    AutoregressiveModel,
    SpecialTokens,
    TokenCallback,
    ignore_token,
)
from saccade.decoding.token_loop import Hypothesis, blockwise_topk, generate_tokens
from saccade.types.shapes import Lengths


def greedy_search(
    model: AutoregressiveModel,
    memory: Any,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    length_penalty: float = 1.0,
    constraints: RepetitionConstraints = NO_CONSTRAINTS,
    on_token: TokenCallback = ignore_token,
) -> list[Hypothesis]:
    """Return the hypothesis of each example that takes the most probable token at every step.

    Args:
        model: has `init_state(memory)` and `step(ids, state)`.
        memory: the input of `init_state`, one row per example (an encoded source).
        max_lengths: maximum number of tokens of each example, eos included.
        length_penalty: α of `penalties.length_penalty`; changes scores, not tokens.
        on_token: called with the example and its ids after every token.
    """

    def argmax(table: Tensor, examples: list[int], t: int) -> Tensor:
        return blockwise_topk(table, 1)[1][:, 0]

    return generate_tokens(
        model,
        memory,
        argmax,
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        length_penalty=length_penalty,
        constraints=constraints,
        on_token=on_token,
    )
