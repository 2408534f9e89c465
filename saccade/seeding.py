"""Every random choice is a function of (seed, purpose, step).

Nothing here keeps a state that would have to be saved: whoever knows the three can make the
same choice again. That is what lets a run be taken up at any step and give the same bits.
torch is loaded by those who draw with it, and by nobody else.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def seed_for(seed: int, purpose: str, step: int = 0) -> int:
    """A 63-bit seed that differs for every seed, purpose and step, the same on every machine."""
    digest = blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """A fresh numpy generator for one purpose at one step."""
    return np.random.default_rng(seed_for(seed, purpose, step))


@contextmanager
def preserve_rng() -> Iterator[None]:
    """Give torch's global generator back as it was found: training leaves no mark on the caller."""
    import torch

    with torch.random.fork_rng():
        yield


def seed_torch(seed: int, purpose: str, step: int = 0) -> None:
    """Point torch's global generator (dropout, initial weights) at one purpose and step."""
    import torch

    # asking every kind of device in turn takes half a millisecond
    everywhere = torch.accelerator.is_available()
    seeded = torch.manual_seed if everywhere else torch.default_generator.manual_seed
    seeded(seed_for(seed, purpose, step))


_thread = threading.local()


@contextmanager
def thread_rng(seed: int, purpose: str, step: int) -> Iterator[None]:
    """Let this thread's random choices be its own while the block is open, whatever others do."""
    import torch

    _thread.generator = torch.Generator().manual_seed(seed_for(seed, purpose, step))
    try:
        yield
    finally:
        _thread.generator = None


def thread_generator() -> "torch.Generator | None":
    """What a random choice is to be drawn from here; None is torch's global generator."""
    return getattr(_thread, "generator", None)
