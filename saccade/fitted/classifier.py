r"""fastText's classifier (Joulin et al. 2017): the mean of a text's rows, and a label from it.

A text is the bag of its words, and of its n-grams of words (hashed into buckets). With h their
mean,

- **softmax**: \(p = \mathrm{softmax}(U h)\), \(\ell = -\log p_y\);
- **one against all**: \(-\sum_l [\,l \in y\,] \log\sigma(u_l \cdot h) + [\,l \notin y\,]
  \log\sigma(-u_l \cdot h)\), for texts with several labels;
- **hierarchical softmax**: Huffman's tree over the labels, as for words.

Each text is one step; the rate falls in a line to zero. As in fastText every row of the bag moves
by e over the size of the bag, and a text with several labels learns one of them at a time
(softmax, tree), drawn at random.

Every step changes the rows of labels, and two threads that write to one row wait for each other:
so each has its own copy of them, if they are few, brought together with the others' now and then.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.compiled import bare, compiled, empty_rows
from saccade.config import Config
from saccade.fitted.drawing import Floats, Ids, Paths, Stream, Whole, below, huffman, stream
from saccade.fitted.windows import SIGMOID, bring_together, mean, product, pull, sigmoid, spread

WAYS = {"softmax": 0, "one_against_all": 1, "tree": 2}
SOFTMAX, ALL, TREE = WAYS.values()
BLOCK = 1024  # texts that a thread learns from before it asks for more
AHEAD = 8  # blocks that are handed to each thread at once
FEW = 256  # labels of whose rows each thread has its own copy
EVERY = 256  # texts after which the copies are brought together
_MIX, _BEGIN = np.uint64(116049371), np.uint64(0x9E3779B97F4A7C15)


class ClassifierConfig(Config):
    """A linear classifier over the mean of a text's rows."""

    name: Literal["fasttext"] = "fasttext"
    width: int = Field(100, ge=1)
    ngrams: int = Field(1, ge=1, le=10)  # words in a row that count as one more
    buckets: int = Field(2_000_000, ge=1)
    loss: Literal["softmax", "one_against_all", "tree"] = "softmax"
    epochs: int = Field(5, ge=1)
    rate: float = Field(0.1, gt=0)


class Bags(NamedTuple):
    """Texts as bags of rows: of text t rows[starts[t] : starts[t + 1]]."""

    starts: Whole
    rows: Ids


class Labelled(NamedTuple):
    """Texts as bags of rows, and their labels: of text t rows[starts[t] : starts[t + 1]]."""

    starts: Whole
    rows: Ids
    label_starts: Whole
    labels: Ids


class Room(NamedTuple):
    """What a thread writes to as it goes."""

    h: Floats
    e: Floats
    p: Floats  # the labels' shares
    labels: Ids  # whose rows it has for its own: all of them, or if there are many none
    of_labels: Floats  # (2, labels, width) these rows, and as they were


def learn_labels(
    texts: Labelled,
    order: Whole,
    paths: Paths,
    inputs: Floats,
    outputs: Floats,
    way: int,
    rates: NDArray[np.float64],
    state: Stream,
    table: Floats,
) -> float:
    """A step for each text, in this order, the rate falling from rates[0] to rates[1]; Σ −log p."""
    width, size = inputs.shape[1], outputs.shape[0]
    labels = np.arange(size if size <= FEW else 0, dtype=np.int32)
    room = Room(
        h=np.empty(width, np.float32),
        e=np.empty(width, np.float32),
        p=np.empty(size, np.float32),
        labels=labels,
        of_labels=np.zeros((2, len(labels), width), np.float32),
    )
    return _learn_labels(texts, order, paths, inputs, outputs, way, rates, state, table, room)


