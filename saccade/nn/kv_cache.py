"""Key/value cache of a decoder, as a value that is passed in and returned.

A cache is used once: after it was passed to `extend_cache`, only the returned one is valid. So a
cache can be a buffer with spare capacity that is written in place.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class KVCache(NamedTuple):
    """Keys and values of `length` positions; the tensors may have capacity for more.

    `offset` is the number of earlier positions that were dropped.
    """

    keys: Float[Tensor, "B H S P"]
    values: Float[Tensor, "B H S K"]
    length: int
    offset: int = 0

    @property
    def end(self) -> int:
        """The position that comes next."""
        return self.offset + self.length

    def filled(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values without the spare capacity."""
        if self.length == self.keys.shape[2]:
            return self.keys, self.values
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


def extend_cache(cache: KVCache | None, new: KVCache) -> KVCache:
    """Append the keys and values of T further positions.

    The capacity doubles when it runs out, so that n single steps copy O(n) positions, not O(n²).
    """
    if cache is None:
        return new
    if torch.is_grad_enabled():  # a buffer written in place would break the gradient
        old, added = cache.filled(), new.filled()
        keys, values = (torch.cat(pair, dim=2) for pair in zip(old, added, strict=True))
        return KVCache(keys, values, cache.length + new.length, cache.offset)
    length = cache.length + new.length
    keys, values = cache.keys, cache.values
    if length > keys.shape[2]:
        keys, values = (
            _with_capacity(keys, cache.length, length),
            _with_capacity(values, cache.length, length),
        )
    new_keys, new_values = new.filled()
    keys[:, :, cache.length : length] = new_keys
    values[:, :, cache.length : length] = new_values
    return KVCache(keys, values, length, cache.offset)


def trim_cache(cache: KVCache, length: int) -> KVCache:
    """Keep the last `length` positions."""
    if cache.length <= length:
        return cache
    dropped = cache.length - length
    keys, values = (part[:, :, dropped:] for part in cache.filled())
    return KVCache(keys, values, length, cache.offset + dropped)


def _with_capacity(buffer: Tensor, filled: int, required: int) -> Tensor:
    B, H, S, K = buffer.shape
    larger = buffer.new_empty(B, H, max(required, 2 * S, 16), K)
    larger[:, :, :filled] = buffer[:, :, :filled]
    return larger
