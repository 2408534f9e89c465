"""Exhaustive search over all sequences: the reference of the other searches, for small sizes."""

from typing import Any

import torch
from torch import Tensor

from saccade.decoding.constraints import NO_CONSTRAINTS, RepetitionConstraints
from saccade.decoding.greedy import Hypothesis, make_hypothesis, next_token_log_probabilities
from saccade.decoding.protocol import (
    AutoregressiveModel,
    SpecialTokens,
    check_max_lengths,
    check_model,
)
from saccade.types.shapes import DecoderState, Lengths, select_rows

MAX_EXHAUSTIVE_SEQUENCES = 1_000_000  # per example


@torch.no_grad()
def exhaustive_search(
    model: AutoregressiveModel,
    memory: Any,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    n_best: int = 1,
    length_penalty: float = 1.0,
    constraints: RepetitionConstraints = NO_CONSTRAINTS,
) -> list[list[Hypothesis]]:
    r"""Return the `n_best` of all sequences of each example, best first; fewer if there are fewer.

    \[ \arg\max_{y : |y| \le L} \log P(y \mid x) / lp(|y|) \]

    over all sequences that end within the maximum length L or fill it, scored as in `beam_search`.
    A beam as wide as their number (and `n_best` as large, so that it does not stop early) finds
    the same. The cost is of the order of V^L; more than a million sequences are refused. Examples
    are searched one after another.
    """
    if n_best < 1 or length_penalty < 0:
        raise ValueError(
            f"got n_best {n_best} and length_penalty {length_penalty}; expected n_best of 1 or "
            "more and a penalty of 0 or more."
        )
    check_model(model)
    check_max_lengths(max_lengths)
    start = model.init_state(memory)
    found = []
    for row, limit in enumerate(max_lengths.tolist()):
        state = select_rows(start, torch.tensor([row], device=max_lengths.device))
        hypotheses = _enumerate(
            model, state, max_lengths, limit, special_tokens, constraints, n_best, length_penalty
        )
        found.append(sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:n_best])
    return found


def _enumerate(
    model: AutoregressiveModel,
    state: DecoderState,
    max_lengths: Tensor,
    limit: int,
    special_tokens: SpecialTokens,
    constraints: RepetitionConstraints,
    n_best: int,
    alpha: float,
) -> list[Hypothesis]:
    """Return the best hypotheses of each length; the rows are all open sequences of a length."""
    generated = max_lengths.new_empty(1, 0)
    newest = max_lengths.new_full((1, 1), special_tokens.bos)
    total = torch.zeros(1, dtype=torch.float64, device=max_lengths.device)
    forbidden = torch.tensor(special_tokens.forbidden, device=max_lengths.device, dtype=torch.long)
    hypotheses = []
    for t in range(limit):
        logits, state = model.step(newest, state)
        tokens = _candidate_tokens(logits.shape[-1], limit, special_tokens).to(max_lengths.device)
        # the closure is called before `generated` is assigned again
        found = next_token_log_probabilities(logits, lambda: generated, forbidden, constraints)  # noqa: B023
        table = total[:, None] + found.double()
        hypotheses += _best(generated, table[:, special_tokens.eos], True, n_best, alpha)
        parent = torch.arange(len(generated), device=max_lengths.device).repeat_interleave(
            len(tokens)
        )
        newest = tokens.repeat(len(generated))[:, None]
        generated = torch.cat([generated[parent], newest], dim=1)
        total = table[:, tokens].flatten()
        if t + 1 == limit or not len(tokens):
            break
        state = DecoderState(state.memory, select_rows(state.cache, parent))
    return hypotheses + _best(generated, total, False, n_best, alpha)


def _candidate_tokens(vocab_size: int, limit: int, special_tokens: SpecialTokens) -> Tensor:
    """Return all tokens that a sequence may contain."""
    tokens = [
        v
        for v in range(vocab_size)
        if v != special_tokens.eos and v not in special_tokens.forbidden
    ]
    if len(tokens) ** limit > MAX_EXHAUSTIVE_SEQUENCES:
        raise ValueError(
            f"got {len(tokens) ** limit:.1e} sequences of {limit} out of {len(tokens)} tokens; "
            f"expected at most {MAX_EXHAUSTIVE_SEQUENCES:,}: lower the maximum length, or use "
            "beam_search."
        )
    return torch.tensor(tokens, dtype=torch.long)


def _best(
    generated: Tensor, total: Tensor, finished: bool, n_best: int, alpha: float
) -> list[Hypothesis]:
    """Return the best of sequences of equal length, without those of probability 0."""
    best = total.topk(min(n_best, len(total)))
    rows = generated[best.indices].tolist()
    return [
        make_hypothesis(ids, value, finished, alpha)
        for ids, value in zip(rows, best.values.tolist(), strict=True)
        if value != -torch.inf
    ]
