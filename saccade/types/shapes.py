"""The shape legend of the library, and tensors that travel between packages.

B batch   T query positions   S memory positions   D width   H heads
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
Images = Float[Tensor, "B C Y X"]  # normalised
Source = Int[Tensor, "B S"] | Images  # what an encoder reads: token ids, or images
MaySee = Bool[Tensor, "#B #H #T S"]  # True: this query may attend to that key


class Batch(NamedTuple):
    """A padded batch of sentence pairs, or of images with captions.

    Rows are padded at the end; `source_lengths` is None if no row is padded. `target_positions`
    holds the flat indices (into B·T) of the target tokens, so that the output layer skips padding;
    `lines` the line numbers of the examples, for error messages.
    """

    source: Source
    source_lengths: Lengths | None
    target_in: TokenIds  # starts with bos
    target_out: Int[Tensor, " N"]  # without padding, ends with eos
    target_positions: Int[Tensor, " N"] | None  # None: all of B·T
    weights: Float[Tensor, " N"] | None  # None: all tokens have weight 1
    lines: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Number of target tokens."""
        return self.target_out.shape[0]


class DecoderState(NamedTuple):
    """Everything a decoder needs for its next step.

    `memory` is the encoded source: one row per sentence, never changed. `cache` is what the steps
    have added: one row per hypothesis, so the hypotheses of a beam share the memory of their
    sentence without copying it.
    """

    memory: Any
    cache: Any


def select_rows(tree: Any, rows: Tensor) -> Any:
    """Return the tree of tensors with only these rows of the batch, in this order."""
    return _map_tensors(tree, lambda tensor: tensor.index_select(0, rows))


def reorder_rows(tree: Any, rows: list[int]) -> Any:
    """Do `select_rows` in place where possible: copy only the rows that change their index."""
    moved = [(index, row) for index, row in enumerate(rows) if index != row]

    def move(tensor: Tensor) -> Tensor:
        if len(rows) > len(tensor):
            return tensor.index_select(0, torch.tensor(rows, device=tensor.device))
        if moved:
            to, source = torch.tensor(moved, device=tensor.device).unbind(1)
            tensor.index_copy_(0, to, tensor.index_select(0, source))
        return tensor[: len(rows)]

    return _map_tensors(tree, move)


def count_bytes(tree: Any) -> int:
    """Return the bytes of all tensors of a tree."""
    sizes: list[int] = []

    def add(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor

    _map_tensors(tree, add)
    return sum(sizes)


def _map_tensors(tree: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to every tensor of nested (named) tuples; keep other leaves."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, tuple):
        parts = [_map_tensors(part, function) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return tree
