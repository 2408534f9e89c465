r"""Which tokens to write: the likeliest at each step, or the likeliest sequences a beam can find.

Both work on any `Stepper`. A sentence that is finished leaves the batch, and no sentence's
answer depends on its neighbours: limits, beams and stopping are each sentence's own. What the
steppers remember is moved only where it must be: hypotheses stay in the row of the one they grew
from, and rows that become free are filled from the end.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.decoding.constraints import (
    NO_CONSTRAINTS,
    RepetitionConstraints,
    repeated_ngrams,
    repetition_penalty,
)
from saccade.decoding.penalties import length_penalty
from saccade.decoding.protocol import AutoregressiveModel
from saccade.types.shapes import DecoderState, Lengths, reorder_rows, select_rows

TokenCallback = Callable[
    [int, list[int]], None
]  # the number of a sentence, and what is written of it


def ignore_token(sentence: int, ids: list[int]) -> None:
    """Nobody wants to hear of single tokens."""


TOPK_BLOCK = 64  # tokens among which one is looked for at a time


class Hypothesis(NamedTuple):
    """One sequence that a search found.

    `ids` are without the begin and end marks. `log_probability` is the sum over its tokens, the
    end mark included if it was reached, by the model's table or what `Rules` made of it; `score`
    is that divided by the length penalty.
    """

    ids: list[int]
    score: float
    log_probability: float
    finished: bool  # False: the limit came before the end mark


class SpecialTokens(NamedTuple):
    """The ids that open and close a sequence, and those that are never written.

    `stops` says of what has been written that it is to end there, whatever would come.
    """

    bos: int
    eos: int
    forbidden: tuple[int, ...]
    should_stop: Callable[[Sequence[int]], bool] = lambda ids: False


def next_token_log_probabilities(
    logits: Float[Tensor, "R T V"],
    generated: Callable[[], Int[Tensor, "R t"]],
    forbidden: Int[Tensor, " N"],
    constraints: RepetitionConstraints,
) -> Float[Tensor, "R V"]:
    """Of the next token; those that may not be written keep no chance, and pass theirs to none."""
    last = logits[:, -1]
    if constraints.repetition_penalty != 1:
        last = repetition_penalty(last, generated(), constraints.repetition_penalty)
    table = last.log_softmax(dim=-1)
    if constraints.no_repeat_ngram_size:
        table[
            repeated_ngrams(generated(), constraints.no_repeat_ngram_size, table.shape[-1])
        ] = -torch.inf
    return table.index_fill_(1, forbidden, -torch.inf)


def blockwise_topk(table: Float[Tensor, "R V"], k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row and where they are, as `topk` gives them, in a part of its time.

    The k largest are in the k blocks of the vocabulary that have the largest maxima: only those
    are sorted.
    """
    R, V = table.shape
    count = V // TOPK_BLOCK
    if R * V < 1 << 16 or count <= 2 * k:
        found = table.topk(k, dim=-1) if k > 1 else table.max(dim=-1, keepdim=True)
        return found.values, found.indices
    blocks = table[:, : count * TOPK_BLOCK].unflatten(1, (count, TOPK_BLOCK))
    where = blocks.amax(dim=-1).topk(k, dim=-1).indices[:, :, None]  # (R, k, 1)
    inside = blocks.gather(1, where.expand(-1, -1, TOPK_BLOCK)).flatten(1)
    places = (where * TOPK_BLOCK + torch.arange(TOPK_BLOCK, device=table.device)).flatten(1)
    rest = torch.arange(count * TOPK_BLOCK, V, device=table.device).expand(R, -1)
    inside = torch.cat([inside, table[:, count * TOPK_BLOCK :]], dim=1)
    best = inside.topk(k, dim=-1)
    return best.values, torch.cat([places, rest], dim=1).gather(1, best.indices)


def greedy_search(
    model: AutoregressiveModel,
    memory: Any,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    alpha: float = 1.0,
    constraints: RepetitionConstraints = NO_CONSTRAINTS,
    on_token: TokenCallback = ignore_token,
) -> list[Hypothesis]:
    """The likeliest token at every step, until the end mark or each sentence's own limit."""

    def choose(table: Tensor, sentences: list[int], t: int) -> Tensor:
        return blockwise_topk(table, 1)[1][:, 0]

    common: dict[str, Any] = {
        "special_tokens": special_tokens,
        "max_lengths": max_lengths,
        "alpha": alpha,
        "constraints": constraints,
    }
    return generate_tokens(model, memory, choose, on_token=on_token, **common)


