r"""GloVe (Pennington et al. 2014): vectors whose products are the logarithms of co-occurrences.

\(X_{ij}\) is how often words i and j stand within a window of each other, a pair at distance d
counted 1/d. With a weight \(f(x) = \min(1, (x / x_{max})^{3/4})\),

  \(J = \tfrac12 \sum_{X_{ij} > 0} f(X_{ij}) (w_i \cdot c_j + b_i + b'_j - \log X_{ij})^2\)

is made small by AdaGrad (squares begin at 1, as the authors' program has it), a pair at a time, in
an order drawn anew for each epoch: pieces of the list are taken at random, and shuffled. A word's
vector is \(w_i + c_i\). What a word has with itself is one
term, met from both sides.

Counting takes the memory of the text's numbers and of one row: where each word stands is listed
first (a counting sort), and then the words are gone through one after the other. What is counted
goes to files as it comes, and is read from there."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.compiled import bare, compiled, empty_rows
from saccade.config import Config
from saccade.data.sentences import END, Sentences
from saccade.fitted.drawing import Floats, Ids, Stream, Whole, below, stream

AT_A_TIME = 512  # words whose pairs are counted at once
AT_ONCE = 1 << 16  # terms that a thread learns from before it asks for more


class GloVeConfig(Config):
    """Co-occurrences, and the least squares that are fitted to them."""

    name: Literal["glove"] = "glove"
    width: int = Field(100, ge=1)
    window: int = Field(10, ge=1, le=1000)
    epochs: int = Field(15, ge=1)
    # the paper has 0.05 and 100, for billions of words: millions learn little so (docs/scores.md)
    rate: float = Field(0.1, gt=0)
    largest: float = Field(10.0, gt=0)  # from this count on a pair weighs 1
    power: float = Field(0.75, gt=0, le=1)


class Pairs(NamedTuple):
    """Words that stand near each other, second ≤ first: how much."""

    first: Ids
    second: Ids
    weight: Floats


def co_occurrences(
    sentences: Sentences,
    window: int,
    *,
    threads: int = 1,
    place: Path | None = None,
    tell: Callable[[int], None] = lambda more: None,
) -> Pairs:
    """How much each two words stand near each other, within lines.

    They are held in memory, or, in a folder (`place`), in files that are mapped into it. `tell` is
    told how many words more are done.
    """
    size = len(sentences.words)
    starts, places = places_of(sentences.ids, size)

    def counted(first: int) -> tuple[NDArray[Any], ...]:
        last = min(first + AT_A_TIME, size)
        return count_rows(sentences.ids, starts, places, first, last, window, size)

    with _Columns(place) as columns, ThreadPoolExecutor(threads) as pool:
        for parts in pool.map(counted, range(0, size, AT_A_TIME)):
            columns.put(parts)
            tell(AT_A_TIME)
        return columns.read()


class _Columns:
    """What is counted, as it comes: in memory, or in three files."""

    def __init__(self, place: Path | None):
        self.place = place
        self.parts: list[tuple[NDArray[Any], ...]] = []
        self.files = [] if place is None else [path.open("wb") for path in self._paths(place)]

    def __enter__(self) -> "_Columns":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files:
            file.close()

    def _paths(self, place: Path) -> list[Path]:
        return [place / f"pairs.{name}" for name in Pairs._fields]

    def put(self, columns: tuple[NDArray[Any], ...]) -> None:
        if self.place is None:
            self.parts.append(columns)
        for file, column in zip(self.files, columns, strict=self.place is not None):
            file.write(column.tobytes())

    def read(self) -> Pairs:
        if self.place is None:
            return Pairs(*(np.concatenate(each) for each in zip(*self.parts, strict=True)))
        for file in self.files:
            file.flush()
        kinds = (np.int32, np.int32, np.float32)
        return Pairs(
            *(
                _mapped(path, kind)
                for path, kind in zip(self._paths(self.place), kinds, strict=True)
            )
        )


def _mapped(path: Path, kind: Any) -> NDArray[Any]:
    return np.memmap(path, kind, "r") if path.stat().st_size else np.empty(0, kind)


@compiled
def places_of(ids: Ids, size: int) -> tuple[Whole, Whole]:
    """Where each word stands: word w at places[starts[w] : starts[w + 1]]."""
    starts = np.zeros(size + 1, np.int64)
    for word in ids:
        if word != END:
            starts[word + 1] += 1
    starts = np.cumsum(starts)
    places, filled = np.empty(starts[size], np.int64), starts[:size].copy()
    for place, word in enumerate(ids):
        if word != END:
            places[filled[word]] = place
            filled[word] += 1
    return starts, places


@compiled
def count_rows(
    ids: Ids, starts: Whole, places: Whole, first: int, last: int, window: int, size: int
) -> tuple[Ids, Ids, Floats]:
    """The pairs of words `first` to `last` with words that are as frequent or more."""
    row, met = np.zeros(size, np.float64), np.empty(size, np.int32)
    one, other, weight = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)
    count = 0
    for word in range(first, last):
        different = 0
        for where in places[starts[word] : starts[word + 1]]:
            for step in (-1, 1):
                for distance in range(1, window + 1):
                    place = where + step * distance
                    if place < 0 or place >= len(ids) or ids[place] == END:
                        break
                    near = ids[place]
                    if near <= word:
                        if row[near] == 0:
                            met[different] = near
                            different += 1
                        row[near] += 1 / distance
        if count + different > len(one):
            more = max(2 * len(one), count + different, 4096) - len(one)
            one = np.concatenate((one, np.empty(more, np.int32)))
            other = np.concatenate((other, np.empty(more, np.int32)))
            weight = np.concatenate((weight, np.empty(more, np.float32)))
        for near in np.sort(met[:different]):
            one[count], other[count], weight[count] = word, near, row[near]
            count += 1
            row[near] = 0
    return one[:count], other[:count], weight[:count]


# --- the least squares ----------------------------------------------------------------------------


class Sides(NamedTuple):
    """Vectors of both sides ([0] words, [1] contexts), biases, and AdaGrad's sums of squares."""

    vectors: Floats  # (2, V, D)
    biases: Floats  # (2, V)
    squares: Floats  # (2, V, D)
    bias_squares: Floats  # (2, V)


