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

from saccade.compiled import bare, bring
from saccade.fitted.drawing import Floats, Ids, Paths, Stream, Whole, below, chance, drawn

LONGEST = 10_000  # words of a line that are taken as one; a longer line is cut, as word2vec.c does
END = -1  # after each line of a text
FOUR = 4  # windows and draws that meet at a time
MOST = 8  # windows that share their draws, at most
TOP = 512  # nodes of a tree, the root and those next to it, of which each thread has its own copy
EVERY = 1024  # windows after which the copies are brought together

# σ(x) for x in [−8, 8): beyond, a label that is right teaches less than 0.0004 of the rate
_REACH, _PLACES = 8.0, 4096
_middles = (np.arange(_PLACES) + 0.5) * (2 * _REACH / _PLACES) - _REACH
SIGMOID = (1 / (1 + np.exp(-_middles))).astype(np.float32)


class Words(NamedTuple):
    """What the kernels know about the words of a vocabulary."""

    kept: Floats  # (V) the chance with which a word is not left out
    table: NDArray[np.uint32]  # (V, 2) for drawing negatives
    starts: Whole  # (V + 1) the bag of word w is rows[starts[w] : starts[w + 1]]
    rows: Ids


class Windows(NamedTuple):
    """How a text is gone through."""

    reach: int  # at most so many words on either side; how many is drawn at each place
    around: bool  # the words around foretell the word (CBOW), or it foretells them
    negatives: int  # for each target; 0: by its path in the tree
    shared: int  # draws for some windows
    together: int  # how many windows that is: 4 or 8; without draws 1


@bare
def sigmoid(x: np.float32, table: Floats) -> np.float32:
    """σ(x) from its table."""
    place = x * np.float32(_PLACES / (2 * _REACH)) + np.float32(_PLACES / 2)
    return table[np.int64(min(max(place, np.float32(0)), np.float32(_PLACES - 1)))]


