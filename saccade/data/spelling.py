"""Words as the ids of their bytes. Does not import torch."""

from collections.abc import Iterable

import numpy as np

from saccade.types.arrays import IntArray
from saccade.types.word_ids import END_WORD, FIRST_BYTE, MAX_SPELLED_BYTES, START_WORD


def spell_words(words: Iterable[str]) -> IntArray:
    """Return the byte ids of words between start and end, padded with 0; long words truncated."""
    encoded = [word.encode(errors="replace")[:MAX_SPELLED_BYTES] for word in words]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    table = np.zeros((len(encoded), int(lengths.max(initial=0)) + 2), np.int64)
    columns = np.arange(table.shape[1])
    table[:, 0] = START_WORD
    is_byte = (columns > 0) & (columns <= lengths[:, None])
    table[is_byte] = np.frombuffer(b"".join(encoded), np.uint8).astype(np.int64) + FIRST_BYTE
    table[np.arange(len(encoded)), lengths + 1] = END_WORD
    return table
