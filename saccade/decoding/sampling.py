r"""Tokens drawn by chance, from the model's distribution or from its likelier part.

    p(v) = softmax(x / τ)_v,   cut to the k likeliest or to the nucleus, and made to sum to one

Each change is a function of logits `(R, V) -> (R, V)`: they compose, in whatever order they are
called. A token that was cut has the logit -inf.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.decoding.constraints import NO_CONSTRAINTS, RepetitionConstraints
from saccade.decoding.generate import (
    Hypothesis,
    SpecialTokens,
    TokenCallback,
    check_max_lengths,
    generate_tokens,
    ignore_token,
)
from saccade.decoding.protocol import AutoregressiveModel
from saccade.types.shapes import Lengths


def sample(
    model: AutoregressiveModel,
    memory: Any,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    alpha: float = 1.0,
    constraints: RepetitionConstraints = NO_CONSTRAINTS,
    on_token: TokenCallback = ignore_token,
) -> list[Hypothesis]:
    """An answer to each sentence, drawn token by token; first cooled, then cut to k, then to p.

    Every sentence has a seed and a generator of its own, one draw a token: its answer is a
    function of its seed and of nothing else in the batch, in whatever order. Two sentences with
    one seed share their luck, so give each its own: `seed_for(seed, "sample", line)` makes them.

    `rules` and the marks come before the cuts, so that k tokens are k that may be written. The
    log-probability of an answer is the one that the search gives it, before temperature and
    cuts: answers drawn in different ways can be compared, and with `top_k=1` they are greedy's.
    """
    if len(seeds) != len(max_lengths):
        raise ValueError(
            f"got {len(seeds)} seeds and {len(max_lengths)} sentences; give one seed for each sentence."
        )
    check_max_lengths(max_lengths)
    uniform = _uniform(seeds, int(max_lengths.max())).to(max_lengths.device)

    def draw(table: Tensor, sentences: list[int], t: int) -> Tensor:
        logits = apply_temperature(table.double(), temperature)
        if top_k is not None:
            logits = keep_top_k(logits, top_k)
        if top_p is not None:
            logits = keep_top_p(logits, top_p)
        return inverse_transform_sample(logits.softmax(dim=-1), uniform[sentences, t])

    common: dict[str, Any] = {
        "special_tokens": special_tokens,
        "max_lengths": max_lengths,
        "alpha": alpha,
        "constraints": constraints,
    }
    return generate_tokens(model, memory, draw, on_token=on_token, **common)


def _uniform(seeds: Sequence[int], steps: int) -> Float[Tensor, "B T"]:
    """Numbers from 0 up to 1, a row from each seed; more steps leave the first as they are."""
    rows = [np.random.default_rng(seed).random(steps) for seed in seeds]
    return torch.from_numpy(np.stack(rows))


def inverse_transform_sample(
    probabilities: Float[Tensor, "R V"], uniform: Float[Tensor, " R"]
) -> Int[Tensor, " R"]:
    """The first token whose summed probability, with those before it, is above the luck.

    Inverse transform sampling: one number in [0, 1) a row, so that a row's token depends on its
    own number only. A token without chance is never drawn.
    """
    summed = probabilities.cumsum(dim=-1)
    # the last is then exactly 1, and above any luck, whatever the rounding
    summed = summed / summed[:, -1:]
    return (summed <= uniform[:, None]).sum(dim=-1)


def apply_temperature(logits: Float[Tensor, "R V"], temperature: float) -> Float[Tensor, "R V"]:
    r"""(x - max x) / τ, whose softmax is that of x / τ (Ackley et al. 1985).

    τ = 1 leaves the distribution as it is, τ → 0 leaves the likeliest token alone, τ → ∞ makes
    all that have a chance equal. The largest is taken off first: a small τ would else overflow.
    """
    if not temperature > 0:
        raise ValueError(
            f"a temperature of {temperature} was asked for; wanted more than 0: for the "
            "likeliest token each time use greedy search."
        )
    below = logits - logits.max(dim=-1, keepdim=True).values
    return (below.double() / temperature).to(logits.dtype)


def keep_top_k(logits: Float[Tensor, "R V"], k: int) -> Float[Tensor, "R V"]:
    """The k largest, or all if there are fewer; the rest -inf (Fan et al. 2018).

    Exactly k: of equal ones the first stay, so that k = 1 is the token that greedy search takes.
    """
    if k < 1:
        raise ValueError(f"the {k} likeliest tokens were asked for; wanted 1 or more.")
    order = logits.sort(dim=-1, descending=True, stable=True).indices
    return logits.scatter(1, order[:, k:], -torch.inf)


def keep_top_p(logits: Float[Tensor, "R V"], p: float) -> Float[Tensor, "R V"]:
    r"""The nucleus, the rest -inf (Holtzman et al. 2020, section 3.1).

    The smallest set V(p) of the likeliest tokens with Σ_{v ∈ V(p)} P(v) ≥ p: a token stays if
    those before it sum to less than p, so at least one does. p = 1 leaves all.
    """
    if not 0 < p <= 1:
        raise ValueError(
            f"the likeliest tokens up to a probability of {p} were asked for; wanted more than 0 "
            "and at most 1, which leaves all."
        )
    if p == 1:  # rounding would take the last ones away
        return logits
    ordered = logits.double().softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    before = ordered.values.cumsum(dim=-1) - ordered.values
    cut = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, ordered.indices, before >= p)
    return logits.masked_fill(cut, -torch.inf)
