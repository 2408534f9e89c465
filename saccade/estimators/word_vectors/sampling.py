r"""Drawing words at random, in kernels: a stream of numbers, and words by their frequency.

- **A stream**: xorshift64* (Vigna 2016), one 64-bit state for each block of text, so that what is
  drawn for a block does not depend on which thread learns it, or when.
- **Subsampling** (Mikolov et al. 2013, as word2vec.c has it): a word of relative frequency f is
  kept with the chance \(\sqrt{t/f} + t/f\), at most 1. (The paper prints \(1 - \sqrt{t/f}\) for
  the chance of leaving it out.)
- **Negatives** by count^power with Walker's alias method: one number and one look-up a draw, exact
  for rare words too, whatever the size of the vocabulary (word2vec.c: a table of 100 million
  places).
- **Huffman's code** for hierarchical softmax: frequent words have short paths."""

from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.compiled.jit import jit_nogil, jit_nogil_no_nrt

Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
Int32Array = NDArray[np.int32]
RngState = NDArray[np.uint64]  # one number: where the stream stands

_SHARE = 1.0 / (1 << 24)


def rng_state(*purpose: int) -> RngState:
    """A stream for one purpose: (seed, epoch, block), say."""
    state = np.random.SeedSequence(purpose).generate_state(1, np.uint64)
    return np.maximum(state, 1)  # from 0 it would not move


@jit_nogil_no_nrt
def next_bits(state: RngState) -> np.uint64:
    """The next 64 bits."""
    bits = state[0]
    bits ^= bits >> np.uint64(12)
    bits ^= bits << np.uint64(25)
    bits ^= bits >> np.uint64(27)
    state[0] = bits
    return bits * np.uint64(0x2545F4914F6CDD1D)


@jit_nogil_no_nrt
def random_below(state: RngState, count: int) -> int:
    """A whole number from 0 to count − 1 (count at most 2³²)."""
    return np.int64(((next_bits(state) >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))  # type: ignore[return-value]


@jit_nogil_no_nrt
def random_uniform(state: RngState) -> np.float32:
    """A number from 0 up to, but not with, 1."""
    return np.float32(next_bits(state) >> np.uint64(40)) * np.float32(_SHARE)


# --- subsampling ----------------------------------------------------------------------------------


def keep_probabilities(counts: IntArray, threshold: float) -> Float32Array:
    """The chance with which each word is kept; a threshold of 0 keeps them all."""
    if threshold <= 0:
        return np.ones(len(counts), np.float32)
    over = threshold / (counts / counts.sum())
    return np.minimum(np.sqrt(over) + over, 1.0).astype(np.float32)


# --- by frequency ---------------------------------------------------------------------------------


def alias_table(weights: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Walker's table for these weights: in each row how often it is itself, and who else it is."""
    share = weights * (len(weights) / weights.sum())
    itself, other = np.ones(len(weights)), np.arange(len(weights))
    poor = np.flatnonzero(share < 1).tolist()
    rich = np.flatnonzero(share >= 1).tolist()
    left = share.tolist()
    while poor and rich:
        low, high = poor.pop(), rich.pop()
        itself[low], other[low] = left[low], high
        left[high] -= 1 - left[low]
        (poor if left[high] < 1 else rich).append(high)
    table = np.empty((len(weights), 2), np.uint32)
    table[:, 0] = np.minimum(itself * 2.0**32, 2.0**32 - 1)
    table[:, 1] = other
    return table


@jit_nogil_no_nrt
def sample_alias(state: RngState, table: NDArray[np.uint32]) -> int:
    """A word by its weight: a row at random, and then itself or the other one."""
    bits = next_bits(state)
    row = np.int64(((bits >> np.uint64(32)) * np.uint64(len(table))) >> np.uint64(32))
    if np.uint32(bits & np.uint64(0xFFFFFFFF)) < table[row, 0]:
        return row  # type: ignore[return-value]
    return np.int64(table[row, 1])  # type: ignore[return-value]


# --- Huffman's code -------------------------------------------------------------------------------


class HuffmanPaths(NamedTuple):
    """The way from the root to each word: nodes[starts[w] : starts[w + 1]], and where it turns.

    There is one inner node fewer than there are words, and each has an output vector.
    """

    starts: IntArray
    nodes: Int32Array
    code_bits: Float32Array  # 1 or 0: what the product with the node's vector is to say


def huffman_paths(counts: IntArray) -> HuffmanPaths:
    """The tree in which Σ count · length of the path is least."""
    size = len(counts)
    if size == 1:  # a tree without a choice
        return HuffmanPaths(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    parent = np.zeros(2 * size - 1, np.int64)
    turn = np.zeros(2 * size - 1, np.float32)
    # ties go to the older: the code is the same on every machine
    heap = [(int(count), number) for number, count in enumerate(counts)]
    heapify(heap)
    for node in range(size, 2 * size - 1):
        first = heappop(heap)
        second = heap[0]
        parent[first[1]] = parent[second[1]] = node
        turn[second[1]] = 1
        heapreplace(heap, (first[0] + second[0], node))
    return _paths(parent, turn, size)


@jit_nogil
def _paths(parent: IntArray, turn: Float32Array, size: int) -> HuffmanPaths:
    root = 2 * size - 2
    starts = np.zeros(size + 1, np.int64)
    for word in range(size):
        length, node = 0, word
        while node != root:
            node = parent[node]
            length += 1
        starts[word + 1] = starts[word] + length
    nodes, code_bits = np.empty(starts[size], np.int32), np.empty(starts[size], np.float32)
    for word in range(size):
        place, node = starts[word + 1], word
        while node != root:
            place -= 1
            code_bits[place] = turn[node]
            node = parent[node]
            nodes[place] = node - size
    return HuffmanPaths(starts, nodes, code_bits)
