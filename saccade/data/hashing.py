"""64-bit hashes of byte strings, the same in every process and on every machine."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

HashArray = NDArray[np.uint64]


def hash_bytes(values: Iterable[bytes]) -> HashArray:
    """Return the 64-bit blake2b hash of each value, read as a big-endian number."""
    digests = b"".join([blake2b(value, digest_size=8).digest() for value in values])
    return np.frombuffer(digests, ">u8").astype(np.uint64)