@bare
def _learn_labels(
    texts: Labelled,
    order: Whole,
    paths: Paths,
    inputs: Floats,
    everyones: Floats,
    way: int,
    rates: NDArray[np.float64],
    state: Stream,
    table: Floats,
    room: Room,
) -> float:
    h, e, p, labels, of_labels = room
    width, size = inputs.shape[1], everyones.shape[0]
    outputs = of_labels[0] if len(labels) > 0 else everyones
    total = 0.0
    for turn, text in enumerate(order):
        if turn % EVERY == 0:
            bring_together(everyones, labels, of_labels)
        rows = texts.rows[texts.starts[text] : texts.starts[text + 1]]
        own = texts.labels[texts.label_starts[text] : texts.label_starts[text + 1]]
        if len(rows) == 0 or len(own) == 0:
            continue
        rate = np.float32(rates[0] + (rates[1] - rates[0]) * turn / len(order))
        mean(h, inputs, rows)
        e[:] = 0
        if way == ALL:
            for label in range(size):
                is_own = np.float32(0)
                for one in own:
                    if one == label:
                        is_own = np.float32(1)
                u = outputs[label]
                said = sigmoid(product(h, u), table)
                total += missed(said if is_own == 1 else 1 - said)
                pull(h, e, u, (is_own - said) * rate)
        else:
            label = own[below(state, len(own)) if len(own) > 1 else 0]
            if way == SOFTMAX:
                shares(h, outputs, p)
                total += missed(p[label])
                for other in range(size):
                    wanted = np.float32(1) if other == label else np.float32(0)
                    pull(h, e, outputs[other], (wanted - p[other]) * rate)
            else:
                for place in range(paths.starts[label], paths.starts[label + 1]):
                    u, turns = outputs[paths.nodes[place]], paths.turns[place]
                    said = sigmoid(product(h, u), table)
                    total += missed(said if turns == 1 else 1 - said)
                    pull(h, e, u, (turns - said) * rate)
        share = np.float32(1) / np.float32(len(rows))
        for d in range(width):
            e[d] *= share
        spread(e, inputs, rows)
    bring_together(everyones, labels, of_labels)
    return total


@bare
def missed(share: float | np.float32) -> float:
    """−log p, of a p that may be nothing."""
    return -np.log(max(float(share), 1e-30))


@bare
def shares(h: Floats, outputs: Floats, p: Floats) -> None:
    """p: the softmax of the products of h with all rows."""
    largest = np.float32(-np.inf)
    for label in range(len(p)):
        p[label] = product(h, outputs[label])
        largest = max(largest, p[label])
    total = np.float32(0)
    for label in range(len(p)):
        p[label] = np.exp(p[label] - largest)
        total += p[label]
    for label in range(len(p)):
        p[label] /= total


# --- texts as bags --------------------------------------------------------------------------------


@compiled
def grams(ids: Ids, starts: Whole, longest: int, buckets: int) -> tuple[Whole, Whole]:
    """The buckets of every text's n-grams of 2 to `longest` words: found[ends[t] : ends[t + 1]].

    As in fastText's: with the words' numbers mixed, h ← h · 116049371 + word.
    """
    ends = np.zeros(len(starts), np.int64)
    for text in range(len(starts) - 1):
        length, count = starts[text + 1] - starts[text], 0
        for n in range(2, longest + 1):
            count += max(length - n + 1, 0)
        ends[text + 1] = ends[text] + count
    found = np.empty(ends[-1], np.int64)
    place = 0
    for text in range(len(starts) - 1):
        for first in range(starts[text], starts[text + 1]):
            mark = _BEGIN ^ np.uint64(ids[first])
            for last in range(first + 1, min(first + longest, starts[text + 1])):
                mark = mark * _MIX + np.uint64(ids[last])
                found[place] = np.int64((mark ^ (mark >> np.uint64(29))) % np.uint64(buckets))
                place += 1
    return ends, found


