r"""Word vectors from windows of text: one kernel for skip-gram, CBOW, subwords, sampling and trees.

At each place of a text some input rows (a *bag*) are to foretell some target words:

- **skip-gram**: the bag is that of the word itself, the targets are the words around it;
- **CBOW**: the bags of the words around it, the target is the word itself.

The bag of a word is its row, and with subwords (fastText) those of its n-grams as well. Their mean
h is held against the output rows u:

- **negative sampling** (Mikolov et al. 2013), K words n drawn by count^power for each target t,
  \(\ell = -\log\sigma(h \cdot u_t) - \sum_{k=1}^{K} \log\sigma(-h \cdot u_{n_k})\);
- **hierarchical softmax** (Morin and Bengio 2005): \(-\sum_j \log\sigma(\pm h \cdot u_j)\) over the
  nodes j on the target's path.

One step of gradient descent for the whole window: with \(g = (\text{label} - \sigma(h \cdot
u))\,\alpha\) \(e \mathrel{+}= g\,u\), \(u \mathrel{+}= g\,h\), and in the end every row of the bag
\(\mathrel{+}= e\).

Difference from word2vec.c, gensim and fastText: they take each pair by itself, with K negatives of
its own. Here the targets of some windows side by side (skip-gram: four, CBOW: eight) share S draws,
whose part in the loss is weighted by targets · K / S (the sharing is that of Ji et al. 2016): the
expected gradient is the same, h is read and written once a window instead of once a pair, and a row
that was drawn is fetched once for all of them, which learn from the input rows as they were before:
four draws and four windows at a time, as products of small matrices. With few draws skip-gram
answers fewer analogies (`docs/scores.md`). Of the nodes at a tree's top each thread has its own
copy, brought together with the others' now and then. As in word2vec.c a row of a CBOW bag moves by
the whole e, not by e over the size of the bag."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.compiled.jit import jit_nogil_no_nrt, prefetch_row
from saccade.estimators.word_vectors.sampling import (
    Float32Array,
    HuffmanPaths,
    Int32Array,
    IntArray,
    RngState,
    random_below,
    random_uniform,
    sample_alias,
)

MAX_LINE_WORDS = (
    10_000  # words of a line that are taken as one; a longer line is cut, as word2vec.c does
)
LINE_END = -1  # after each line of a text
TILE_SIZE = 4  # windows and draws that meet at a time
MAX_SHARED_WINDOWS = 8  # windows that share their draws, at most
MAX_COPIED_NODES = (
    512  # nodes of a tree, the root and those next to it, of which each thread has its own copy
)
WINDOWS_PER_MERGE = 1024  # windows after which the copies are brought together

# σ(x) for x in [−8, 8): beyond, a label that is right teaches less than 0.0004 of the rate
_REACH, _PLACES = 8.0, 4096
_middles = (np.arange(_PLACES) + 0.5) * (2 * _REACH / _PLACES) - _REACH
SIGMOID_TABLE = (1 / (1 + np.exp(-_middles))).astype(np.float32)


class VocabularyTables(NamedTuple):
    """What the kernels know about the words of a vocabulary."""

    keep_probabilities: Float32Array  # (V) the chance with which a word is not left out
    table: NDArray[np.uint32]  # (V, 2) for drawing negatives
    starts: IntArray  # (V + 1) the bag of word w is rows[starts[w] : starts[w + 1]]
    rows: Int32Array


class WindowParams(NamedTuple):
    """How a text is gone through."""

    radius: int  # at most so many words on either side; how many is drawn at each place
    is_cbow: bool  # the words around foretell the word (CBOW), or it foretells them
    negatives: int  # for each target; 0: by its path in the tree
    shared_negatives: int  # draws for some windows
    windows_per_group: int  # how many windows that is: 4 or 8; without draws 1


@jit_nogil_no_nrt
def sigmoid_from_table(x: np.float32, table: Float32Array) -> np.float32:
    """σ(x) from its table."""
    place = x * np.float32(_PLACES / (2 * _REACH)) + np.float32(_PLACES / 2)
    return table[np.int64(min(max(place, np.float32(0)), np.float32(_PLACES - 1)))]


@jit_nogil_no_nrt
def row_dot(a: Float32Array, b: Float32Array) -> np.float32:
    """The sum of a · b."""
    total = np.float32(0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@jit_nogil_no_nrt
def sgd_pair(h: Float32Array, e: Float32Array, u: Float32Array, g: np.float32) -> None:
    """Move u towards h, and note in e where h is to go; away from it, if g is negative."""
    for d in range(h.shape[0]):
        e[d] += g * u[d]
        u[d] += g * h[d]


@jit_nogil_no_nrt
def scalar_softplus(x: np.float32) -> float:
    """−log σ(−x), for any x."""
    return max(float(x), 0.0) + np.log1p(np.exp(-abs(float(x))))


class NegativeSamplingBuffers(NamedTuple):
    """What negative sampling writes to."""

    marked: NDArray[np.uint8]  # (V) bit i: the word is a target of window i
    weights: (
        Float32Array  # (2, MOST) what a draw counts for each window, and if it is a target of it
    )
    gains: Float32Array  # (FOUR, FOUR) g of four draws and four windows


class WindowBuffers(NamedTuple):
    """What a kernel writes to as it goes; the first axis is for windows that are taken together."""

    h: Float32Array
    e: Float32Array
    line: Int32Array  # the words of a line that were not left out
    itself: Int32Array  # (MOST, 1) and how many: always one
    ones: IntArray
    near: Int32Array  # (MOST, 2 · reach), and how many
    counts: IntArray
    bags: Int32Array  # (MOST, …) with subwords: the rows of a window's sources, and how many
    of_bags: IntArray
    negatives: IntArray
    next_negatives: IntArray  # the negatives of the next windows
    work: NegativeSamplingBuffers
    nodes: Int32Array  # (TOP) of the tree's top; without a tree none
    top: Float32Array  # (2, TOP, width) their rows: this thread's own, and as they were


def allocate_window_buffers(
    words: VocabularyTables, width: int, windows: WindowParams
) -> WindowBuffers:
    """For these words, and rows and windows of this size."""
    size, bag = len(words.keep_probabilities), int(np.diff(words.starts).max(initial=0))
    last = size - 1  # nodes are one fewer than words, and the last of them is the root
    first = last - (0 if windows.negatives else min(MAX_COPIED_NODES, last))
    return WindowBuffers(
        h=np.zeros((MAX_SHARED_WINDOWS, width), np.float32),
        e=np.zeros((MAX_SHARED_WINDOWS, width), np.float32),
        line=np.empty(MAX_LINE_WORDS, np.int32),
        itself=np.empty((MAX_SHARED_WINDOWS, 1), np.int32),
        ones=np.ones(MAX_SHARED_WINDOWS, np.int64),
        near=np.empty((MAX_SHARED_WINDOWS, 2 * windows.radius), np.int32),
        counts=np.empty(MAX_SHARED_WINDOWS, np.int64),
        bags=np.empty(
            (MAX_SHARED_WINDOWS, bag * (2 * windows.radius if windows.is_cbow else 1)), np.int32
        ),
        of_bags=np.empty(MAX_SHARED_WINDOWS, np.int64),
        negatives=np.empty(windows.shared_negatives, np.int64),
        next_negatives=np.empty(windows.shared_negatives, np.int64),
        work=NegativeSamplingBuffers(
            marked=np.zeros(size, np.uint8),
            weights=np.empty((2, MAX_SHARED_WINDOWS), np.float32),
            gains=np.empty((TILE_SIZE, TILE_SIZE), np.float32),
        ),
        nodes=np.arange(first, last, dtype=np.int32),
        top=np.zeros((2, last - first, width), np.float32),
    )


def train_on_text(
    text: Int32Array,
    words: VocabularyTables,
    paths: HuffmanPaths,
    inputs: Float32Array,
    outputs: Float32Array,
    windows: WindowParams,
    learning_rate: float,
    state: RngState,
    table: Float32Array,
    loss_sums: NDArray[np.float64],
) -> int:
    """Go through a text once; how many places were learned from.

    With a rate of 0 nothing is changed, and judged[0] grows by the loss and judged[1] by the number
    of targets: that is how held-out text is judged.
    """
    own = allocate_window_buffers(words, inputs.shape[1], windows)
    return _learn(
        text, words, paths, inputs, outputs, windows, learning_rate, state, table, loss_sums, own
    )


@jit_nogil_no_nrt
def _learn(
    text: Int32Array,
    words: VocabularyTables,
    paths: HuffmanPaths,
    inputs: Float32Array,
    outputs: Float32Array,
    windows: WindowParams,
    learning_rate: float,
    state: RngState,
    table: Float32Array,
    loss_sums: NDArray[np.float64],
    room: WindowBuffers,
) -> int:
    (
        h,
        e,
        line,
        itself,
        ones,
        near,
        counts,
        bags,
        of_bags,
        negatives,
        next_negatives,
        work,
        nodes,
        top,
    ) = room
    sources, of_sources = (near, counts) if windows.is_cbow else (itself, ones)
    alone = len(words.rows) == len(
        words.keep_probabilities
    )  # no subwords: the bag of a word is its own row
    rows, of_rows = (sources, of_sources) if alone else (bags, of_bags)
    targets, of_targets = (itself, ones) if windows.is_cbow else (near, counts)
    windows_per_group = windows.windows_per_group
    learned = place = since = 0
    merge_copies(outputs, nodes, top)
    here = first_copied_node(outputs, top[0])
    sample_negatives(next_negatives, words.table, state, outputs)
    while place < len(text):
        length, place = next_line(text, place, words.keep_probabilities, state, line)
        if length < 2:  # nothing is around
            continue
        learned += length
        for first in range(0, length, windows_per_group):
            size = min(windows_per_group, length - first)
            for i in range(size):
                itself[i, 0] = line[first + i]
                counts[i] = sample_window(line, length, first + i, windows.radius, state, near, i)
            negatives, next_negatives = next_negatives, negatives
            sample_negatives(next_negatives, words.table, state, outputs)
            for at in range(first + windows_per_group, min(first + 2 * windows_per_group, length)):
                prefetch_word(
                    line[at], windows.is_cbow, words, paths, inputs, outputs, here, windows
                )
            edge = first + windows_per_group + windows.radius
            for at in range(edge, min(edge + windows_per_group, length)):
                prefetch_word(
                    line[at], not windows.is_cbow, words, paths, inputs, outputs, here, windows
                )
            for i in range(size):
                if not alone:
                    of_bags[i] = gather_bag(bags[i], words, sources[i, : of_sources[i]])
                mean_rows(h[i], inputs, rows[i, : of_rows[i]])
                e[i] = 0
            if windows.negatives > 0:
                negative_sampling_step(
                    h,
                    e,
                    outputs,
                    targets,
                    of_targets,
                    size,
                    negatives,
                    windows.negatives,
                    learning_rate,
                    table,
                    work,
                    loss_sums,
                )
            else:
                near_ones = targets[0, : of_targets[0]]
                g = work.gains[0]
                hierarchical_softmax_step(
                    h[0],
                    e[0],
                    outputs,
                    top[0],
                    near_ones,
                    paths,
                    learning_rate,
                    table,
                    g,
                    loss_sums,
                )
                since += 1
                if since % WINDOWS_PER_MERGE == 0:
                    merge_copies(outputs, nodes, top)
            if learning_rate > 0:
                for i in range(size):
                    scatter_add(e[i], inputs, rows[i, : of_rows[i]])
    merge_copies(outputs, nodes, top)
    return learned


@jit_nogil_no_nrt
def merge_copies(table: Float32Array, rows: Int32Array, copies: Float32Array) -> None:
    """What this thread has changed of some rows goes to all, and what the others have comes here.

    copies[0] are its own, copies[1] as they were. Two threads that write to one row at every step
    wait for it most of the time.
    """
    for place, row in enumerate(rows):
        everyones, own, before = table[row], copies[0, place], copies[1, place]
        for d in range(own.shape[0]):
            everyones[d] += own[d] - before[d]
            own[d] = before[d] = everyones[d]


@jit_nogil_no_nrt
def first_copied_node(outputs: Float32Array, own: Float32Array) -> int:
    """The first node whose row a thread has for its own; the last is the root."""
    return len(outputs) - 1 - len(own)


@jit_nogil_no_nrt
def sample_negatives(
    negatives: IntArray, table: NDArray[np.uint32], state: RngState, outputs: Float32Array
) -> None:
    """The negatives of the next window; while this one is learned from, their rows come."""
    for k in range(len(negatives)):
        negatives[k] = sample_alias(state, table)
        prefetch_row(outputs, negatives[k])


@jit_nogil_no_nrt
def prefetch_word(
    word: int,
    as_target: bool,
    words: VocabularyTables,
    paths: HuffmanPaths,
    inputs: Float32Array,
    outputs: Float32Array,
    first: int,
    windows: WindowParams,
) -> None:
    """The rows of a word that is soon a target, or a source; nodes from `first` on are ours."""
    if not as_target:
        for place in range(words.starts[word], words.starts[word + 1]):
            prefetch_row(inputs, words.rows[place])
    elif windows.negatives > 0:
        prefetch_row(outputs, word)
    else:
        for place in range(paths.starts[word], paths.starts[word + 1]):
            if paths.nodes[place] < first:
                prefetch_row(outputs, paths.nodes[place])


@jit_nogil_no_nrt
def sample_window(
    line: Int32Array, length: int, at: int, most: int, state: RngState, near: Int32Array, i: int
) -> int:
    """The words around a place, as far as is drawn, into near[i]; how many."""
    radius = 1 + random_below(state, most)
    count = 0
    for other in range(max(0, at - radius), min(length, at + radius + 1)):
        if other != at:
            near[i, count] = line[other]
            count += 1
    return count


@jit_nogil_no_nrt
def next_line(
    text: Int32Array,
    place: int,
    keep_probabilities: Float32Array,
    state: RngState,
    line: Int32Array,
) -> tuple[int, int]:
    """The words up to the line's end that are not left out: how many, and where the next is."""
    length = 0
    while place < len(text) and length < MAX_LINE_WORDS:
        word = text[place]
        place += 1
        if word == LINE_END:
            break
        if random_uniform(state) < keep_probabilities[word]:
            line[length] = word
            length += 1
    return length, place


