"""Every sequence there is: what the other searches are measured by, for small vocabularies."""

from typing import Any

import torch
from torch import Tensor

from saccade.decoding.constraints import NO_CONSTRAINTS, RepetitionConstraints
from saccade.decoding.generate import (
    Hypothesis,
    SpecialTokens,
    check_max_lengths,
    make_hypothesis,
    next_token_log_probabilities,
)
from saccade.decoding.protocol import AutoregressiveModel
from saccade.types.shapes import DecoderState, Lengths, select_rows

MAX_EXHAUSTIVE_SEQUENCES = 1_000_000  # sequences of one sentence


@torch.no_grad()
def exhaustive_search(
    model: AutoregressiveModel,
    memory: Any,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    n_best: int = 1,
    alpha: float = 1.0,
    constraints: RepetitionConstraints = NO_CONSTRAINTS,
) -> list[list[Hypothesis]]:
    r"""The `n_best` of all answers to each sentence, best first; fewer if there are fewer.

    \[ \arg\max_{y : |y| \le L} \log P(y \mid x) / lp(|y|) \]

    over all that ends within the limit L or fills it, scored as `beam` scores. A beam as wide as
    all of them (and `n_best` as many, so that it does not stop early) finds the same. The cost
    is of the order of V^L; more than a million sequences are refused. One sentence is read after
    the other.
    """
    if n_best < 1 or alpha < 0:
        raise ValueError(
            f"the {n_best} best with length penalty {alpha} were asked for; wanted n_best of 1 or "
            "more and a penalty of 0 or more."
        )
    check_max_lengths(max_lengths)
    start = model.init_state(memory)
    found = []
    for row, limit in enumerate(max_lengths.tolist()):
        state = select_rows(start, torch.tensor([row], device=max_lengths.device))
        answers = _enumerate(
            model, state, max_lengths, limit, special_tokens, constraints, n_best, alpha
        )
        found.append(sorted(answers, key=lambda answer: -answer.score)[:n_best])
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
    """The best of each length; the G rows are all that was written up to now and has not ended."""
    generated = max_lengths.new_empty(1, 0)
    newest = max_lengths.new_full((1, 1), special_tokens.bos)
    total = torch.zeros(1, dtype=torch.float64, device=max_lengths.device)
    forbidden = torch.tensor(special_tokens.forbidden, device=max_lengths.device, dtype=torch.long)
    answers = []
    for t in range(limit):
        logits, state = model.step(newest, state)
        words = _candidate_tokens(logits.shape[-1], limit, special_tokens).to(max_lengths.device)
        # the past is looked at while the function runs, and not after
        found = next_token_log_probabilities(logits, lambda: generated, forbidden, constraints)  # noqa: B023
        table = total[:, None] + found.double()
        answers += _best(generated, table[:, special_tokens.eos], True, n_best, alpha)
        origin = torch.arange(len(generated), device=max_lengths.device).repeat_interleave(
            len(words)
        )
        newest = words.repeat(len(generated))[:, None]
        generated = torch.cat([generated[origin], newest], dim=1)
        total = table[:, words].flatten()
        if t + 1 == limit or not len(words):
            break
        state = DecoderState(state.memory, select_rows(state.cache, origin))
    return answers + _best(generated, total, False, n_best, alpha)


def _candidate_tokens(vocab_size: int, limit: int, special_tokens: SpecialTokens) -> Tensor:
    """All tokens that an answer may have in it."""
    words = [
        v
        for v in range(vocab_size)
        if v != special_tokens.eos and v not in special_tokens.forbidden
    ]
    if len(words) ** limit > MAX_EXHAUSTIVE_SEQUENCES:
        raise ValueError(
            f"all sequences of {limit} out of {len(words)} tokens were asked for, "
            f"{len(words) ** limit:.1e} of them; wanted at most {MAX_EXHAUSTIVE_SEQUENCES:,}: lower the limit, or use "
            "a beam."
        )
    return torch.tensor(words, dtype=torch.long)


def _best(
    generated: Tensor, total: Tensor, finished: bool, n_best: int, alpha: float
) -> list[Hypothesis]:
    """Of answers that are equally long, where the log-probability decides; none without chance."""
    best = total.topk(min(n_best, len(total)))
    rows = generated[best.indices].tolist()
    return [
        make_hypothesis(ids, value, finished, alpha)
        for ids, value in zip(rows, best.values.tolist(), strict=True)
        if value != -torch.inf
    ]