@compiled
def joined(own: Bags, more: Bags) -> Bags:
    """Bags with the rows of both."""
    starts = own.starts + more.starts
    rows = np.empty(starts[-1], np.int32)
    place = 0
    for text in range(len(starts) - 1):
        for bags in (own, more):
            for at in range(bags.starts[text], bags.starts[text + 1]):
                rows[place] = bags.rows[at]
                place += 1
    return Bags(starts, rows)


# --- learning -------------------------------------------------------------------------------------


class Classifier:
    """Rows of words and n-grams, and rows of labels (or of the nodes of their tree)."""

    def __init__(self, config: ClassifierConfig, rows: int, label_counts: Whole, seed: int):
        self.config, self.seed = config, seed
        self.paths = huffman(label_counts)
        random = np.random.default_rng([seed, rows])
        self.inputs = empty_rows(rows, config.width)
        start = random.random((rows, config.width), np.float32) * 2 - 1
        self.inputs[:, : config.width] = start / np.float32(config.width)
        self.outputs = empty_rows(len(label_counts), config.width)

    def blocks(self, texts: int) -> int:
        """Of so many texts, over all epochs."""
        return -(-texts // BLOCK) * self.config.epochs

    def learn(
        self,
        texts: Labelled,
        *,
        threads: int = 1,
        tell: Callable[[int, float], None] = lambda more, loss: None,
        stop: Callable[[], bool] = lambda: False,
        start: int = 0,
    ) -> int:
        """Every epoch from block `start` on; which would be next. `tell`: texts more, their loss.

        An epoch goes through the texts in an order of its own; each thread takes the next block
        when it is done with one, and changes the rows without locks.
        """
        size = len(texts.starts) - 1
        total = self.blocks(size)
        blocks = total // self.config.epochs

        def work(number: int) -> tuple[int, float]:
            epoch, block = divmod(number, blocks)
            order = _order(self.seed, epoch, size)[block * BLOCK : (block + 1) * BLOCK]
            rates = self.config.rate * (1 - np.array([number, number + 1]) / total)
            state = stream(self.seed, number)
            way = WAYS[self.config.loss]
            return len(order), learn_labels(
                texts, order, self.paths, self.inputs, self.outputs, way, rates, state, SIGMOID
            )

        with ThreadPoolExecutor(threads) as pool:
            for first in range(start, total, AHEAD * threads):
                if stop():
                    return first
                for count, lost in pool.map(
                    work, range(first, min(first + AHEAD * threads, total))
                ):
                    tell(count, lost)
        return total

    def probabilities(self, bags: Bags) -> Floats:
        """For each text and label; of one against all they do not add up to 1."""
        found = np.zeros((len(bags.starts) - 1, len(self.outputs)), np.float32)
        say_labels(
            bags.starts,
            bags.rows,
            self.paths,
            self.inputs,
            self.outputs,
            WAYS[self.config.loss],
            SIGMOID,
            found,
        )
        return found


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, size: int) -> Whole:
    return np.random.default_rng([seed, epoch, size]).permutation(size)


@compiled
def say_labels(
    starts: Whole,
    rows: Ids,
    paths: Paths,
    inputs: Floats,
    outputs: Floats,
    way: int,
    table: Floats,
    found: Floats,
) -> None:
    """The chance of each label; a text without rows says nothing of any."""
    h = np.empty(inputs.shape[1], np.float32)
    for text in range(len(starts) - 1):
        h[:] = 0
        if starts[text] < starts[text + 1]:
            mean(h, inputs, rows[starts[text] : starts[text + 1]])
        if way == SOFTMAX:
            shares(h, outputs, found[text])
            continue
        for label in range(found.shape[1]):
            if way == ALL:
                found[text, label] = 1 / (1 + np.exp(-product(h, outputs[label])))
                continue
            chance = np.float32(1)
            for place in range(paths.starts[label], paths.starts[label + 1]):
                x = product(h, outputs[paths.nodes[place]])
                chance *= 1 / (1 + np.exp(-x if paths.turns[place] == 1 else x))
            found[text, label] = chance