@jit_nogil_no_nrt
def gather_bag(bag: Int32Array, words: VocabularyTables, sources: Int32Array) -> int:
    """All rows of some words' bags, one after the other; how many."""
    count = 0
    for word in sources:
        for place in range(words.starts[word], words.starts[word + 1]):
            bag[count] = words.rows[place]
            count += 1
    return count


@jit_nogil_no_nrt
def mean_rows(h: Float32Array, inputs: Float32Array, rows: Int32Array) -> None:
    """h: the mean of some rows."""
    h[:] = 0
    for row in rows:
        v = inputs[row]
        for d in range(h.shape[0]):
            h[d] += v[d]
    share = np.float32(1) / np.float32(len(rows))
    for d in range(h.shape[0]):
        h[d] *= share


@jit_nogil_no_nrt
def scatter_add(e: Float32Array, inputs: Float32Array, rows: Int32Array) -> None:
    """Every one of these rows moves by e."""
    for row in rows:
        v = inputs[row]
        for d in range(e.shape[0]):
            v[d] += e[d]


@jit_nogil_no_nrt
def negative_sampling_step(
    h: Float32Array,
    e: Float32Array,
    outputs: Float32Array,
    targets: Int32Array,
    counts: IntArray,
    size: int,
    negatives: IntArray,
    each: int,
    learning_rate: float,
    table: Float32Array,
    work: NegativeSamplingBuffers,
    loss_sums: NDArray[np.float64],
) -> None:
    """Negative sampling: targets are drawn to h[i], words that were drawn at random driven away.

    Each target has the draws for its own, and its word is not one of them: a draw that is a target
    of h[i] counts for the others only, (T − 1) / T, and with one target not at all.
    """
    marked, weights, gains = work
    weights[:] = 0
    for i in range(size):
        weights[0, i] = counts[i] * each / len(negatives)
        weights[1, i] = (counts[i] - 1) * each / len(negatives)
        for k in range(counts[i]):
            marked[targets[i, k]] |= np.uint8(1 << i)
    if learning_rate > 0:
        for i in range(size):
            weights[0, i] *= np.float32(learning_rate)
            weights[1, i] *= np.float32(learning_rate)
            for k in range(counts[i]):
                u = outputs[targets[i, k]]
                g = np.float32(1) - sigmoid_from_table(row_dot(h[i], u), table)
                sgd_pair(h[i], e[i], u, g * np.float32(learning_rate))
        for first in range(0, len(negatives), TILE_SIZE):
            for window in range(0, size, TILE_SIZE):
                update_negatives_tile(h, e, outputs, window, negatives, first, table, work)
    else:
        for i in range(size):
            loss_sums[1] += counts[i]
            for k in range(counts[i]):
                loss_sums[0] += scalar_softplus(-row_dot(h[i], outputs[targets[i, k]]))
            for word in negatives:
                counted = weights[marked[word] >> i & 1, i]
                loss_sums[0] += counted * scalar_softplus(row_dot(h[i], outputs[word]))
    for i in range(size):
        for k in range(counts[i]):
            marked[targets[i, k]] = 0