def begun(words: int, width: int, seed: int) -> Sides:
    """As the authors begin: all in ±1/(2 (width + 1)), squares at 1."""
    random = np.random.default_rng([seed, words])
    vectors = empty_rows(2 * words, width).reshape(2, words, -1)
    vectors[:, :, :width] = (random.random((2, words, width), np.float32) - 0.5) / (width + 1)
    biases = (random.random((2, words), np.float32) - np.float32(0.5)) / np.float32(width + 1)
    return Sides(vectors, biases, np.ones_like(vectors), np.ones_like(biases))


class Squares:
    """The terms of J, and the two sides that are fitted to them."""

    def __init__(self, pairs: Pairs, words: int, config: GloVeConfig, seed: int):
        self.pairs, self.config, self.seed = pairs, config, seed
        self.sides = begun(words, config.width, seed)

    def epoch(
        self,
        number: int,
        threads: int,
        tell: Callable[[int], None] = lambda more: None,
    ) -> float:
        """A step for every term, in an order of its own: their mean in passing."""
        terms = 2 * len(self.pairs.first)
        order = np.random.default_rng([self.seed, number]).permutation(-(-terms // AT_ONCE))
        parts = iter(order.tolist())
        total = 0.0

        def work(part: int) -> tuple[float, int]:
            last = min((part + 1) * AT_ONCE, terms)
            state = stream(self.seed, number, part)
            turns = np.arange(part * AT_ONCE, last)
            return adagrad(
                turns, state, self.pairs, self.sides, *self._shape()
            ), last - part * AT_ONCE

        with ThreadPoolExecutor(threads) as pool:
            while some := list(islice(parts, 16 * threads)):
                for lost, count in pool.map(work, some):
                    total += lost
                    tell(count)
        return total / max(terms, 1)

    def _shape(self) -> tuple[float, float, float]:
        return self.config.rate, self.config.largest, self.config.power

    @property
    def vectors(self) -> Floats:
        """w + c."""
        both: Floats = self.sides.vectors.sum(0)[:, : self.config.width]
        return both


@bare
def adagrad(
    turns: Whole,
    state: Stream,
    pairs: Pairs,
    sides: Sides,
    rate: float,
    largest: float,
    power: float,
) -> float:
    """A step for each of these, shuffled; a pair has two, i for j, and j for i. Their sum."""
    total, step = 0.0, np.float32(rate)
    for last in range(len(turns) - 1, 0, -1):
        other = below(state, last + 1)
        turns[last], turns[other] = turns[other], turns[last]
    for turn in turns:
        pair = turn >> 1
        number = np.float32(np.log(pairs.weight[pair]))
        weight = np.float32(min(1.0, (pairs.weight[pair] / largest) ** power))
        i, j = pairs.first[pair], pairs.second[pair]
        if turn & 1:
            if i == j:  # that is the same term
                continue
            i, j = j, i
        w, c = sides.vectors[0, i], sides.vectors[1, j]
        w2, c2 = sides.squares[0, i], sides.squares[1, j]
        off = sides.biases[0, i] + sides.biases[1, j] - number
        for d in range(w.shape[0]):
            off += w[d] * c[d]
        pull = weight * off
        total += 0.5 * pull * off
        for d in range(w.shape[0]):
            to_w, to_c = pull * c[d], pull * w[d]
            w[d] -= step * to_w / np.sqrt(w2[d])
            c[d] -= step * to_c / np.sqrt(c2[d])
            w2[d] += to_w * to_w
            c2[d] += to_c * to_c
        for side, word in ((0, i), (1, j)):
            sides.biases[side, word] -= step * pull / np.sqrt(sides.bias_squares[side, word])
            sides.bias_squares[side, word] += pull * pull
    return total
