r"""Which tokens to write: the likeliest at each step, or the likeliest sequences a beam can find.

Both work on any `Stepper`. A sentence that is finished leaves the batch, and no sentence's
answer depends on its neighbours: limits, beams and stopping are each sentence's own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.decoding.penalties import length_penalty
from saccade.decoding.rules import NO_RULES, Rules, repeats, repetition_penalty
from saccade.decoding.stepper import Stepper
from saccade.types import Lengths, State, select


class Answer(NamedTuple):
    """One sequence that a search found.

    `ids` are without the begin and end marks. `log_probability` is the sum over its tokens, the
    end mark included if it was reached, by the model's table or what `Rules` made of it; `score`
    is that divided by the length penalty.
    """

    ids: list[int]
    score: float
    log_probability: float
    finished: bool  # False: the limit came before the end mark


class Marks(NamedTuple):
    """The ids that open and close a sequence, and those that are never written."""

    begin: int
    end: int
    never: tuple[int, ...]


def log_probabilities(
    logits: Float[Tensor, "R T V"], written: Int[Tensor, "R t"], marks: Marks, rules: Rules
) -> Float[Tensor, "R V"]:
    """Of the next token; those that may not be written keep no chance, and pass theirs to none."""
    last = logits[:, -1]
    if rules.repetition != 1:
        last = repetition_penalty(last, written, rules.repetition)
    last = last.log_softmax(dim=-1)
    if rules.no_repeat:
        last[repeats(written, rules.no_repeat, last.shape[-1])] = -torch.inf
    last[:, list(marks.never)] = -torch.inf
    return last


def greedy(
    stepper: Stepper,
    memory: Any,
    *,
    marks: Marks,
    limits: Lengths,
    alpha: float = 1.0,
    rules: Rules = NO_RULES,
) -> list[Answer]:
    """The likeliest token at every step, until the end mark or each sentence's own limit."""

    def likeliest(table: Tensor, sentence: Tensor, t: int) -> Tensor:
        return table.max(dim=-1).indices

    return write(stepper, memory, likeliest, marks=marks, limits=limits, alpha=alpha, rules=rules)


@torch.no_grad()
def write(
    stepper: Stepper,
    memory: Any,
    choose: Callable[[Tensor, Tensor, int], Tensor],
    *,
    marks: Marks,
    limits: Lengths,
    alpha: float,
    rules: Rules,
) -> list[Answer]:
    """One token after the other, until the end mark or each sentence's own limit.

    `choose(table, sentence, t)` gives a token for each row of the log-probabilities (R, V), which
    sentence a row is being in `sentence` (R,), and t counting the steps from 0.
    """
    check_limits(limits)
    B = limits.shape[0]
    state = stepper.start(memory)
    sentence = torch.arange(B, device=limits.device)  # which sentence each row of the batch is
    newest = torch.full((B, 1), marks.begin, device=limits.device)
    total = torch.zeros(B, device=limits.device, dtype=torch.float64)
    written = torch.full((B, int(limits.max())), marks.end, device=limits.device)
    length = limits.clone()
    for t in range(written.shape[1]):
        logits, state = stepper.step(newest, state)
        table = log_probabilities(logits, written[sentence, :t], marks, rules)
        chosen = choose(table, sentence, t)
        newest = chosen[:, None]
        total[sentence] += table.gather(1, newest)[:, 0].double()
        written[sentence, t] = chosen
        ended = chosen == marks.end
        length[sentence[ended]] = t
        stays = ~ended & (limits[sentence] > t + 1)
        if not stays.all():
            rows = stays.nonzero()[:, 0]
            if not len(rows):
                break
            sentence, newest, state = sentence[rows], newest[rows], select(state, rows)
    finished = length < limits
    answers = []
    for ids, n, sum_, end in zip(
        written.tolist(), length.tolist(), total.tolist(), finished.tolist(), strict=True
    ):
        answers.append(answer_of(ids[:n], sum_, end, alpha))
    return answers


def check_limits(limits: Tensor) -> None:
    """Refuse a limit that no answer keeps."""
    if int(limits.min()) < 1:
        raise ValueError(
            f"a limit of {int(limits.min())} tokens was asked for; wanted at least 1 for every "
            "sentence: an answer has one token or more, the end mark included."
        )


def answer_of(ids: list[int], total: float, finished: bool, alpha: float) -> Answer:
    """With its score, the log-probability divided by the penalty of its length."""
    return Answer(ids, total / length_penalty(len(ids) + finished, alpha), total, finished)


@torch.no_grad()
def beam(
    stepper: Stepper,
    memory: Any,
    *,
    marks: Marks,
    limits: Lengths,
    width: int,
    n_best: int = 1,
    alpha: float = 1.0,
    rules: Rules = NO_RULES,
) -> list[list[Answer]]:
    """The `n_best` answers of each sentence that a beam of `width` hypotheses finds, best first.

    At each step the likeliest continuations of all open hypotheses stay. One that ends keeps its
    place in the beam (Sutskever et al. 2014), so that a beam of 1 is greedy search. A sentence
    stops when its beam is full of ended ones, at its limit, or when no open hypothesis can still
    come among the best: a log-probability only falls, so an open one's score is at most what it
    has now divided by the penalty of the longest length.
    """
    if width < 1 or not 1 <= n_best <= width or alpha < 0:
        raise ValueError(
            f"a beam of {width} with {n_best} best and length penalty {alpha} was asked for; "
            "wanted 1 ≤ n_best ≤ width and a penalty of 0 or more."
        )
    check_limits(limits)
    open_ = _open(stepper, memory, limits, marks)
    done: list[list[Answer]] = [[] for _ in range(limits.shape[0])]
    for t in range(1, int(limits.max()) + 1):
        logits, state = stepper.step(open_.newest, open_.state)
        table = log_probabilities(logits, open_.written.flatten(0, 1), marks, rules)
        open_ = _grow(open_._replace(state=state), table.double(), width, done)
        _finish(open_, done, marks, limits, t, alpha)
        rest = _still_open(open_, done, limits, t, width, n_best, alpha)
        if rest is None:
            break
        open_ = rest
    return [sorted(found, key=lambda answer: -answer.score)[:n_best] for found in done]


