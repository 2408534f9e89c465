r"""Attention through a window, in blocks: the cost grows with the window, not with the length.

A mask alone saves nothing: a kernel that is handed a table of T × S still makes all its products.
Here the queries are cut into blocks of b. A block's queries see, of all keys, at most those from
`back` places before the block to `ahead` after it; these b + back + ahead are laid beside it and
the ordinary attention is asked for all blocks at once, as rows of a larger batch, with a table of
b × (b + back + ahead) each. That is O(T · (b + back + ahead)) products in place of O(T · S).

The cut is that of Beltagy et al. 2020 (Longformer, section 3.1) and Child et al. 2019; the result
is the masked attention itself, which a law in the tests says.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from saccade.nn.masks import Mask, WindowSize
from saccade.types.shapes import MaySee

# query, keys, values, who may see whom, and the key at which the first query stands
AttendFn = Callable[[Tensor, Tensor, Tensor, MaySee | None, int], Tensor]

MIN_WINDOW_BLOCK = 32  # queries in a block: smaller products leave the processor waiting
MIN_WINDOW_GAIN = 2  # blocks copy the keys, which must pay


def block_size(window_size: WindowSize, query_length: int, key_length: int) -> int | None:
    """How many queries to a block, or None where blocks would not gain."""
    block = max(window_size.back, window_size.ahead, MIN_WINDOW_BLOCK)
    beside = block + window_size.back + window_size.ahead
    return block if query_length > block and key_length > MIN_WINDOW_GAIN * beside else None


def sliding_window_attention(
    attend: AttendFn,
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    values: Float[Tensor, "B G S K"],
    mask: Mask,
    window_size: WindowSize,
) -> Float[Tensor, "B H T K"]:
    """Attention under a mask with that reach; what no query sees is not read."""
    query_length, key_length = query.shape[-2], keys.shape[-2]
    unseen = max(0, key_length - query_length - window_size.back)  # before the first query's window
    block = block_size(window_size, query_length, key_length - unseen)
    if block is not None:
        return blocked_window_attention(attend, query, keys, values, mask, window_size, block)
    may_see = mask.may_see(query_length, key_length, query.device, unseen)
    seen = key_length - unseen
    return attend(query, keys[:, :, unseen:], values[:, :, unseen:], may_see, seen - query_length)


def blocked_window_attention(
    attend: AttendFn,
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    values: Float[Tensor, "B G S K"],
    mask: Mask,
    window_size: WindowSize,
    block: int,
) -> Float[Tensor, "B H T K"]:
    """The same, `block` queries at a time."""
    B, H, T, _ = query.shape
    first_query = keys.shape[-2] - T  # the place of the first query
    count = -(-T // block)
    missing = count * block - T
    asked = F.pad(query, (0, 0, 0, missing)).unflatten(2, (count, block))
    near_keys, near_values = (
        _beside(x, first_query, window_size, block, missing) for x in (keys, values)
    )
    may_see = _tables(mask, window_size, B, T, keys.shape[-2], block, query.device)
    rows = asked.transpose(1, 2).flatten(0, 1)
    seen = attend(rows, near_keys, near_values, may_see, window_size.back)
    return seen.transpose(1, 2).reshape(B, count * block, H, -1)[:, :T].transpose(1, 2)


def _beside(
    x: Float[Tensor, "B G S P"], first_query: int, window_size: WindowSize, block: int, missing: int
) -> Float[Tensor, "b G s P"]:
    """The keys or values that each block may need, as rows of a larger batch."""
    # a negative number cuts off
    whole = F.pad(x, (0, 0, window_size.back - first_query, missing + window_size.ahead))
    size = block + window_size.back + window_size.ahead
    return whole.unfold(2, size, block).permute(0, 2, 1, 4, 3).flatten(0, 1)


def _tables(
    mask: Mask,
    window_size: WindowSize,
    rows: int,
    query_length: int,
    key_length: int,
    block: int,
    device: torch.device,
) -> MaySee:
    """For each row and block, who may see whom; what stands outside the sequence is not seen."""
    starts = torch.arange(key_length - query_length, key_length, block, device=device)[:, None]
    query = starts + torch.arange(block, device=device)
    key = starts + torch.arange(-window_size.back, block + window_size.ahead, device=device)
    inside = (key >= 0) & (key < key_length)
    table = mask.table(query[None, :, :, None], key[None, :, None, :]) & inside[None, :, None, :]
    return table.expand(rows, -1, -1, -1).flatten(0, 1).unsqueeze(1)
