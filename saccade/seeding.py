"""Every random choice is a function of (seed, purpose, step).

Nothing here keeps a state that would have to be saved: whoever knows the three can make the
same choice again. That is what lets a run be taken up at any step and give the same bits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import numpy as np
import torch


def seed_for(seed: int, purpose: str, step: int = 0) -> int:
    """A 63-bit seed that differs for every seed, purpose and step, the same on every machine."""
    digest = blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """A fresh numpy generator for one purpose at one step."""
    return np.random.default_rng(seed_for(seed, purpose, step))


@contextmanager
def borrowed() -> Iterator[None]:
    """Give torch's global generator back as it was found: training leaves no mark on the caller."""
    with torch.random.fork_rng():
        yield


def reseed(seed: int, purpose: str, step: int = 0) -> None:
    """Point torch's global generator (dropout, initial weights) at one purpose and step."""
    torch.manual_seed(seed_for(seed, purpose, step))
