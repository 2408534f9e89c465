"""What a decoder remembers between steps, as values that are handed in and handed back.

A state is used once: when it has been handed to `step`, only the returned one is valid. That
lets a memory be a buffer with room to grow, written in place.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class KVCache(NamedTuple):
    """Keys and values of `length` places; the tensors may have room for more.

    `first` counts the places before them that have been forgotten.
    """

    keys: Float[Tensor, "B H S P"]
    values: Float[Tensor, "B H S K"]
    length: int
    offset: int = 0

    @property
    def end(self) -> int:
        """The place that comes next."""
        return self.offset + self.length

    def filled(self) -> tuple[Tensor, Tensor]:
        """The places that have been written."""
        if self.length == self.keys.shape[2]:
            return self.keys, self.values
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


def extend_cache(cache: KVCache | None, new: KVCache) -> KVCache:
    """The memory after T more places.

    Room doubles when it runs out, so that n single steps copy O(n) places and not O(n²).
    """
    if cache is None:
        return new
    if torch.is_grad_enabled():  # a buffer written in place would break the gradient
        before, after = cache.filled(), new.filled()
        keys, values = (torch.cat(pair, dim=2) for pair in zip(before, after, strict=True))
        return KVCache(keys, values, cache.length + new.length, cache.offset)
    length = cache.length + new.length
    keys, values = cache.keys, cache.values
    if length > keys.shape[2]:
        keys, values = (
            _with_room(keys, cache.length, length),
            _with_room(values, cache.length, length),
        )
    new_keys, new_values = new.filled()
    keys[:, :, cache.length : length] = new_keys
    values[:, :, cache.length : length] = new_values
    return KVCache(keys, values, length, cache.offset)


def trim_cache(cache: KVCache, length: int) -> KVCache:
    """The memory without all but the last `length` places."""
    if cache.length <= length:
        return cache
    gone = cache.length - length
    keys, values = (part[:, :, gone:] for part in cache.filled())
    return KVCache(keys, values, length, cache.offset + gone)


def _with_room(buffer: Tensor, filled: int, wanted: int) -> Tensor:
    B, H, S, K = buffer.shape
    larger = buffer.new_empty(B, H, max(wanted, 2 * S, 16), K)
    larger[:, :, :filled] = buffer[:, :, :filled]
    return larger
