r"""Compiled training loop of word2vec and fastText vectors over windows of text.

One kernel covers skip-gram and CBOW, words and subwords, negative sampling and hierarchical
softmax. At each position of a text, a *bag* of input rows predicts one or more target words:

- **skip-gram**: the bag of the center word predicts each of its context words;
- **CBOW**: the bags of the context words together predict the center word.

The bag of a word is its own row and, with subwords (fastText), the rows of its character n-grams.
The hidden vector h is the mean of the bag and is scored against output rows u:

- **negative sampling** (Mikolov et al. 2013): for each target t, K negatives n are drawn with
  probability proportional to count^power,
  \(\ell = -\log\sigma(h \cdot u_t) - \sum_{k=1}^{K} \log\sigma(-h \cdot u_{n_k})\);
- **hierarchical softmax** (Morin and Bengio 2005): \(-\sum_j \log\sigma(\pm h \cdot u_j)\) over the
  nodes j on the target's path in the Huffman tree.

One SGD step per window: with \(g = (\text{label} - \sigma(h \cdot u))\,\alpha\),
\(e \mathrel{+}= g\,u\), \(u \mathrel{+}= g\,h\), and finally every row of the bag
\(\mathrel{+}= e\).

Differences from word2vec.c, gensim and fastText: they process each (input, target) pair separately,
with K negatives of its own. Here the targets of a group of adjacent windows (four for skip-gram,
eight for CBOW) share S negatives, whose loss terms are weighted by targets · K / S (shared
negatives: Ji et al. 2016). The expected gradient is the same; h is read and written once per window
instead of once per pair, and each negative's row is fetched once per group. All windows of a group
use the input rows from before the group, so the update is computed in 4 × 4 tiles, as products of
small matrices. With few shared negatives, skip-gram loses analogy accuracy (`docs/benchmarks.md`).
With hierarchical softmax each thread has its own copy of the nodes near the root, which is
periodically merged with the shared table. As in word2vec.c, each row of a CBOW bag moves by the
whole e, not by e divided by the size of the bag."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.compiled.jit import jit_nogil_no_nrt, prefetch_row
from saccade.data.text.word_corpus import LINE_END
from saccade.estimators.word_vectors.sampling import (
    HuffmanPaths,
    RngState,
    random_below,
    random_uniform,
    sample_alias,
)
from saccade.types.arrays import ByteArray, Float32Array, FloatArray, Int32Array, IntArray

MAX_LINE_WORDS = 10_000  # a longer line is split, as in word2vec.c (MAX_SENTENCE_LENGTH: 1,000)
TILE_SIZE = 4  # windows and negatives per tile of the negative-sampling update
MAX_SHARED_WINDOWS = 8  # windows per group that shares its negatives
MAX_COPIED_NODES = 512  # Huffman nodes nearest to the root of which each thread has its own copy
WINDOWS_PER_MERGE = 1024  # windows between two merges of these copies into the shared table

# σ(x) is tabulated over [−8, 8); beyond, 1 − σ(|x|) is below 0.0004
_SIGMOID_RANGE, _SIGMOID_BINS = 8.0, 4096
_bin_centers = (np.arange(_SIGMOID_BINS) + 0.5) * (
    2 * _SIGMOID_RANGE / _SIGMOID_BINS
) - _SIGMOID_RANGE
SIGMOID_TABLE = (1 / (1 + np.exp(-_bin_centers))).astype(np.float32)


class VocabularyTables(NamedTuple):
    """Per-word tables: subsampling, negative sampling, and the bag of input rows of each word."""

    keep_probabilities: Float32Array  # (V,) probability of keeping an occurrence (subsampling)
    table: NDArray[np.uint32]  # (V, 2) alias table of the negative-sampling distribution
    starts: IntArray  # (V + 1,) the bag of word w is rows[starts[w] : starts[w + 1]]
    rows: Int32Array


class WindowParams(NamedTuple):
    """Window size, architecture and negative sampling, in the form the kernel takes."""

    radius: int  # maximum context words on either side; the actual radius is drawn per position
    is_cbow: bool  # the context predicts the center word (CBOW), or the reverse (skip-gram)
    negatives: int  # negatives per target, K; 0: hierarchical softmax
    shared_negatives: int  # negatives drawn per group of windows, S
    windows_per_group: int  # 4 or 8; 1 with hierarchical softmax


class Word2VecKernelArgs(NamedTuple):
    """Tables, weights and hyper-parameters that stay the same for all blocks of a text."""

    words: VocabularyTables
    paths: HuffmanPaths
    inputs: Float32Array
    outputs: Float32Array
    windows: WindowParams
    sigmoid_table: Float32Array


@jit_nogil_no_nrt
def sigmoid_from_table(x: np.float32, table: Float32Array) -> np.float32:
    """Return σ(x), looked up in `SIGMOID_TABLE`; x is clipped to the range of the table."""
    position = x * np.float32(_SIGMOID_BINS / (2 * _SIGMOID_RANGE)) + np.float32(_SIGMOID_BINS / 2)
    return table[np.int64(min(max(position, np.float32(0)), np.float32(_SIGMOID_BINS - 1)))]


@jit_nogil_no_nrt
def row_dot(a: Float32Array, b: Float32Array) -> np.float32:
    """Return the dot product a · b."""
    total = np.float32(0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@jit_nogil_no_nrt
def sgd_pair(h: Float32Array, e: Float32Array, u: Float32Array, g: np.float32) -> None:
    """Add g · u to e (the accumulated update of h), then g · h to u."""
    for d in range(h.shape[0]):
        e[d] += g * u[d]
        u[d] += g * h[d]


@jit_nogil_no_nrt
def scalar_softplus(x: np.float32) -> float:
    """Return log(1 + eˣ) = −log σ(−x) without overflow."""
    return max(float(x), 0.0) + np.log1p(np.exp(-abs(float(x))))


class NegativeSamplingBuffers(NamedTuple):
    """Scratch arrays of `negative_sampling_step`."""

    target_bits: ByteArray  # (V,) bit i is set: the word is a target of window i of the group
    # (2, MAX_SHARED_WINDOWS) weight of a negative's loss term in each window: [0] for a word that
    # is no target of the window, [1] for one that is
    weights: Float32Array
    gains: Float32Array  # (TILE_SIZE, TILE_SIZE) g of each negative (rows) and window (columns)


class WindowBuffers(NamedTuple):
    """Scratch arrays of one call; the first axis is the window within the group."""

    h: Float32Array
    e: Float32Array
    line: Int32Array  # the words of a line that subsampling kept
    centers: Int32Array  # (MAX_SHARED_WINDOWS, 1) the center word of each window
    center_counts: IntArray  # always 1
    contexts: Int32Array  # (MAX_SHARED_WINDOWS, 2 · radius) the context words of each window
    context_counts: IntArray
    bags: Int32Array  # (MAX_SHARED_WINDOWS, …) with subwords: the input rows of each window
    bag_counts: IntArray
    negatives: IntArray
    next_negatives: IntArray  # of the next group, drawn early so that their rows are prefetched
    sampling: NegativeSamplingBuffers
    copied_nodes: Int32Array  # the nodes that the thread copies; empty with negative sampling
    node_copies: Float32Array  # (2, nodes, width) [0] the thread's rows, [1] as of the last merge


def allocate_window_buffers(
    words: VocabularyTables, width: int, windows: WindowParams
) -> WindowBuffers:
    """Allocate the scratch arrays of one call of the kernel."""
    size, bag = len(words.keep_probabilities), int(np.diff(words.starts).max(initial=0))
    last = size - 1  # there is one node fewer than words, and the last of them is the root
    first = last - (0 if windows.negatives else min(MAX_COPIED_NODES, last))
    return WindowBuffers(
        h=np.zeros((MAX_SHARED_WINDOWS, width), np.float32),
        e=np.zeros((MAX_SHARED_WINDOWS, width), np.float32),
        line=np.empty(MAX_LINE_WORDS, np.int32),
        centers=np.empty((MAX_SHARED_WINDOWS, 1), np.int32),
        center_counts=np.ones(MAX_SHARED_WINDOWS, np.int64),
        contexts=np.empty((MAX_SHARED_WINDOWS, 2 * windows.radius), np.int32),
        context_counts=np.empty(MAX_SHARED_WINDOWS, np.int64),
        bags=np.empty(
            (MAX_SHARED_WINDOWS, bag * (2 * windows.radius if windows.is_cbow else 1)), np.int32
        ),
        bag_counts=np.empty(MAX_SHARED_WINDOWS, np.int64),
        negatives=np.empty(windows.shared_negatives, np.int64),
        next_negatives=np.empty(windows.shared_negatives, np.int64),
        sampling=NegativeSamplingBuffers(
            target_bits=np.zeros(size, np.uint8),
            weights=np.empty((2, MAX_SHARED_WINDOWS), np.float32),
            gains=np.empty((TILE_SIZE, TILE_SIZE), np.float32),
        ),
        copied_nodes=np.arange(first, last, dtype=np.int32),
        node_copies=np.zeros((2, last - first, width), np.float32),
    )


def train_on_text(
    text: Int32Array,
    args: Word2VecKernelArgs,
    learning_rate: float,
    state: RngState,
    loss_sums: FloatArray,
) -> int:
    """Train on one pass over a text and return the number of positions used.

    With a learning rate of 0 the weights stay as they are, and the loss is added to loss_sums[0]
    and the number of targets to loss_sums[1]: evaluation of held-out text.
    """
    buffers = allocate_window_buffers(args.words, args.inputs.shape[1], args.windows)
    return _train_on_text(text, args, learning_rate, state, loss_sums, buffers)


@jit_nogil_no_nrt
def _train_on_text(
    text: Int32Array,
    args: Word2VecKernelArgs,
    learning_rate: float,
    state: RngState,
    loss_sums: FloatArray,
    buffers: WindowBuffers,
) -> int:
    words, windows, inputs, outputs = args.words, args.windows, args.inputs, args.outputs
    h, e, line = buffers.h, buffers.e, buffers.line
    centers, center_counts = buffers.centers, buffers.center_counts
    contexts, context_counts = buffers.contexts, buffers.context_counts
    bags, bag_counts = buffers.bags, buffers.bag_counts
    negatives, next_negatives = buffers.negatives, buffers.next_negatives
    nodes, node_copies = buffers.copied_nodes, buffers.node_copies
    sources, source_counts = (
        (contexts, context_counts) if windows.is_cbow else (centers, center_counts)
    )
    targets, target_counts = (
        (centers, center_counts) if windows.is_cbow else (contexts, context_counts)
    )
    # without subwords the bag of a word is its own row
    no_subwords = len(words.rows) == len(words.keep_probabilities)
    rows, row_counts = (sources, source_counts) if no_subwords else (bags, bag_counts)
    windows_per_group = windows.windows_per_group
    num_positions = position = num_windows = 0
    merge_copies(outputs, nodes, node_copies)
    first_copied = first_copied_node(outputs, node_copies[0])
    sample_negatives(next_negatives, words.table, state, outputs)
    while position < len(text):
        length, position = next_line(text, position, words.keep_probabilities, state, line)
        if length < 2:  # no context words
            continue
        num_positions += length
        for first in range(0, length, windows_per_group):
            size = min(windows_per_group, length - first)
            for i in range(size):
                centers[i, 0] = line[first + i]
                context_counts[i] = sample_window(
                    line, length, first + i, windows.radius, state, contexts[i]
                )
            negatives, next_negatives = next_negatives, negatives
            sample_negatives(next_negatives, words.table, state, outputs)
            for at in range(first + windows_per_group, min(first + 2 * windows_per_group, length)):
                prefetch_word(args, line[at], windows.is_cbow, first_copied)
            edge = first + windows_per_group + windows.radius
            for at in range(edge, min(edge + windows_per_group, length)):
                prefetch_word(args, line[at], not windows.is_cbow, first_copied)
            for i in range(size):
                if not no_subwords:
                    bag_counts[i] = gather_bag(bags[i], words, sources[i, : source_counts[i]])
                mean_rows(h[i], inputs, rows[i, : row_counts[i]])
                e[i] = 0
            if windows.negatives > 0:
                negative_sampling_step(
                    args, buffers, targets, target_counts, size, negatives, learning_rate, loss_sums
                )
            else:
                hierarchical_softmax_step(
                    args, buffers, targets[0, : target_counts[0]], learning_rate, loss_sums
                )
                num_windows += 1
                if num_windows % WINDOWS_PER_MERGE == 0:
                    merge_copies(outputs, nodes, node_copies)
            if learning_rate > 0:
                for i in range(size):
                    scatter_add(e[i], inputs, rows[i, : row_counts[i]])
    merge_copies(outputs, nodes, node_copies)
    return num_positions


@jit_nogil_no_nrt
def merge_copies(table: Float32Array, rows: Int32Array, copies: Float32Array) -> None:
    """Add a thread's changes of some rows to the shared table, then copy these rows back.

    copies[0] are the thread's rows, copies[1] the same as of the last merge. Threads that write to
    one row at every step would spend most of the time waiting for its cache line.
    """
    for index, row in enumerate(rows):
        shared, own, before = table[row], copies[0, index], copies[1, index]
        for d in range(own.shape[0]):
            shared[d] += own[d] - before[d]
            own[d] = before[d] = shared[d]


@jit_nogil_no_nrt
def first_copied_node(outputs: Float32Array, copies: Float32Array) -> int:
    """Return the first node that a thread has copied; all after it, up to the root, are too."""
    return len(outputs) - 1 - len(copies)


@jit_nogil_no_nrt
def sample_negatives(
    negatives: IntArray, table: NDArray[np.uint32], state: RngState, outputs: Float32Array
) -> None:
    """Fill `negatives` with words drawn from the alias table, and prefetch their output rows."""
    for k in range(len(negatives)):
        negatives[k] = sample_alias(state, table)
        prefetch_row(outputs, negatives[k])


@jit_nogil_no_nrt
def prefetch_word(args: Word2VecKernelArgs, word: int, as_target: bool, first_copied: int) -> None:
    """Prefetch the rows of a word that is about to be a target, or a source.

    Nodes from `first_copied` on are the thread's copies and not prefetched.
    """
    words, paths = args.words, args.paths
    if not as_target:
        for k in range(words.starts[word], words.starts[word + 1]):
            prefetch_row(args.inputs, words.rows[k])
    elif args.windows.negatives > 0:
        prefetch_row(args.outputs, word)
    else:
        for k in range(paths.starts[word], paths.starts[word + 1]):
            if paths.nodes[k] < first_copied:
                prefetch_row(args.outputs, paths.nodes[k])


@jit_nogil_no_nrt
def sample_window(
    line: Int32Array,
    length: int,
    center: int,
    max_radius: int,
    state: RngState,
    context: Int32Array,
) -> int:
    """Draw a radius of 1 … max_radius, write the context words to `context`, return their count."""
    radius = 1 + random_below(state, max_radius)
    count = 0
    for at in range(max(0, center - radius), min(length, center + radius + 1)):
        if at != center:
            context[count] = line[at]
            count += 1
    return count


@jit_nogil_no_nrt
def next_line(
    text: Int32Array,
    position: int,
    keep_probabilities: Float32Array,
    state: RngState,
    line: Int32Array,
) -> tuple[int, int]:
    """Copy the next line to `line`, subsampled; return its length and the next line's position."""
    length = 0
    while position < len(text) and length < MAX_LINE_WORDS:
        word = text[position]
        position += 1
        if word == LINE_END:
            break
        if random_uniform(state) < keep_probabilities[word]:
            line[length] = word
            length += 1
    return length, position


