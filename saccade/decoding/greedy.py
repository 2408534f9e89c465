"""Greedy search, and the steps that the other searches share with it.

`Hypothesis` is the result, `next_token_log_probabilities` the constrained distribution,
`BatchState` the model state of the open hypotheses; `generate_tokens` is the loop of the searches
with one hypothesis per example, greedy search and sampling.
"""

from collections.abc import Callable, Iterable, Sequence
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
from saccade.decoding.protocol import (
    AutoregressiveModel,
    SpecialTokens,
    TokenCallback,
    check_max_lengths,
    check_model,
    ignore_token,
)
from saccade.types.shapes import DecoderState, Lengths, reorder_rows, select_rows

TOPK_BLOCK = 64  # vocabulary entries per block of `blockwise_topk`
ChooseToken = Callable[[Tensor, list[int], int], Tensor]


class Hypothesis(NamedTuple):
    """One generated sequence.

    `ids` exclude bos and eos. `log_probability` is the sum over the tokens, eos included if it was
    generated, under the model's distribution as changed by `RepetitionConstraints`; `score` is
    that divided by the length penalty.
    """

    ids: list[int]
    score: float
    log_probability: float
    finished: bool  # False: the maximum length was reached before eos


def length_penalty(length: int, alpha: float) -> float:
    r"""Return ((5 + length) / 6)^α; a score is the log-probability divided by it.

    Wu et al. 2016, eq. 14. α = 0 leaves the log-probability unchanged, larger α favours longer
    hypotheses. The length includes eos.
    """
    return ((5.0 + length) / 6.0) ** alpha


def make_hypothesis(ids: Iterable[int], total: float, finished: bool, alpha: float) -> Hypothesis:
    """Return a hypothesis with its score, given the log-probability and the penalty's α."""
    ids = list(ids)
    return Hypothesis(ids, total / length_penalty(len(ids) + finished, alpha), total, finished)


def next_token_log_probabilities(
    logits: Float[Tensor, "R T V"],
    generated: Callable[[], Int[Tensor, "R t"]],
    forbidden: Int[Tensor, " N"],
    constraints: RepetitionConstraints,
) -> Float[Tensor, "R V"]:
    """Return the log-probabilities of the next token under the constraints.

    Forbidden tokens and repeated n-grams get -inf; the others are not renormalised. `generated`
    returns the tokens of each row so far, and is called only if a constraint needs them.
    """
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
    """Return the k largest values of each row and their indices, faster than `topk`.

    The k largest values are in the k blocks of the vocabulary with the largest maxima, so only
    these blocks are sorted.
    """
    R, V = table.shape
    count = V // TOPK_BLOCK
    if R * V < 1 << 16 or count <= 2 * k:
        found = table.topk(k, dim=-1) if k > 1 else table.max(dim=-1, keepdim=True)
        return found.values, found.indices
    blocks = table[:, : count * TOPK_BLOCK].unflatten(1, (count, TOPK_BLOCK))
    block = blocks.amax(dim=-1).topk(k, dim=-1).indices[:, :, None]  # (R, k, 1)
    candidates = blocks.gather(1, block.expand(-1, -1, TOPK_BLOCK)).flatten(1)
    indices = (block * TOPK_BLOCK + torch.arange(TOPK_BLOCK, device=table.device)).flatten(1)
    rest = torch.arange(count * TOPK_BLOCK, V, device=table.device).expand(R, -1)
    candidates = torch.cat([candidates, table[:, count * TOPK_BLOCK :]], dim=1)
    best = candidates.topk(k, dim=-1)
    return best.values, torch.cat([indices, rest], dim=1).gather(1, best.indices)


