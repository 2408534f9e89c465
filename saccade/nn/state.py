"""What a decoder remembers between steps, as values that are handed in and handed back.

A state is used once: when it has been handed to `step`, only the returned one is valid. That
lets a memory be a buffer with room to grow, written in place.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class KeyValue(NamedTuple):
    """Keys and values of `length` places; the tensors may have room for more.

    `first` counts the places before them that have been forgotten.
    """

    keys: Float[Tensor, "B H S P"]
    values: Float[Tensor, "B H S K"]
    length: int
    first: int = 0

    @property
    def end(self) -> int:
        """The place that comes next."""
        return self.first + self.length

    def used(self) -> tuple[Tensor, Tensor]:
        """The places that have been written."""
        if self.length == self.keys.shape[2]:
            return self.keys, self.values
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


def extend(past: KeyValue | None, new: KeyValue) -> KeyValue:
    """The memory after T more places.

    Room doubles when it runs out, so that n single steps copy O(n) places and not O(n²).
    """
    if past is None:
        return new
    if torch.is_grad_enabled():  # a buffer written in place would break the gradient
        before, after = past.used(), new.used()
        keys, values = (torch.cat(pair, dim=2) for pair in zip(before, after, strict=True))
        return KeyValue(keys, values, past.length + new.length, past.first)
    length = past.length + new.length
    keys, values = past.keys, past.values
    if length > keys.shape[2]:
        keys, values = (
            _with_room(keys, past.length, length),
            _with_room(values, past.length, length),
        )
    new_keys, new_values = new.used()
    keys[:, :, past.length : length] = new_keys
    values[:, :, past.length : length] = new_values
    return KeyValue(keys, values, length, past.first)


def newest(past: KeyValue, length: int) -> KeyValue:
    """The memory without all but the last `length` places."""
    if past.length <= length:
        return past
    gone = past.length - length
    keys, values = (part[:, :, gone:] for part in past.used())
    return KeyValue(keys, values, length, past.first + gone)


def _with_room(buffer: Tensor, used: int, wanted: int) -> Tensor:
    B, H, S, K = buffer.shape
    larger = buffer.new_empty(B, H, max(wanted, 2 * S, 16), K)
    larger[:, :, :used] = buffer[:, :, :used]
    return larger