class _Open(NamedTuple):
    """The open hypotheses: R sentences still in the batch, G hypotheses of each.

    A dead slot has the score -inf; one that is NaN lives, so that a broken model's answer is seen
    to be NaN, as in greedy search. `origin` is the row of `state.past` that a slot grew from.
    """

    state: State
    sentence: Tensor  # (R,)
    total: Tensor  # (R, G) log-probability so far
    written: Tensor  # (R, G, t)
    origin: Tensor  # (R, G)
    begin: int

    @property
    def newest(self) -> Tensor:
        """The last token of each hypothesis, one row each."""
        if not self.written.shape[2]:
            return self.written.new_full((self.total.numel(), 1), self.begin)
        return self.written[:, :, -1].reshape(-1, 1)


def _open(stepper: Stepper, memory: Any, limits: Tensor, marks: Marks) -> _Open:
    """Before the first step every sentence has one hypothesis, and it is empty."""
    B = limits.shape[0]
    return _Open(
        state=stepper.start(memory),
        sentence=torch.arange(B, device=limits.device),
        total=torch.zeros(B, 1, dtype=torch.float64, device=limits.device),
        written=torch.empty(B, 1, 0, dtype=torch.long, device=limits.device),
        origin=torch.arange(B, device=limits.device)[:, None],
        begin=marks.begin,
    )


def _grow(open_: _Open, table: Tensor, width: int, done: list[list[Answer]]) -> _Open:
    """Each sentence's likeliest continuations, as many as its beam has places free."""
    R, G = open_.total.shape
    V = table.shape[-1]
    candidates = (open_.total[:, :, None] + table.view(R, G, V)).view(R, G * V)
    best = candidates.topk(min(width, G * V), dim=-1)
    free = torch.tensor([width - len(done[s]) for s in open_.sentence.tolist()])
    places = torch.arange(best.values.shape[1], device=table.device)
    total = best.values.masked_fill(places >= free.to(table.device)[:, None], -torch.inf)
    slot = best.indices // V
    before = open_.written.gather(1, slot[:, :, None].expand(-1, -1, open_.written.shape[2]))
    written = torch.cat([before, (best.indices % V)[:, :, None]], dim=2)
    rows = torch.arange(R, device=table.device)[:, None] * G
    return open_._replace(total=total, written=written, origin=rows + slot)


def _finish(
    open_: _Open, done: list[list[Answer]], marks: Marks, limits: Tensor, t: int, alpha: float
) -> None:
    """Move the hypotheses that ended, or came to their limit, to the finished ones."""
    alive = open_.total != -torch.inf
    ended = open_.written[:, :, -1] == marks.end
    over = alive & (ended | (limits[open_.sentence] <= t)[:, None])
    for row, slot in over.nonzero().tolist():
        finished = bool(ended[row, slot])
        ids = open_.written[row, slot].tolist()[: t - finished]
        total = float(open_.total[row, slot])
        done[int(open_.sentence[row])].append(answer_of(ids, total, finished, alpha))
    open_.total.masked_fill_(over, -torch.inf)


def _still_open(
    open_: _Open,
    done: list[list[Answer]],
    limits: Tensor,
    t: int,
    width: int,
    n_best: int,
    alpha: float,
) -> _Open | None:
    """Drop the sentences that are finished and the slots that no sentence needs."""
    likeliest = open_.total.max(dim=1).values.tolist()
    rows = []
    for row, sentence in enumerate(open_.sentence.tolist()):
        scores = sorted((answer.score for answer in done[sentence]), reverse=True)
        bound = likeliest[row] / length_penalty(int(limits[sentence]), alpha)
        hopeless = len(scores) >= n_best and scores[n_best - 1] >= bound
        if likeliest[row] != -torch.inf and len(scores) < width and not hopeless:
            rows.append(row)
    if not rows:
        return None
    stays = torch.tensor(rows, device=open_.total.device)
    total, order = open_.total[stays].sort(dim=1, descending=True, stable=True)
    slots = int((total != -torch.inf).sum(dim=1).max())
    total, order = total[:, :slots], order[:, :slots]
    written = open_.written[stays].gather(
        1, order[:, :, None].expand(-1, -1, open_.written.shape[2])
    )
    origin = open_.origin[stays].gather(1, order)
    memory, past = open_.state
    if len(rows) < len(open_.sentence):
        memory = select(memory, stays)
    return open_._replace(
        state=State(memory, select(past, origin.reshape(-1))),
        sentence=open_.sentence[stays],
        total=total,
        written=written,
    )
