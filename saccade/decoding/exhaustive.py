"""Every sequence there is: what the other searches are measured by, for small vocabularies."""

from typing import Any

import torch
from torch import Tensor

from saccade.decoding.rules import NO_RULES, Rules
from saccade.decoding.search import Answer, Marks, answer_of, check_limits, log_probabilities
from saccade.decoding.stepper import Stepper
from saccade.types import Lengths, State, select

MOST = 1_000_000  # sequences of one sentence


@torch.no_grad()
def exhaustive(
    stepper: Stepper,
    memory: Any,
    *,
    marks: Marks,
    limits: Lengths,
    n_best: int = 1,
    alpha: float = 1.0,
    rules: Rules = NO_RULES,
) -> list[list[Answer]]:
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
    check_limits(limits)
    start = stepper.start(memory)
    found = []
    for row, limit in enumerate(limits.tolist()):
        state = select(start, torch.tensor([row], device=limits.device))
        answers = _all(stepper, state, limits, limit, marks, rules, n_best, alpha)
        found.append(sorted(answers, key=lambda answer: -answer.score)[:n_best])
    return found


def _all(
    stepper: Stepper,
    state: State,
    limits: Tensor,
    limit: int,
    marks: Marks,
    rules: Rules,
    n_best: int,
    alpha: float,
) -> list[Answer]:
    """The best of each length; the G rows are all that was written up to now and has not ended."""
    written = limits.new_empty(1, 0)
    newest = limits.new_full((1, 1), marks.begin)
    total = torch.zeros(1, dtype=torch.float64, device=limits.device)
    never = torch.tensor(marks.never, device=limits.device, dtype=torch.long)
    answers = []
    for t in range(limit):
        logits, state = stepper.step(newest, state)
        words = _words(logits.shape[-1], limit, marks).to(limits.device)
        # the past is looked at while the function runs, and not after
        found = log_probabilities(logits, lambda: written, never, rules)  # noqa: B023
        table = total[:, None] + found.double()
        answers += _best(written, table[:, marks.end], True, n_best, alpha)
        origin = torch.arange(len(written), device=limits.device).repeat_interleave(len(words))
        newest = words.repeat(len(written))[:, None]
        written = torch.cat([written[origin], newest], dim=1)
        total = table[:, words].flatten()
        if t + 1 == limit or not len(words):
            break
        state = State(state.memory, select(state.past, origin))
    return answers + _best(written, total, False, n_best, alpha)


def _words(vocab_size: int, limit: int, marks: Marks) -> Tensor:
    """All tokens that an answer may have in it."""
    words = [v for v in range(vocab_size) if v != marks.end and v not in marks.never]
    if len(words) ** limit > MOST:
        raise ValueError(
            f"all sequences of {limit} out of {len(words)} tokens were asked for, "
            f"{len(words) ** limit:.1e} of them; wanted at most {MOST:,}: lower the limit, or use "
            "a beam."
        )
    return torch.tensor(words, dtype=torch.long)


def _best(
    written: Tensor, total: Tensor, finished: bool, n_best: int, alpha: float
) -> list[Answer]:
    """Of answers that are equally long, where the log-probability decides; none without chance."""
    best = total.topk(min(n_best, len(total)))
    rows = written[best.indices].tolist()
    return [
        answer_of(ids, value, finished, alpha)
        for ids, value in zip(rows, best.values.tolist(), strict=True)
        if value != -torch.inf
    ]