@torch.no_grad()
def generate_tokens(
    model: AutoregressiveModel,
    memory: Any,
    choose: Callable[[Tensor, list[int], int], Tensor],
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    alpha: float,
    constraints: RepetitionConstraints,
    on_token: TokenCallback = ignore_token,
) -> list[Hypothesis]:
    """One token after the other, until the end mark or each sentence's own limit.

    `choose(table, sentences, t)` gives a token for each row of the log-probabilities (R, V), with
    the number of the sentence in each row, and t counting the steps from 0. `told` hears of every
    token as it is written.
    """
    check_max_lengths(max_lengths)
    most: list[int] = max_lengths.tolist()
    rows = list(range(len(most)))  # the sentence in each row of the batch
    generated: list[list[int]] = [[] for _ in most]
    total, finished = [0.0 for _ in most], [False for _ in most]
    batch = _BatchState(model.init_state(memory), max_lengths.device)
    forbidden = torch.tensor(special_tokens.forbidden, device=max_lengths.device, dtype=torch.long)
    newest = torch.full((len(most), 1), special_tokens.bos, device=max_lengths.device)

    def before() -> Tensor:
        return torch.tensor([generated[row] for row in rows], device=max_lengths.device).long()

    for t in range(max(most)):
        logits = batch.step(model, newest)
        table = next_token_log_probabilities(logits, before, forbidden, constraints)
        chosen = choose(table, rows, t)[:, None]
        gained = table.gather(1, chosen)[:, 0]
        stays = []
        tokens = chosen[:, 0].tolist()
        for place, (row, token, gain) in enumerate(zip(rows, tokens, gained.tolist(), strict=True)):
            total[row] += gain
            if token == special_tokens.eos:
                finished[row] = True
                continue
            generated[row].append(token)
            on_token(row, generated[row])
            if special_tokens.should_stop(generated[row]):
                finished[row] = True
            elif t + 1 < most[row]:
                stays.append(place)
        if not stays:
            break
        if len(stays) < len(rows):
            order = compaction_order(stays)
            batch.keep(order, order)
            rows = [rows[place] for place in order]
            chosen = chosen[order]
        newest = chosen
    answers = zip(generated, total, finished, strict=True)
    return [make_hypothesis(ids, sum_, end, alpha) for ids, sum_, end in answers]


class _BatchState:
    """A stepper's state as it goes from step to step."""

    def __init__(self, state: DecoderState, device: torch.device):
        self.memory, self.cache = state
        self.device = device
        self.owned = False  # the memory is the caller's until a part of it is copied

    def step(self, model: AutoregressiveModel, ids: Tensor) -> Tensor:
        """The logits after one more token in each row."""
        logits, (self.memory, self.cache) = model.step(ids, DecoderState(self.memory, self.cache))
        return logits

    def keep(self, sentences: list[int], rows: list[int]) -> None:
        """Go on with these sentences of the memory and these rows of the past, in this order."""
        self.cache = reorder_rows(self.cache, rows)
        if self.owned:
            self.memory = reorder_rows(self.memory, sentences)
        else:
            self.memory = select_rows(self.memory, torch.tensor(sentences, device=self.device))
            self.owned = True


def compaction_order(stays: Sequence[int]) -> list[int]:
    """The places that stay, in an order that moves few: those at the end fill the holes.

    >>> filled([0, 2, 5, 6])
    [0, 5, 2, 6]
    """
    from_end = iter([place for place in stays if place >= len(stays)])
    kept = set(stays)
    return [place if place in kept else next(from_end) for place in range(len(stays))]


def check_max_lengths(max_lengths: Tensor) -> None:
    """Refuse a limit that no answer keeps."""
    if int(max_lengths.min()) < 1:
        raise ValueError(
            f"a limit of {int(max_lengths.min())} tokens was asked for; wanted at least 1 for every "
            "sentence: an answer has one token or more, the end mark included."
        )


def make_hypothesis(ids: Iterable[int], total: float, finished: bool, alpha: float) -> Hypothesis:
    """With its score, the log-probability divided by the penalty of its length."""
    ids = list(ids)
    return Hypothesis(ids, total / length_penalty(len(ids) + finished, alpha), total, finished)


@torch.no_grad()
def beam_search(
    model: AutoregressiveModel,
    memory: Any,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    width: int,
    n_best: int = 1,
    alpha: float = 1.0,
    constraints: RepetitionConstraints = NO_CONSTRAINTS,
) -> list[list[Hypothesis]]:
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
    check_max_lengths(max_lengths)
    every = [_Beam(limit, width, n_best, alpha) for limit in max_lengths.tolist()]
    beams, slots = list(every), 1  # those still open, and the rows that each of them has
    batch = _BatchState(model.init_state(memory), max_lengths.device)
    forbidden = torch.tensor(special_tokens.forbidden, device=max_lengths.device, dtype=torch.long)
    for t in range(1, int(max_lengths.max()) + 1):
        newest = [[id] for one in beams for id in one.newest(special_tokens.bos)]
        logits = batch.step(model, torch.tensor(newest, device=max_lengths.device))

        def before(beams: list[_Beam] = beams, t: int = t) -> Tensor:
            ids = [ids for one in beams for ids in one.generated(t - 1)]
            return torch.tensor(ids, device=max_lengths.device).long()

        table = next_token_log_probabilities(logits, before, forbidden, constraints)
        totals = torch.tensor([one.totals() for one in beams], dtype=torch.float64).to(
            logits.device
        )
        for one, found in zip(beams, _continuations(table, totals, width), strict=True):
            one.grow(found, special_tokens, t)
        stays = [place for place, one in enumerate(beams) if one.is_open]
        if not stays:
            break
        order = compaction_order(stays)
        beams = [beams[place] for place in order]
        room, slots = slots, max(len(one.children) for one in beams)
        rows = [
            place * room + slot
            for place, one in zip(order, beams, strict=True)
            for slot in one.settle(slots, room)
        ]
        if len(order) < len(totals):
            batch.keep(order, rows)
        else:
            batch.cache = reorder_rows(batch.cache, rows)
    return [sorted(one.done, key=lambda answer: -answer.score)[:n_best] for one in every]