@jit_nogil_no_nrt
def update_negatives_tile(
    h: Float32Array,
    e: Float32Array,
    outputs: Float32Array,
    window: int,
    negatives: IntArray,
    first: int,
    table: Float32Array,
    work: NegativeSamplingBuffers,
) -> None:
    r"""Four draws and four windows, as products of matrices: G = σ(H Uᵀ), E += G U, U += Gᵀ H.

    They are those from `first` and from `window` on. All sixteen g are of the rows as they were
    before. Each loop writes one row and reads four, so that what it writes stays in a register.
    """
    marked, weights, gains = work
    h, e = h[window : window + TILE_SIZE], e[window : window + TILE_SIZE]
    last = len(negatives) - 1
    for s in range(TILE_SIZE):
        word = negatives[min(first + s, last)]
        dot4(outputs[word], h[0], h[1], h[2], h[3], gains[s])
        for i in range(TILE_SIZE):
            counted = weights[marked[word] >> (window + i) & 1, window + i]
            gains[s, i] = -sigmoid_from_table(gains[s, i], table) * counted
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
    x: Float32Array,
) -> None:
    """x: the products of u with four rows."""
    of_a = of_b = of_c = of_d = np.float32(0)
    for k in range(u.shape[0]):
        of_a += u[k] * a[k]
        of_b += u[k] * b[k]
        of_c += u[k] * c[k]
        of_d += u[k] * d[k]
    x[0], x[1], x[2], x[3] = of_a, of_b, of_c, of_d