@jit_nogil_no_nrt
def gather_bag(bag: Int32Array, words: VocabularyTables, sources: Int32Array) -> int:
    """Write the rows of the bags of `sources` to `bag`, and return their count."""
    count = 0
    for word in sources:
        for k in range(words.starts[word], words.starts[word + 1]):
            bag[count] = words.rows[k]
            count += 1
    return count


@jit_nogil_no_nrt
def mean_rows(h: Float32Array, inputs: Float32Array, rows: Int32Array) -> None:
    """Set h to the mean of some rows of `inputs`."""
    h[:] = 0
    for row in rows:
        v = inputs[row]
        for d in range(h.shape[0]):
            h[d] += v[d]
    scale = np.float32(1) / np.float32(len(rows))
    for d in range(h.shape[0]):
        h[d] *= scale


@jit_nogil_no_nrt
def scatter_add(e: Float32Array, inputs: Float32Array, rows: Int32Array) -> None:
    """Add e to each of some rows of `inputs`."""
    for row in rows:
        v = inputs[row]
        for d in range(e.shape[0]):
            v[d] += e[d]


@jit_nogil_no_nrt
def negative_sampling_step(
    args: Word2VecKernelArgs,
    buffers: WindowBuffers,
    targets: Int32Array,
    target_counts: IntArray,
    size: int,
    negatives: IntArray,
    learning_rate: float,
    loss_sums: FloatArray,
) -> None:
    """Update the output rows, and e of each of `size` windows, by SGD with negative sampling.

    Every target uses all shared negatives except its own word. So a negative that is one of the
    T targets of a window counts for the other targets, with the weight (T − 1) / T, and not at all
    if T is 1.
    """
    h, e, outputs, table = buffers.h, buffers.e, args.outputs, args.sigmoid_table
    target_bits, weights = buffers.sampling.target_bits, buffers.sampling.weights
    per_target = args.windows.negatives
    weights[:] = 0
    for i in range(size):
        weights[0, i] = target_counts[i] * per_target / len(negatives)
        weights[1, i] = (target_counts[i] - 1) * per_target / len(negatives)
        for k in range(target_counts[i]):
            target_bits[targets[i, k]] |= np.uint8(1 << i)
    if learning_rate > 0:
        for i in range(size):
            weights[0, i] *= np.float32(learning_rate)
            weights[1, i] *= np.float32(learning_rate)
            for k in range(target_counts[i]):
                u = outputs[targets[i, k]]
                g = np.float32(1) - sigmoid_from_table(row_dot(h[i], u), table)
                sgd_pair(h[i], e[i], u, g * np.float32(learning_rate))
        for first in range(0, len(negatives), TILE_SIZE):
            for window in range(0, size, TILE_SIZE):
                update_negatives_tile(args, buffers, window, negatives, first)
    else:
        for i in range(size):
            loss_sums[1] += target_counts[i]
            for k in range(target_counts[i]):
                loss_sums[0] += scalar_softplus(-row_dot(h[i], outputs[targets[i, k]]))
            for word in negatives:
                weight = weights[target_bits[word] >> i & 1, i]
                loss_sums[0] += weight * scalar_softplus(row_dot(h[i], outputs[word]))
    for i in range(size):
        for k in range(target_counts[i]):
            target_bits[targets[i, k]] = 0


