r"""Sliding-window attention in blocks: the cost grows with T times the window, not with T · S.

A mask alone saves nothing: a kernel that gets a table of T × S still computes all products. Here
the queries are cut into blocks of b. The queries of a block attend at most to the keys from `back`
positions before the block to `ahead` after it; these b + back + ahead keys are gathered, and dense
attention runs on all blocks as rows of a larger batch, with a table of b × (b + back + ahead) each.
That is O(T · (b + back + ahead)) products in place of O(T · S).

The blocks are those of Beltagy et al. 2020 (Longformer, section 3.1) and Child et al. 2019; the
result is that of the masked attention, which the tests prove.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from saccade.nn.masks import Mask, WindowSize
from saccade.types.shapes import MaySee

# query, keys, values, table of who may attend to whom, and the position of the first query
AttendFn = Callable[[Tensor, Tensor, Tensor, MaySee | None, int], Tensor]

MIN_WINDOW_BLOCK = 32  # queries in a block: smaller matrix products are inefficient
MIN_WINDOW_GAIN = 2  # ratio of keys to gathered keys, below which copying them costs more


def window_attention_reference(
    attend: AttendFn,
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    values: Float[Tensor, "B G S K"],
    mask: Mask,
) -> Float[Tensor, "B H T K"]:
    """Attend with the whole table of T × S."""
    T, S = query.shape[-2], keys.shape[-2]
    return attend(query, keys, values, mask.may_see(T, S, query.device), S - T)


def block_size(window_size: WindowSize, query_length: int, key_length: int) -> int | None:
    """Return the number of queries in a block, or None where blocks would not be faster."""
    block = max(window_size.back, window_size.ahead, MIN_WINDOW_BLOCK)
    gathered = block + window_size.back + window_size.ahead
    return block if query_length > block and key_length > MIN_WINDOW_GAIN * gathered else None


def sliding_window_attention(
    attend: AttendFn,
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    values: Float[Tensor, "B G S K"],
    mask: Mask,
    window_size: WindowSize,
) -> Float[Tensor, "B H T K"]:
    """Attend under a mask with that window, skipping the keys that no query may attend to."""
    query_length, key_length = query.shape[-2], keys.shape[-2]
    skipped = max(0, key_length - query_length - window_size.back)  # before every window
    block = block_size(window_size, query_length, key_length - skipped)
    if block is not None:
        return blocked_window_attention(attend, query, keys, values, mask, window_size, block)
    may_see = mask.may_see(query_length, key_length, query.device, skipped)
    keys, values = keys[:, :, skipped:], values[:, :, skipped:]
    return attend(query, keys, values, may_see, key_length - skipped - query_length)


def blocked_window_attention(
    attend: AttendFn,
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    values: Float[Tensor, "B G S K"],
    mask: Mask,
    window_size: WindowSize,
    block: int,
) -> Float[Tensor, "B H T K"]:
    """Attend from `block` queries at a time."""
    B, H, T, _ = query.shape
    first_query = keys.shape[-2] - T
    count = -(-T // block)
    missing = count * block - T
    blocks = F.pad(query, (0, 0, 0, missing)).unflatten(2, (count, block))
    near_keys, near_values = (
        _neighbourhoods(x, first_query, window_size, block, missing) for x in (keys, values)
    )
    may_see = _tables(mask, window_size, B, T, keys.shape[-2], block, query.device)
    rows = blocks.transpose(1, 2).flatten(0, 1)
    attended = attend(rows, near_keys, near_values, may_see, window_size.back)
    return attended.transpose(1, 2).reshape(B, count * block, H, -1)[:, :T].transpose(1, 2)


def _neighbourhoods(
    x: Float[Tensor, "B G S P"], first_query: int, window_size: WindowSize, block: int, missing: int
) -> Float[Tensor, "b G s P"]:
    """Gather the keys or values that each block may need, as rows of a larger batch."""
    # negative padding crops
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
    """Return the mask of each row and block; positions outside the sequence are hidden."""
    first_query = key_length - query_length
    starts = torch.arange(first_query, key_length, block, device=device)[:, None]
    query = starts + torch.arange(block, device=device)
    key = starts + torch.arange(-window_size.back, block + window_size.ahead, device=device)
    inside = (key >= 0) & (key < key_length)
    table = mask.table(query[None, :, :, None], key[None, :, None, :], first_query)
    table = table & inside[None, :, None, :]
    return table.expand(rows, -1, -1, -1).flatten(0, 1).unsqueeze(1)