class BatchState:
    """Wraps a model's state: advances it, and keeps the rows of the open hypotheses.

    Rows are moved only where necessary: a hypothesis stays in the row of its parent, and free rows
    are filled from the end of the batch.
    """

    def __init__(self, state: DecoderState, device: torch.device):
        self.memory, self.cache = state
        self.device = device
        self.owns_memory = False  # the caller's memory is not written to; a copy may be

    def step(self, model: AutoregressiveModel, ids: Tensor) -> Tensor:
        """Return the logits after one more token in each row."""
        logits, (self.memory, self.cache) = model.step(ids, DecoderState(self.memory, self.cache))
        return logits

    def keep(self, examples: list[int], rows: list[int]) -> None:
        """Keep these examples of the memory and these rows of the cache, in this order."""
        self.reorder(rows)
        if self.owns_memory:
            self.memory = reorder_rows(self.memory, examples)
        else:
            self.memory = select_rows(self.memory, torch.tensor(examples, device=self.device))
            self.owns_memory = True

    def reorder(self, rows: list[int]) -> None:
        """Keep these rows of the cache, in this order; all examples stay."""
        self.cache = reorder_rows(self.cache, rows)


def compaction_order(kept: Sequence[int]) -> list[int]:
    """Return the kept rows in an order that moves few: rows from the end fill the gaps.

    >>> compaction_order([0, 2, 5, 6])
    [0, 5, 2, 6]
    """
    from_end = iter([row for row in kept if row >= len(kept)])
    remaining = set(kept)
    return [row if row in remaining else next(from_end) for row in range(len(kept))]


@torch.no_grad()
def generate_tokens(
    model: AutoregressiveModel,
    memory: Any,
    choose: ChooseToken,
    *,
    special_tokens: SpecialTokens,
    max_lengths: Lengths,
    length_penalty: float,
    constraints: RepetitionConstraints,
    on_token: TokenCallback = ignore_token,
) -> list[Hypothesis]:
    """Generate one token after another until eos or the maximum length of each example.

    Args:
        choose: `choose(table, examples, t)` returns a token for each row of the log-probabilities
            (R, V), given the example in each row and the number t of the step, from 0.
        on_token: called with the example and its ids after every token.
    """
    check_model(model)
    check_max_lengths(max_lengths)
    limits: list[int] = max_lengths.tolist()
    examples = list(range(len(limits)))  # the example in each row of the batch
    generated: list[list[int]] = [[] for _ in limits]
    totals, finished = [0.0 for _ in limits], [False for _ in limits]
    batch = BatchState(model.init_state(memory), max_lengths.device)
    forbidden = torch.tensor(special_tokens.forbidden, device=max_lengths.device, dtype=torch.long)
    newest = torch.full((len(limits), 1), special_tokens.bos, device=max_lengths.device)

    def generated_ids() -> Tensor:
        return torch.tensor([generated[b] for b in examples], device=max_lengths.device).long()

    for t in range(max(limits)):
        logits = batch.step(model, newest)
        table = next_token_log_probabilities(logits, generated_ids, forbidden, constraints)
        chosen = choose(table, examples, t)[:, None]
        gains = table.gather(1, chosen)[:, 0].tolist()
        tokens = chosen[:, 0].tolist()
        open_rows = []
        for row, (b, token, gain) in enumerate(zip(examples, tokens, gains, strict=True)):
            totals[b] += gain
            if token == special_tokens.eos:
                finished[b] = True
                continue
            generated[b].append(token)
            on_token(b, generated[b])
            if special_tokens.should_stop(generated[b]):
                finished[b] = True
            elif t + 1 < limits[b]:
                open_rows.append(row)
        if not open_rows:
            break
        if len(open_rows) < len(examples):
            order = compaction_order(open_rows)
            batch.keep(order, order)
            examples = [examples[row] for row in order]
            chosen = chosen[order]
        newest = chosen
    return [
        make_hypothesis(ids, total, ended, length_penalty)
        for ids, total, ended in zip(generated, totals, finished, strict=True)
    ]


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
        length_penalty: α of `length_penalty`; changes scores, not tokens.
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