@jit_nogil_no_nrt
def update_negatives_tile(
    args: Word2VecKernelArgs,
    buffers: WindowBuffers,
    window: int,
    negatives: IntArray,
    first: int,
) -> None:
    r"""Update one tile of 4 windows × 4 negatives: G = −w σ(H Uᵀ), E += G U, U += Gᵀ H.

    The tile starts at `window` and at the negative `first`. All sixteen g are computed from the
    rows before the update. Each inner loop writes one row and reads four, so that the written row
    stays in registers.
    """
    outputs, table = args.outputs, args.sigmoid_table
    target_bits, weights, gains = buffers.sampling
    h, e = buffers.h[window : window + TILE_SIZE], buffers.e[window : window + TILE_SIZE]
    last = len(negatives) - 1
    for s in range(TILE_SIZE):
        word = negatives[min(first + s, last)]
        dot4(outputs[word], h[0], h[1], h[2], h[3], gains[s])
        for i in range(TILE_SIZE):
            weight = weights[target_bits[word] >> (window + i) & 1, window + i]
            gains[s, i] = -sigmoid_from_table(gains[s, i], table) * weight
            if first + s > last:
                gains[s, i] = 0
    u0, u1 = outputs[negatives[first]], outputs[negatives[min(first + 1, last)]]
    u2, u3 = outputs[negatives[min(first + 2, last)]], outputs[negatives[min(first + 3, last)]]
    for i in range(TILE_SIZE):
        axpy4(e[i], u0, u1, u2, u3, gains[0, i], gains[1, i], gains[2, i], gains[3, i])
    for s in range(TILE_SIZE):
        g = gains[s]
        u = outputs[negatives[min(first + s, last)]]
        axpy4(u, h[0], h[1], h[2], h[3], g[0], g[1], g[2], g[3])