class _Continuation(NamedTuple):
    """A continuation: the log-probability with it, the slot it goes on from, the token."""

    total: float
    slot: int
    token: int


def _continuations(
    table: Float[Tensor, "N V"], totals: Float[Tensor, "R G"], width: int
) -> Iterator[list[_Continuation]]:
    """Each sentence's `width` likeliest, best first."""
    R, G = totals.shape
    values, tokens = blockwise_topk(table, min(width, table.shape[1]))
    k = values.shape[1]
    sums = (values.double() + totals.view(-1, 1)).view(R, G * k)
    best = sums.topk(min(width, G * k), dim=-1)
    chosen = tokens.view(R, G * k).gather(1, best.indices)
    rows = best.values.tolist(), (best.indices // k).tolist(), chosen.tolist()
    for row in zip(*rows, strict=True):
        yield [_Continuation(*one) for one in zip(*row, strict=True)]


class _OpenHypothesis(NamedTuple):
    """What has been written, its log-probability, and the slot of the one it grew from."""

    ids: tuple[int, ...]
    total: float
    slot: int


class _Beam:
    """The hypotheses of one sentence: open ones in slots, of which some may be empty, and ended.

    A log-probability that is NaN lives, so that a broken model's answer is seen to be NaN, as in
    greedy search.
    """

    def __init__(self, limit: int, width: int, n_best: int, alpha: float):
        self.limit, self.width, self.n_best, self.alpha = limit, width, n_best, alpha
        self.slots: list[_OpenHypothesis | None] = [_OpenHypothesis((), 0.0, 0)]
        self.children: list[_OpenHypothesis] = []
        self.done: list[Hypothesis] = []

    def newest(self, bos: int) -> list[int]:
        """The last token of each slot."""
        return [one.ids[-1] if one is not None and one.ids else bos for one in self.slots]

    def generated(self, t: int) -> list[tuple[int, ...]]:
        """The t tokens of each slot; of an empty one, anything."""
        return [(0,) * t if one is None else one.ids for one in self.slots]

    def totals(self) -> list[float]:
        """The log-probability of each slot."""
        return [-math.inf if one is None else one.total for one in self.slots]

    def grow(self, found: list[_Continuation], special_tokens: SpecialTokens, t: int) -> None:
        """Go on with as many of the continuations, best first, as the beam has places free."""
        self.children = []
        free = self.width - len(self.done)
        for total, slot, token in found[:free]:
            before = self.slots[slot]
            if before is None or total == -math.inf:
                continue
            ids = (*before.ids, token)
            if token == special_tokens.eos:
                self.done.append(make_hypothesis(before.ids, total, True, self.alpha))
            elif (ended := special_tokens.should_stop(ids)) or t == self.limit:
                self.done.append(make_hypothesis(ids, total, ended, self.alpha))
            else:
                self.children.append(_OpenHypothesis(ids, total, slot))

    @property
    def is_open(self) -> bool:
        """Whether an open hypothesis can still come among the best."""
        if not self.children or len(self.done) >= self.width:
            return False
        if len(self.done) < self.n_best:
            return True
        scores = sorted((answer.score for answer in self.done), reverse=True)
        bound = max(one.total for one in self.children) / length_penalty(self.limit, self.alpha)
        return not scores[self.n_best - 1] >= bound

    def settle(self, slots: int, room: int) -> list[int]:
        """Give each child a slot, its parent's if that is still free; the parent of each slot.

        There are to be so many slots, and were `room`; an empty one takes what is there.
        """
        self.slots = [None] * slots
        others = []
        for child in self.children:
            if child.slot < slots and self.slots[child.slot] is None:
                self.slots[child.slot] = child
            else:
                others.append(child)
        empty = iter([slot for slot, one in enumerate(self.slots) if one is None])
        for child in others:
            self.slots[next(empty)] = child
        return [
            min(slot, room - 1) if one is None else one.slot for slot, one in enumerate(self.slots)
        ]
