r"""Sampling from the model's distribution, with temperature, top-k and top-p truncation.

    p(v) = softmax(x / τ)_v,   truncated to the top k tokens or to the nucleus, and renormalised

Each is a function of logits `(R, V) -> (R, V)`, so that they compose in any order. A truncated
token has the logit -inf.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.decoding.constraints import NO_CONSTRAINTS, RepetitionConstraints
from saccade.decoding.greedy import Hypothesis, generate_tokens
from saccade.decoding.protocol import (
    AutoregressiveModel,
    SpecialTokens,
    TokenCallback,
    check_max_lengths,
    ignore_token,
)
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
    length_penalty: float = 1.0,
    constraints: RepetitionConstraints = NO_CONSTRAINTS,
    on_token: TokenCallback = ignore_token,
) -> list[Hypothesis]:
    """Return one sample per example, drawn token by token: temperature, then top-k, then top-p.

    Every example has its own seed and generator, one draw per token: its sample is a function of
    its seed and independent of the rest of the batch. Examples with equal seeds get the same
    random numbers, so give each its own, e.g. `seed_for(seed, "sample", line)`.

    Constraints and forbidden tokens are applied before truncation, so that k tokens are k possible
    ones. The log-probability of a sample is that before temperature and truncation: samples with
    different settings are comparable, and with `top_k=1` the result is that of greedy search.
    """
    if len(seeds) != len(max_lengths):
        raise ValueError(
            f"got {len(seeds)} seeds for {len(max_lengths)} examples; expected one seed each."
        )
    check_max_lengths(max_lengths)
    uniform = _uniform(seeds, int(max_lengths.max())).to(max_lengths.device)

    def draw(table: Tensor, examples: list[int], t: int) -> Tensor:
        logits = apply_temperature(table.double(), temperature)
        if top_k is not None:
            logits = keep_top_k(logits, top_k)
        if top_p is not None:
            logits = keep_top_p(logits, top_p)
        return inverse_transform_sample(logits.softmax(dim=-1), uniform[examples, t])

    return generate_tokens(
        model,
        memory,
        draw,
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        length_penalty=length_penalty,
        constraints=constraints,
        on_token=on_token,
    )


def _uniform(seeds: Sequence[int], steps: int) -> Float[Tensor, "B T"]:
    """Return numbers in [0, 1), a row per seed; a prefix does not depend on `steps`."""
    rows = [np.random.default_rng(seed).random(steps) for seed in seeds]
    return torch.from_numpy(np.stack(rows))


def inverse_transform_sample(
    probabilities: Float[Tensor, "R V"], uniform: Float[Tensor, " R"]
) -> Int[Tensor, " R"]:
    """Return the first token of each row whose cumulative probability exceeds its number.

    Inverse transform sampling with one number in [0, 1) per row, so that a row's token depends on
    its own number only. A token of probability 0 is never drawn.
    """
    cumulative = probabilities.cumsum(dim=-1)
    # makes the last exactly 1, above any number, whatever the rounding
    cumulative = cumulative / cumulative[:, -1:]
    return (cumulative <= uniform[:, None]).sum(dim=-1)


def apply_temperature(logits: Float[Tensor, "R V"], temperature: float) -> Float[Tensor, "R V"]:
    r"""Return (x - max x) / τ, whose softmax is that of x / τ (Ackley et al. 1985).

    τ = 1 leaves the distribution unchanged, τ → 0 concentrates it on the most probable token,
    τ → ∞ makes all tokens of nonzero probability equal. The maximum is subtracted first, since a
    small τ would overflow otherwise.
    """
    if not temperature > 0:
        raise ValueError(
            f"got a temperature of {temperature}; expected more than 0: for the most probable "
            "token at every step use greedy search."
        )
    shifted = logits - logits.max(dim=-1, keepdim=True).values
    return (shifted.double() / temperature).to(logits.dtype)


def keep_top_k(logits: Float[Tensor, "R V"], k: int) -> Float[Tensor, "R V"]:
    """Return the k largest logits, or all if there are fewer; the rest -inf (Fan et al. 2018).

    Exactly k: of equal logits the first are kept, so that k = 1 is the token of greedy search.
    """
    if k < 1:
        raise ValueError(f"got top_k {k}; expected 1 or more tokens.")
    order = logits.sort(dim=-1, descending=True, stable=True).indices
    return logits.scatter(1, order[:, k:], -torch.inf)


def keep_top_p(logits: Float[Tensor, "R V"], p: float) -> Float[Tensor, "R V"]:
    r"""Return the logits of the nucleus, the rest -inf (Holtzman et al. 2020, section 3.1).

    The smallest set V(p) of the most probable tokens with Σ_{v ∈ V(p)} P(v) ≥ p: a token is kept
    if those before it sum to less than p, so at least one is. p = 1 keeps all.
    """
    if not 0 < p <= 1:
        raise ValueError(
            f"got top_p {p}; expected a probability above 0 and at most 1, which keeps all tokens."
        )
    if p == 1:  # rounding would remove the last ones
        return logits
    ordered = logits.double().softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    before = ordered.values.cumsum(dim=-1) - ordered.values
    cut = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, ordered.indices, before >= p)
    return logits.masked_fill(cut, -torch.inf)