@jit_nogil_no_nrt
def dot4(
    u: Float32Array,
    a: Float32Array,
    b: Float32Array,
    c: Float32Array,
    d: Float32Array,
    out: Float32Array,
) -> None:
    """Set out[:4] to the dot products of u with a, b, c and d, in one pass over u."""
    dot_a = dot_b = dot_c = dot_d = np.float32(0)
    for k in range(u.shape[0]):
        dot_a += u[k] * a[k]
        dot_b += u[k] * b[k]
        dot_c += u[k] * c[k]
        dot_d += u[k] * d[k]
    out[0], out[1], out[2], out[3] = dot_a, dot_b, dot_c, dot_d


@jit_nogil_no_nrt
def axpy4(
    y: Float32Array,
    a: Float32Array,
    b: Float32Array,
    c: Float32Array,
    d: Float32Array,
    scale_a: np.float32,
    scale_b: np.float32,
    scale_c: np.float32,
    scale_d: np.float32,
) -> None:
    """Add the linear combination of four rows to y, in one pass over y."""
    for k in range(y.shape[0]):
        y[k] += scale_a * a[k] + scale_b * b[k] + scale_c * c[k] + scale_d * d[k]


@jit_nogil_no_nrt
def axpy(y: Float32Array, a: Float32Array, scale: np.float32) -> None:
    """Add scale · a to y."""
    for k in range(y.shape[0]):
        y[k] += scale * a[k]