@bare
def product(a: Floats, b: Floats) -> np.float32:
    """The sum of a · b."""
    total = np.float32(0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@bare
def pull(h: Floats, e: Floats, u: Floats, g: np.float32) -> None:
    """Move u towards h, and note in e where h is to go; away from it, if g is negative."""
    for d in range(h.shape[0]):
        e[d] += g * u[d]
        u[d] += g * h[d]


@bare
def softplus(x: np.float32) -> float:
    """−log σ(−x), for any x."""
    return max(float(x), 0.0) + np.log1p(np.exp(-abs(float(x))))


class Work(NamedTuple):
    """What negative sampling writes to."""

    marked: NDArray[np.uint8]  # (V) bit i: the word is a target of window i
    weights: Floats  # (2, MOST) what a draw counts for each window, and if it is a target of it
    gains: Floats  # (FOUR, FOUR) g of four draws and four windows


class Room(NamedTuple):
    """What a kernel writes to as it goes; the first axis is for windows that are taken together."""

    h: Floats
    e: Floats
    line: Ids  # the words of a line that were not left out
    itself: Ids  # (MOST, 1) and how many: always one
    ones: Whole
    near: Ids  # (MOST, 2 · reach), and how many
    counts: Whole
    bags: Ids  # (MOST, …) with subwords: the rows of a window's sources, and how many
    of_bags: Whole
    negatives: Whole
    coming: Whole  # the negatives of the next windows
    work: Work
    nodes: Ids  # (TOP) of the tree's top; without a tree none
    top: Floats  # (2, TOP, width) their rows: this thread's own, and as they were


def room(words: Words, width: int, windows: Windows) -> Room:
    """For these words, and rows and windows of this size."""
    size, bag = len(words.kept), int(np.diff(words.starts).max(initial=0))
    last = size - 1  # nodes are one fewer than words, and the last of them is the root
    first = last - (0 if windows.negatives else min(TOP, last))
    return Room(
        h=np.zeros((MOST, width), np.float32),
        e=np.zeros((MOST, width), np.float32),
        line=np.empty(LONGEST, np.int32),
        itself=np.empty((MOST, 1), np.int32),
        ones=np.ones(MOST, np.int64),
        near=np.empty((MOST, 2 * windows.reach), np.int32),
        counts=np.empty(MOST, np.int64),
        bags=np.empty((MOST, bag * (2 * windows.reach if windows.around else 1)), np.int32),
        of_bags=np.empty(MOST, np.int64),
        negatives=np.empty(windows.shared, np.int64),
        coming=np.empty(windows.shared, np.int64),
        work=Work(
            marked=np.zeros(size, np.uint8),
            weights=np.empty((2, MOST), np.float32),
            gains=np.empty((FOUR, FOUR), np.float32),
        ),
        nodes=np.arange(first, last, dtype=np.int32),
        top=np.zeros((2, last - first, width), np.float32),
    )


def learn(
    text: Ids,
    words: Words,
    paths: Paths,
    inputs: Floats,
    outputs: Floats,
    windows: Windows,
    rate: float,
    state: Stream,
    table: Floats,
    judged: NDArray[np.float64],
) -> int:
    """Go through a text once; how many places were learned from.

    With a rate of 0 nothing is changed, and judged[0] grows by the loss and judged[1] by the number
    of targets: that is how held-out text is judged.
    """
    own = room(words, inputs.shape[1], windows)
    return _learn(text, words, paths, inputs, outputs, windows, rate, state, table, judged, own)


@bare
def _learn(
    text: Ids,
    words: Words,
    paths: Paths,
    inputs: Floats,
    outputs: Floats,
    windows: Windows,
    rate: float,
    state: Stream,
    table: Floats,
    judged: NDArray[np.float64],
    room: Room,
) -> int:
    h, e, line, itself, ones, near, counts, bags, of_bags, negatives, coming, work, nodes, top = (
        room
    )
    sources, of_sources = (near, counts) if windows.around else (itself, ones)
    alone = len(words.rows) == len(words.kept)  # no subwords: the bag of a word is its own row
    rows, of_rows = (sources, of_sources) if alone else (bags, of_bags)
    targets, of_targets = (itself, ones) if windows.around else (near, counts)
    together = windows.together
    learned = place = since = 0
    bring_together(outputs, nodes, top)
    here = top_of(outputs, top[0])
    draw_all(coming, words.table, state, outputs)
    while place < len(text):
        length, place = take_line(text, place, words.kept, state, line)
        if length < 2:  # nothing is around
            continue
        learned += length
        for first in range(0, length, together):
            size = min(together, length - first)
            for i in range(size):
                itself[i, 0] = line[first + i]
                counts[i] = look_around(line, length, first + i, windows.reach, state, near, i)
            negatives, coming = coming, negatives
            draw_all(coming, words.table, state, outputs)
            for at in range(first + together, min(first + 2 * together, length)):
                bring_word(line[at], windows.around, words, paths, inputs, outputs, here, windows)
            edge = first + together + windows.reach
            for at in range(edge, min(edge + together, length)):
                bring_word(
                    line[at], not windows.around, words, paths, inputs, outputs, here, windows
                )
            for i in range(size):
                if not alone:
                    of_bags[i] = fill(bags[i], words, sources[i, : of_sources[i]])
                mean(h[i], inputs, rows[i, : of_rows[i]])
                e[i] = 0
            if windows.negatives > 0:
                sample(
                    h,
                    e,
                    outputs,
                    targets,
                    of_targets,
                    size,
                    negatives,
                    windows.negatives,
                    rate,
                    table,
                    work,
                    judged,
                )
            else:
                near_ones = targets[0, : of_targets[0]]
                g = work.gains[0]
                descend(h[0], e[0], outputs, top[0], near_ones, paths, rate, table, g, judged)
                since += 1
                if since % EVERY == 0:
                    bring_together(outputs, nodes, top)
            if rate > 0:
                for i in range(size):
                    spread(e[i], inputs, rows[i, : of_rows[i]])
    bring_together(outputs, nodes, top)
    return learned


@bare
def bring_together(table: Floats, rows: Ids, copies: Floats) -> None:
    """What this thread has changed of some rows goes to all, and what the others have comes here.

    copies[0] are its own, copies[1] as they were. Two threads that write to one row at every step
    wait for it most of the time.
    """
    for place, row in enumerate(rows):
        everyones, own, before = table[row], copies[0, place], copies[1, place]
        for d in range(own.shape[0]):
            everyones[d] += own[d] - before[d]
            own[d] = before[d] = everyones[d]


@bare
def top_of(outputs: Floats, own: Floats) -> int:
    """The first node whose row a thread has for its own; the last is the root."""
    return len(outputs) - 1 - len(own)


@bare
def draw_all(negatives: Whole, table: NDArray[np.uint32], state: Stream, outputs: Floats) -> None:
    """The negatives of the next window; while this one is learned from, their rows come."""
    for k in range(len(negatives)):
        negatives[k] = drawn(state, table)
        bring(outputs, negatives[k])


@bare
def bring_word(
    word: int,
    as_target: bool,
    words: Words,
    paths: Paths,
    inputs: Floats,
    outputs: Floats,
    first: int,
    windows: Windows,
) -> None:
    """The rows of a word that is soon a target, or a source; nodes from `first` on are ours."""
    if not as_target:
        for place in range(words.starts[word], words.starts[word + 1]):
            bring(inputs, words.rows[place])
    elif windows.negatives > 0:
        bring(outputs, word)
    else:
        for place in range(paths.starts[word], paths.starts[word + 1]):
            if paths.nodes[place] < first:
                bring(outputs, paths.nodes[place])


@bare
def look_around(
    line: Ids, length: int, at: int, most: int, state: Stream, near: Ids, i: int
) -> int:
    """The words around a place, as far as is drawn, into near[i]; how many."""
    reach = 1 + below(state, most)
    count = 0
    for other in range(max(0, at - reach), min(length, at + reach + 1)):
        if other != at:
            near[i, count] = line[other]
            count += 1
    return count


@bare
def take_line(text: Ids, place: int, kept: Floats, state: Stream, line: Ids) -> tuple[int, int]:
    """The words up to the line's end that are not left out: how many, and where the next is."""
    length = 0
    while place < len(text) and length < LONGEST:
        word = text[place]
        place += 1
        if word == END:
            break
        if chance(state) < kept[word]:
            line[length] = word
            length += 1
    return length, place


@bare
def fill(bag: Ids, words: Words, sources: Ids) -> int:
    """All rows of some words' bags, one after the other; how many."""
    count = 0
    for word in sources:
        for place in range(words.starts[word], words.starts[word + 1]):
            bag[count] = words.rows[place]
            count += 1
    return count


@bare
def mean(h: Floats, inputs: Floats, rows: Ids) -> None:
    """h: the mean of some rows."""
    h[:] = 0
    for row in rows:
        v = inputs[row]
        for d in range(h.shape[0]):
            h[d] += v[d]
    share = np.float32(1) / np.float32(len(rows))
    for d in range(h.shape[0]):
        h[d] *= share


@bare
def spread(e: Floats, inputs: Floats, rows: Ids) -> None:
    """Every one of these rows moves by e."""
    for row in rows:
        v = inputs[row]
        for d in range(e.shape[0]):
            v[d] += e[d]


@bare
def sample(
    h: Floats,
    e: Floats,
    outputs: Floats,
    targets: Ids,
    counts: Whole,
    size: int,
    negatives: Whole,
    each: int,
    rate: float,
    table: Floats,
    work: Work,
    judged: NDArray[np.float64],
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
    if rate > 0:
        for i in range(size):
            weights[0, i] *= np.float32(rate)
            weights[1, i] *= np.float32(rate)
            for k in range(counts[i]):
                u = outputs[targets[i, k]]
                g = np.float32(1) - sigmoid(product(h[i], u), table)
                pull(h[i], e[i], u, g * np.float32(rate))
        for first in range(0, len(negatives), FOUR):
            for window in range(0, size, FOUR):
                drive_away(h, e, outputs, window, negatives, first, table, work)
    else:
        for i in range(size):
            judged[1] += counts[i]
            for k in range(counts[i]):
                judged[0] += softplus(-product(h[i], outputs[targets[i, k]]))
            for word in negatives:
                counted = weights[marked[word] >> i & 1, i]
                judged[0] += counted * softplus(product(h[i], outputs[word]))
    for i in range(size):
        for k in range(counts[i]):
            marked[targets[i, k]] = 0


@bare
def drive_away(
    h: Floats,
    e: Floats,
    outputs: Floats,
    window: int,
    negatives: Whole,
    first: int,
    table: Floats,
    work: Work,
) -> None:
    r"""Four draws and four windows, as products of matrices: G = σ(H Uᵀ), E += G U, U += Gᵀ H.

    They are those from `first` and from `window` on. All sixteen g are of the rows as they were
    before. Each loop writes one row and reads four, so that what it writes stays in a register.
    """
    marked, weights, gains = work
    h, e = h[window : window + FOUR], e[window : window + FOUR]
    last = len(negatives) - 1
    for s in range(FOUR):
        word = negatives[min(first + s, last)]
        four_products(outputs[word], h[0], h[1], h[2], h[3], gains[s])
        for i in range(FOUR):
            counted = weights[marked[word] >> (window + i) & 1, window + i]
            gains[s, i] = -sigmoid(gains[s, i], table) * counted
            if first + s > last:
                gains[s, i] = 0
    u0, u1 = outputs[negatives[first]], outputs[negatives[min(first + 1, last)]]
    u2, u3 = outputs[negatives[min(first + 2, last)]], outputs[negatives[min(first + 3, last)]]
    for i in range(FOUR):
        add_four(e[i], u0, u1, u2, u3, gains[0, i], gains[1, i], gains[2, i], gains[3, i])
    for s in range(FOUR):
        g = gains[s]
        u = outputs[negatives[min(first + s, last)]]
        add_four(u, h[0], h[1], h[2], h[3], g[0], g[1], g[2], g[3])


@bare
def four_products(u: Floats, a: Floats, b: Floats, c: Floats, d: Floats, x: Floats) -> None:
    """x: the products of u with four rows."""
    of_a = of_b = of_c = of_d = np.float32(0)
    for k in range(u.shape[0]):
        of_a += u[k] * a[k]
        of_b += u[k] * b[k]
        of_c += u[k] * c[k]
        of_d += u[k] * d[k]
    x[0], x[1], x[2], x[3] = of_a, of_b, of_c, of_d


@bare
def add_four(
    y: Floats,
    a: Floats,
    b: Floats,
    c: Floats,
    d: Floats,
    of_a: np.float32,
    of_b: np.float32,
    of_c: np.float32,
    of_d: np.float32,
) -> None:
    """So much of each of four rows is added to y."""
    for k in range(y.shape[0]):
        y[k] += of_a * a[k] + of_b * b[k] + of_c * c[k] + of_d * d[k]


@bare
def descend(
    h: Floats,
    e: Floats,
    outputs: Floats,
    own: Floats,
    targets: Ids,
    paths: Paths,
    rate: float,
    table: Floats,
    g: Floats,
    judged: NDArray[np.float64],
) -> None:
    """Hierarchical softmax: on the way to each target every node is to say where it turns."""
    first = top_of(outputs, own)
    if rate == 0:
        judged[1] += len(targets)
        for target in targets:
            for place in range(paths.starts[target], paths.starts[target + 1]):
                node = paths.nodes[place]
                x = product(h, own[node - first] if node >= first else outputs[node])
                judged[0] += softplus(-x) if paths.turns[place] == 1 else softplus(x)
        return
    step = np.float32(rate)
    for target in targets:
        place, last = paths.starts[target], paths.starts[target + 1]
        while place + FOUR <= last:  # the nodes of a path are all different: four at a time
            i, j = paths.nodes[place], paths.nodes[place + 1]
            m, n = paths.nodes[place + 2], paths.nodes[place + 3]
            a = own[i - first] if i >= first else outputs[i]
            b = own[j - first] if j >= first else outputs[j]
            c = own[m - first] if m >= first else outputs[m]
            d = own[n - first] if n >= first else outputs[n]
            four_products(h, a, b, c, d, g)
            for at in range(FOUR):
                g[at] = (paths.turns[place + at] - sigmoid(g[at], table)) * step
            add_four(e, a, b, c, d, g[0], g[1], g[2], g[3])
            add(a, h, g[0])
            add(b, h, g[1])
            add(c, h, g[2])
            add(d, h, g[3])
            place += FOUR
        for rest in range(place, last):
            node = paths.nodes[rest]
            u = own[node - first] if node >= first else outputs[node]
            pull(h, e, u, (paths.turns[rest] - sigmoid(product(h, u), table)) * step)


@bare
def add(y: Floats, a: Floats, of_a: np.float32) -> None:
    """So much of a row is added to y."""
    for k in range(y.shape[0]):
        y[k] += of_a * a[k]
