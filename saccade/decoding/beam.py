"""Beam search.

Works on any `AutoregressiveModel`. An example that is finished leaves the batch, and no example's
hypotheses depend on the others: limits, beams and stopping are per example.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.decoding.constraints import NO_CONSTRAINTS, RepetitionConstraints
from saccade.decoding.greedy import (
    BatchState,
    Hypothesis,
    blockwise_topk,
    compaction_order,
    make_hypothesis,
    next_token_log_probabilities,
)
from saccade.decoding.greedy import length_penalty as penalty_of_length
from saccade.decoding.protocol import (
    AutoregressiveModel,
    SpecialTokens,
    check_max_lengths,
    check_model,
)
from saccade.io.memory import available_memory, check_memory
from saccade.types.shapes import Lengths, count_bytes

CandidateCallback = Callable[[int, tuple[int, ...], float], None]
UNCHECKED_BYTES = 1 << 28  # searches that need less are not compared with the available memory


@torch.no_grad()
def beam_search(
    model: AutoregressiveModel,
    memory: Any,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    width: int,
    n_best: int = 1,
    length_penalty: float = 1.0,
    constraints: RepetitionConstraints = NO_CONSTRAINTS,
    on_candidate: CandidateCallback | None = None,
) -> list[list[Hypothesis]]:
    """Return the `n_best` hypotheses of each example that a beam of `width` finds, best first.

    At each step the most probable continuations of all open hypotheses are kept. One that ends
    keeps its slot in the beam (Sutskever et al. 2014), so that a beam of 1 is greedy search. An
    example stops when its beam is full of ended hypotheses, at its maximum length, or when no open
    hypothesis can still reach the n best: a log-probability only decreases, so the score of an open
    one is at most its current log-probability divided by the penalty of the maximum length.

    Args:
        model: has `init_state(memory)` and `step(ids, state)`.
        memory: the input of `init_state`, one row per example (an encoded source).
        max_lengths: maximum number of tokens of each example, eos included.
        length_penalty: α of `greedy.length_penalty`; 0 ranks by the log-probability.
        on_candidate: called with the example, the ids and their log-probability for each sequence
            that is kept for a step.
    """
    if width < 1 or not 1 <= n_best <= width or length_penalty < 0:
        raise ValueError(
            f"got width {width}, n_best {n_best} and length_penalty {length_penalty}; expected "
            "1 ≤ n_best ≤ width and a penalty of 0 or more."
        )
    check_model(model)
    check_max_lengths(max_lengths)
    all_beams = [_Beam(limit, width, n_best, length_penalty) for limit in max_lengths.tolist()]
    beams, slots = list(all_beams), 1  # the open beams, and the rows of each
    batch = BatchState(model.init_state(memory), max_lengths.device)
    forbidden = torch.tensor(special_tokens.forbidden, device=max_lengths.device, dtype=torch.long)
    for t in range(1, int(max_lengths.max()) + 1):
        newest = [[token] for beam in beams for token in beam.newest(special_tokens.bos)]
        logits = batch.step(model, torch.tensor(newest, device=max_lengths.device))

        def generated_ids(beams: list[_Beam] = beams, t: int = t) -> Tensor:
            ids = [ids for beam in beams for ids in beam.generated(t - 1)]
            return torch.tensor(ids, device=max_lengths.device).long()

        table = next_token_log_probabilities(logits, generated_ids, forbidden, constraints)
        totals = torch.tensor([beam.totals() for beam in beams], dtype=torch.float64).to(
            logits.device
        )
        for beam, found in zip(beams, _continuations(table, totals, width), strict=True):
            kept = beam.grow(found, special_tokens, t)
            if on_candidate is not None:
                for ids, total in kept:
                    on_candidate(all_beams.index(beam), ids, total)
        open_beams = [index for index, beam in enumerate(beams) if beam.is_open]
        if not open_beams:
            break
        order = compaction_order(open_beams)
        beams = [beams[index] for index in order]
        old_slots, slots = slots, max(len(beam.children) for beam in beams)
        _check_memory(batch, table, len(beams) * slots, width)
        rows = [
            index * old_slots + slot
            for index, beam in zip(order, beams, strict=True)
            for slot in beam.assign_slots(slots, old_slots)
        ]
        if len(order) < len(totals):
            batch.keep(order, rows)
        else:
            batch.reorder(rows)
    return [
        sorted(beam.done, key=lambda hypothesis: -hypothesis.score)[:n_best] for beam in all_beams
    ]


def _check_memory(batch: BatchState, table: Tensor, rows: int, width: int) -> None:
    """Raise a ConfigError if the next step with this many rows does not fit into memory.

    Rows of the cache are copied when their number grows, and so are their positions when the
    capacity runs out; of the vocabulary there are logits, log-probabilities and a copy.
    """
    cache, vocabulary = count_bytes(batch.cache), 3 * count_bytes(table)
    needed = (2 * cache + vocabulary) * rows // len(table)
    if needed > UNCHECKED_BYTES and table.device.type == "cpu":
        fitting = width * (available_memory() or 0) // needed
        advice = f"a beam of {fitting:,} or less" if fitting else "fewer inputs at a time"
        check_memory(needed, f"a beam of {width:,}", advice)


class _Continuation(NamedTuple):
    """One more token: the total log-probability with it, the slot of its parent, its id."""

    total: float
    slot: int
    token: int


def _continuations(
    table: Float[Tensor, "N V"], totals: Float[Tensor, "R G"], width: int
) -> Iterator[list[_Continuation]]:
    """Yield the `width` most probable continuations of each beam, best first."""
    R, G = totals.shape
    values, tokens = blockwise_topk(table, min(width, table.shape[1]))
    k = values.shape[1]
    sums = (values.double() + totals.view(-1, 1)).view(R, G * k)
    best = sums.topk(min(width, G * k), dim=-1)
    chosen = tokens.view(R, G * k).gather(1, best.indices)
    columns = best.values.tolist(), (best.indices // k).tolist(), chosen.tolist()
    for row in zip(*columns, strict=True):
        yield [_Continuation(*entry) for entry in zip(*row, strict=True)]


class _OpenHypothesis(NamedTuple):
    """The ids generated so far, their log-probability, and the slot of the parent."""

    ids: tuple[int, ...]
    total: float
    slot: int


class _Beam:
    """The hypotheses of one example: open ones in slots, some of which may be empty, and ended.

    A hypothesis whose log-probability is NaN is kept, so that the output of a broken model is
    visibly NaN, as in greedy search.
    """

    def __init__(self, limit: int, width: int, n_best: int, alpha: float):
        self.limit, self.width, self.n_best, self.alpha = limit, width, n_best, alpha
        self.slots: list[_OpenHypothesis | None] = [_OpenHypothesis((), 0.0, 0)]
        self.children: list[_OpenHypothesis] = []
        self.done: list[Hypothesis] = []

    def newest(self, bos: int) -> list[int]:
        """Return the last token of each slot."""
        return [slot.ids[-1] if slot is not None and slot.ids else bos for slot in self.slots]

    def generated(self, t: int) -> list[tuple[int, ...]]:
        """Return the t tokens of each slot; zeros for an empty one."""
        return [(0,) * t if slot is None else slot.ids for slot in self.slots]

    def totals(self) -> list[float]:
        """Return the log-probability of each slot."""
        return [-math.inf if slot is None else slot.total for slot in self.slots]

    def grow(
        self, found: list[_Continuation], special_tokens: SpecialTokens, t: int
    ) -> list[tuple[tuple[int, ...], float]]:
        """Keep as many of the continuations, best first, as the beam has room for; return them."""
        self.children = []
        kept = []
        room = self.width - len(self.done)
        for total, slot, token in found[:room]:
            parent = self.slots[slot]
            if parent is None or total == -math.inf:
                continue
            ids = (*parent.ids, token)
            kept.append((ids, total))
            if token == special_tokens.eos:
                self.done.append(make_hypothesis(parent.ids, total, True, self.alpha))
            elif (ended := special_tokens.should_stop(ids)) or t == self.limit:
                self.done.append(make_hypothesis(ids, total, ended, self.alpha))
            else:
                self.children.append(_OpenHypothesis(ids, total, slot))
        return kept

    @property
    def is_open(self) -> bool:
        """True if an open hypothesis can still reach the n best."""
        if not self.children or len(self.done) >= self.width:
            return False
        if len(self.done) < self.n_best:
            return True
        scores = sorted((hypothesis.score for hypothesis in self.done), reverse=True)
        best_total = max(child.total for child in self.children)
        bound = best_total / penalty_of_length(self.limit, self.alpha)
        return not scores[self.n_best - 1] >= bound

    def assign_slots(self, slots: int, old_slots: int) -> list[int]:
        """Give each child a slot, its parent's if free; return the parent's slot of each slot.

        The number of slots changes from `old_slots` to `slots`; an empty slot copies any row.
        """
        self.slots = [None] * slots
        displaced = []
        for child in self.children:
            if child.slot < slots and self.slots[child.slot] is None:
                self.slots[child.slot] = child
            else:
                displaced.append(child)
        empty = iter([index for index, slot in enumerate(self.slots) if slot is None])
        for child in displaced:
            self.slots[next(empty)] = child
        return [
            min(index, old_slots - 1) if slot is None else slot.slot
            for index, slot in enumerate(self.slots)
        ]