@jit_nogil_no_nrt
def hierarchical_softmax_step(
    args: Word2VecKernelArgs,
    buffers: WindowBuffers,
    targets: Int32Array,
    learning_rate: float,
    loss_sums: FloatArray,
) -> None:
    """Update the nodes on the paths to the targets of one window, and its e, by SGD."""
    h, e, g, copies = buffers.h[0], buffers.e[0], buffers.sampling.gains[0], buffers.node_copies[0]
    outputs, paths, table = args.outputs, args.paths, args.sigmoid_table
    first = first_copied_node(outputs, copies)
    if learning_rate == 0:
        loss_sums[1] += len(targets)
        for target in targets:
            for k in range(paths.starts[target], paths.starts[target + 1]):
                node = paths.nodes[k]
                x = row_dot(h, copies[node - first] if node >= first else outputs[node])
                loss_sums[0] += (
                    scalar_softplus(-x) if paths.code_bits[k] == 1 else scalar_softplus(x)
                )
        return
    step = np.float32(learning_rate)
    for target in targets:
        k, last = paths.starts[target], paths.starts[target + 1]
        while k + TILE_SIZE <= last:  # the nodes of a path are distinct: four at a time
            i, j = paths.nodes[k], paths.nodes[k + 1]
            m, n = paths.nodes[k + 2], paths.nodes[k + 3]
            a = copies[i - first] if i >= first else outputs[i]
            b = copies[j - first] if j >= first else outputs[j]
            c = copies[m - first] if m >= first else outputs[m]
            d = copies[n - first] if n >= first else outputs[n]
            dot4(h, a, b, c, d, g)
            for at in range(TILE_SIZE):
                g[at] = (paths.code_bits[k + at] - sigmoid_from_table(g[at], table)) * step
            axpy4(e, a, b, c, d, g[0], g[1], g[2], g[3])
            axpy(a, h, g[0])
            axpy(b, h, g[1])
            axpy(c, h, g[2])
            axpy(d, h, g[3])
            k += TILE_SIZE
        for rest in range(k, last):
            node = paths.nodes[rest]
            u = copies[node - first] if node >= first else outputs[node]
            sgd_pair(
                h, e, u, (paths.code_bits[rest] - sigmoid_from_table(row_dot(h, u), table)) * step
            )
