"""The one legend of shapes, and the values that pass between rooms.

B batch   T steps of the query   S steps of the memory   D width   H heads
K width of one head   F width of the feed-forward   V vocabulary
C channels   Y, X height and width   N items in a list   A actions
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

TokenIds = Int[Tensor, "B T"]
Lengths = Int[Tensor, " B"]
Hidden = Float[Tensor, "B T D"]
Logits = Float[Tensor, "B T V"]
MaySee = Bool[Tensor, "#B #H #T S"]  # True: this query may look at that key


class Batch(NamedTuple):
    """What one step of training sees of a list of examples.

    Rows are padded at the end; a length of None says that no row is. `real` holds the flat
    indices (into B·T) of the target positions that count, so that nothing is computed for the
    others; `lines` the numbers of the examples' lines, so that an error can name them.
    """

    source: Int[Tensor, "B S"]
    source_lengths: Lengths | None
    target_in: TokenIds  # starts with the begin mark
    target_out: Int[Tensor, " N"]  # the real tokens only, ends with the end mark
    target_positions: Int[Tensor, " N"] | None  # None: all of B·T
    weights: Float[Tensor, " N"] | None  # None: every token counts once
    lines: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """How many target tokens the batch teaches."""
        return self.target_out.shape[0]


class DecoderState(NamedTuple):
    """All that a generator needs for its next step.

    `memory` is what was read before the first step (an encoded source): one row a sentence, and
    never changed. `past` is what the steps have added: one row a hypothesis, so that the
    hypotheses of one sentence share its memory and none of it is copied for a beam.
    """

    memory: Any
    cache: Any


def select_rows(tree: Any, rows: Tensor) -> Any:
    """The same tree of tensors with only these rows of the batch, in this order."""
    return _each(tree, lambda tensor: tensor.index_select(0, rows))


def reorder_rows(tree: Any, rows: list[int]) -> Any:
    """`select`, but in the tree's own tensors: only the rows that change their place are copied."""
    moved = [(place, row) for place, row in enumerate(rows) if place != row]

    def move(tensor: Tensor) -> Tensor:
        if len(rows) > len(tensor):
            return tensor.index_select(0, torch.tensor(rows, device=tensor.device))
        if moved:
            to, source = torch.tensor(moved, device=tensor.device).unbind(1)
            tensor.index_copy_(0, to, tensor.index_select(0, source))
        return tensor[: len(rows)]

    return _each(tree, move)


def _each(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, tuple):
        parts = [_each(part, change) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return tree
