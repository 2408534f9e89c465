"""Random numbers as a function of (seed, purpose, step).

There is no generator state to save: the same three values give the same random numbers, so a run
can be resumed at any step with identical bits. torch is imported only by the functions that use it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def seed_for(seed: int, purpose: str, step: int = 0) -> int:
    """Return a 63-bit hash of seed, purpose and step, the same on every machine."""
    digest = blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """Return a new numpy generator for one purpose at one step."""
    return np.random.default_rng(seed_for(seed, purpose, step))


@contextmanager
def preserve_rng() -> Iterator[None]:
    """Restore the state of torch's global generator at the end of the block."""
    import torch

    with torch.random.fork_rng():
        yield


def seed_torch(seed: int, purpose: str, step: int = 0) -> None:
    """Seed torch's global generator (dropout, initial weights) for one purpose and step."""
    import torch

    # torch.manual_seed queries every kind of device, which takes half a millisecond
    has_accelerator = torch.accelerator.is_available()
    set_seed = torch.manual_seed if has_accelerator else torch.default_generator.manual_seed
    set_seed(seed_for(seed, purpose, step))


_thread = threading.local()


@contextmanager
def thread_rng(seed: int, purpose: str, step: int) -> Iterator[None]:
    """Give this thread its own torch generator inside the block; see `thread_generator`."""
    import torch

    _thread.generator = torch.Generator().manual_seed(seed_for(seed, purpose, step))
    try:
        yield
    finally:
        _thread.generator = None


def thread_generator() -> "torch.Generator | None":
    """Return the generator of this thread; None stands for torch's global generator."""
    return getattr(_thread, "generator", None)


ROWS_PER_BLOCK = 4096


class RandomRows:
    """Rows of random numbers, each a function of the seed, the purpose and its index.

    They are drawn in blocks: a generator for each row would cost more than the row.
    """

    def __init__(self, seed: int, purpose: str, width: int, is_normal: bool = False):
        self.seed, self.purpose, self.width, self.is_normal = seed, purpose, width, is_normal
        self._block = -1, np.empty(0)  # replaced as one, so that threads may share it

    def __getitem__(self, index: int) -> NDArray[np.float64]:
        """Return a row: uniform in [0, 1), or standard normal."""
        block, offset = divmod(index, ROWS_PER_BLOCK)
        known, rows = self._block
        if block != known:
            draw = generator(self.seed, self.purpose, block)
            shape = ROWS_PER_BLOCK, self.width
            rows = draw.standard_normal(shape) if self.is_normal else draw.random(shape)
            self._block = block, rows
        row: NDArray[np.float64] = rows[offset]
        return row