@jit_nogil_no_nrt
def axpy4(
    y: Float32Array,
    a: Float32Array,
    b: Float32Array,
    c: Float32Array,
    d: Float32Array,
    of_a: np.float32,
    of_b: np.float32,
    of_c: np.float32,
    of_d: np.float32,
) -> None:
    """So much of each of four rows is added to y."""
    for k in range(y.shape[0]):
        y[k] += of_a * a[k] + of_b * b[k] + of_c * c[k] + of_d * d[k]


@jit_nogil_no_nrt
def hierarchical_softmax_step(
    h: Float32Array,
    e: Float32Array,
    outputs: Float32Array,
    own: Float32Array,
    targets: Int32Array,
    paths: HuffmanPaths,
    learning_rate: float,
    table: Float32Array,
    g: Float32Array,
    loss_sums: NDArray[np.float64],
) -> None:
    """Hierarchical softmax: on the way to each target every node is to say where it turns."""
    first = first_copied_node(outputs, own)
    if learning_rate == 0:
        loss_sums[1] += len(targets)
        for target in targets:
            for place in range(paths.starts[target], paths.starts[target + 1]):
                node = paths.nodes[place]
                x = row_dot(h, own[node - first] if node >= first else outputs[node])
                loss_sums[0] += (
                    scalar_softplus(-x) if paths.code_bits[place] == 1 else scalar_softplus(x)
                )
        return
    step = np.float32(learning_rate)
    for target in targets:
        place, last = paths.starts[target], paths.starts[target + 1]
        while place + TILE_SIZE <= last:  # the nodes of a path are all different: four at a time
            i, j = paths.nodes[place], paths.nodes[place + 1]
            m, n = paths.nodes[place + 2], paths.nodes[place + 3]
            a = own[i - first] if i >= first else outputs[i]
            b = own[j - first] if j >= first else outputs[j]
            c = own[m - first] if m >= first else outputs[m]
            d = own[n - first] if n >= first else outputs[n]
            dot4(h, a, b, c, d, g)
            for at in range(TILE_SIZE):
                g[at] = (paths.code_bits[place + at] - sigmoid_from_table(g[at], table)) * step
            axpy4(e, a, b, c, d, g[0], g[1], g[2], g[3])
            axpy(a, h, g[0])
            axpy(b, h, g[1])
            axpy(c, h, g[2])
            axpy(d, h, g[3])
            place += TILE_SIZE
        for rest in range(place, last):
            node = paths.nodes[rest]
            u = own[node - first] if node >= first else outputs[node]
            sgd_pair(
                h, e, u, (paths.code_bits[rest] - sigmoid_from_table(row_dot(h, u), table)) * step
            )


@jit_nogil_no_nrt
def axpy(y: Float32Array, a: Float32Array, of_a: np.float32) -> None:
    """So much of a row is added to y."""
    for k in range(y.shape[0]):
        y[k] += of_a * a[k]
