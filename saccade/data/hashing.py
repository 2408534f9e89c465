"""64-bit hashes of byte strings and numbers, the same in every process and on every machine."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

HashArray = NDArray[np.uint64]


def hash_bytes(values: Iterable[bytes]) -> HashArray:
    """Return the 64-bit blake2b hash of each value, read as a big-endian number."""
    digests = b"".join([blake2b(value, digest_size=8).digest() for value in values])
    return np.frombuffer(digests, ">u8").astype(np.uint64)


def mix_bits(values: HashArray) -> HashArray:
    """Return a bijective mixing of 64-bit numbers (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hashed_uniforms(key: int, counters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a random number in [0, 1) for each counter, as a function of the key and the counter.

    The counter-th output of SplitMix64 (Steele et al. 2014) with the key as its seed, so that
    random numbers for any positions of a text are computed together and without those before.
    """
    states = counters.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    return (mix_bits(states) >> np.uint64(11)).astype(np.float64) * 2.0**-53
