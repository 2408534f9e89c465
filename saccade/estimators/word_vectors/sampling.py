r"""Random sampling inside compiled kernels, and Huffman coding of the vocabulary.

- **Random numbers**: xorshift64* (Vigna 2016), with one 64-bit state per block of text, so that the
  numbers of a block do not depend on which thread trains on it, or when.
- **Subsampling** (Mikolov et al. 2013, as implemented in word2vec.c): an occurrence of a word of
  relative frequency f is kept with probability \(\min(1, \sqrt{t/f} + t/f)\). (The paper prints a
  discard probability of \(1 - \sqrt{t/f}\).)
- **Negatives** are drawn ∝ count^power by Walker's alias method: one random number and one lookup
  per draw, exact for rare words and for any vocabulary size (word2vec.c: a table with 100 million
  entries).
- **Huffman coding** for hierarchical softmax: frequent words have short paths."""

from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.compiled.jit import jit_nogil, jit_nogil_no_nrt
from saccade.types.arrays import Float32Array, FloatArray, Int32Array, IntArray

RngState = NDArray[np.uint64]  # (1,) the state of xorshift64*, updated in place

_TWO_TO_MINUS_24 = 1.0 / (1 << 24)


def rng_state(*purpose: int) -> RngState:
    """Return the initial state of the stream for one purpose, such as (seed, epoch, block)."""
    state = np.random.SeedSequence(purpose).generate_state(1, np.uint64)
    return np.maximum(state, 1)  # 0 is a fixed point of xorshift


@jit_nogil_no_nrt
def next_bits(state: RngState) -> np.uint64:
    """Advance the state and return 64 random bits."""
    bits = state[0]
    bits ^= bits >> np.uint64(12)
    bits ^= bits << np.uint64(25)
    bits ^= bits >> np.uint64(27)
    state[0] = bits
    return bits * np.uint64(0x2545F4914F6CDD1D)


@jit_nogil_no_nrt
def random_below(state: RngState, count: int) -> int:
    """Return a random integer from 0 to count − 1; count is at most 2³²."""
    return np.int64(((next_bits(state) >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))  # type: ignore[return-value]


@jit_nogil_no_nrt
def random_uniform(state: RngState) -> np.float32:
    """Return a random number in [0, 1) with 24 bits."""
    return np.float32(next_bits(state) >> np.uint64(40)) * np.float32(_TWO_TO_MINUS_24)


# --- subsampling ----------------------------------------------------------------------------------


def keep_probabilities(counts: IntArray, threshold: float) -> Float32Array:
    """Return each word's probability of being kept by subsampling; a threshold of 0 keeps all."""
    if threshold <= 0:
        return np.ones(len(counts), np.float32)
    ratio = threshold / (counts / counts.sum())
    return np.minimum(np.sqrt(ratio) + ratio, 1.0).astype(np.float32)


# --- alias method ---------------------------------------------------------------------------------


def alias_table(weights: FloatArray) -> NDArray[np.uint32]:
    """Return Walker's alias table (V, 2) for sampling ∝ weights.

    Column 0 is the probability of keeping the row itself, scaled to 2³²; column 1 is its alias.
    """
    scaled = weights * (len(weights) / weights.sum())
    keep, alias = np.ones(len(weights)), np.arange(len(weights))
    small = np.flatnonzero(scaled < 1).tolist()
    large = np.flatnonzero(scaled >= 1).tolist()
    remaining = scaled.tolist()
    while small and large:
        low, high = small.pop(), large.pop()
        keep[low], alias[low] = remaining[low], high
        remaining[high] -= 1 - remaining[low]
        (small if remaining[high] < 1 else large).append(high)
    table = np.empty((len(weights), 2), np.uint32)
    table[:, 0] = np.minimum(keep * 2.0**32, 2.0**32 - 1)
    table[:, 1] = alias
    return table


@jit_nogil_no_nrt
def sample_alias(state: RngState, table: NDArray[np.uint32]) -> int:
    """Draw a word from an alias table: a uniform row, then the row itself or its alias."""
    bits = next_bits(state)
    row = np.int64(((bits >> np.uint64(32)) * np.uint64(len(table))) >> np.uint64(32))
    if np.uint32(bits & np.uint64(0xFFFFFFFF)) < table[row, 0]:
        return row  # type: ignore[return-value]
    return np.int64(table[row, 1])  # type: ignore[return-value]


# --- Huffman coding -------------------------------------------------------------------------------


class HuffmanPaths(NamedTuple):
    """Path from the root to each word: nodes[starts[w] : starts[w + 1]], with the code's bits.

    There is one inner node fewer than there are words, and each has an output vector.
    """

    starts: IntArray
    nodes: Int32Array
    code_bits: Float32Array  # 1 or 0: the label that σ(h · u_node) is trained to predict


def huffman_paths(counts: IntArray | FloatArray) -> HuffmanPaths:
    """Return the paths of the Huffman tree, which minimises Σ_w count_w · path length_w."""
    size = len(counts)
    if size == 1:  # no inner node
        return HuffmanPaths(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    parent = np.zeros(2 * size - 1, np.int64)
    code_bit = np.zeros(2 * size - 1, np.float32)
    # ties are broken by node number, so that the code is the same on every machine
    heap = [(count, number) for number, count in enumerate(counts.tolist())]
    heapify(heap)
    for node in range(size, 2 * size - 1):
        first = heappop(heap)
        second = heap[0]
        parent[first[1]] = parent[second[1]] = node
        code_bit[second[1]] = 1
        heapreplace(heap, (first[0] + second[0], node))
    return _paths_to_leaves(parent, code_bit, size)


@jit_nogil
def _paths_to_leaves(parent: IntArray, code_bit: Float32Array, size: int) -> HuffmanPaths:
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
        position, node = starts[word + 1], word
        while node != root:
            position -= 1
            code_bits[position] = code_bit[node]
            node = parent[node]
            nodes[position] = node - size
    return HuffmanPaths(starts, nodes, code_bits)
