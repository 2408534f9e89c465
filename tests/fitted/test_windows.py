"""The kernel against its slow twin: the equations, step by step, with the same draws."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.fitted.drawing import alias, huffman, kept, stream
from saccade.fitted.windows import END, SIGMOID, Windows, Words, learn

MASK = (1 << 64) - 1


def looked_up(x: float) -> float:
    """σ(x) from a table of 4,096 places over −8 … 8, the nearest of them."""
    place = int(np.clip(np.float32(x) * 256 + 2048, 0, 4095))
    return float(SIGMOID[place])


def test_the_table_is_the_sigmoid() -> None:
    x = np.linspace(-7.99, 7.99, 10_001)
    assert [looked_up(value) for value in x] == pytest.approx(1 / (1 + np.exp(-x)), abs=6e-4)
    assert looked_up(-50) == pytest.approx(0, abs=4e-4) and looked_up(50) == pytest.approx(
        1, abs=4e-4
    )


class Twin:
    """word2vec in plain NumPy and double precision, a window at a time, as the docstring says."""

    def __init__(self, inputs: Any, outputs: Any, words: Words, paths: Any, windows: Windows):
        self.inputs, self.outputs = inputs.astype(np.float64), outputs.astype(np.float64)
        self.words, self.paths, self.windows = words, paths, windows
        self.loss, self.targets = 0.0, 0

    def draw(self) -> int:
        state = self.state
        state ^= state >> 12
        state = (state ^ (state << 25)) & MASK
        self.state = state ^ (state >> 27)
        return (self.state * 2685821657736338717) & MASK

    def go(self, text: list[int], rate: float, state: int) -> None:
        self.state = state
        lines: list[list[int]] = [[]]
        for word in text:
            if word == END:
                self.line(lines[-1], rate)
                lines.append([])
            elif np.float32(self.draw() >> 40) * np.float32(2.0**-24) < self.words.kept[word]:
                lines[-1].append(word)
        self.line(lines[-1], rate)

    def line(self, line: list[int], rate: float) -> None:
        for at in range(len(line)):
            reach = 1 + ((self.draw() >> 32) * self.windows.reach >> 32)
            near = line[max(0, at - reach) : at] + line[at + 1 : at + 1 + reach]
            if near:
                self.window(line[at], near, rate)

    def bag(self, words: list[int]) -> list[int]:
        starts = self.words.starts
        return [int(row) for w in words for row in self.words.rows[starts[w] : starts[w + 1]]]

    def negative(self) -> int:
        bits = self.draw()
        row = (bits >> 32) * len(self.words.table) >> 32
        itself, other = self.words.table[row]
        return row if (bits & 0xFFFFFFFF) < itself else int(other)

    def window(self, word: int, near: list[int], rate: float) -> None:
        sources, targets = (near, [word]) if self.windows.around else ([word], near)
        negatives = [self.negative() for _ in range(self.windows.shared)]
        bag = self.bag(sources)
        h = self.inputs[bag].mean(0)
        if self.windows.negatives:
            weight = len(targets) * self.windows.negatives / self.windows.shared
            terms = [(t, 1.0, 1.0) for t in targets]
            terms += [(n, 0.0, weight) for n in negatives if n not in targets]
        else:
            starts = self.paths.starts
            terms = [
                (int(self.paths.nodes[place]), float(self.paths.turns[place]), 1.0)
                for t in targets
                for place in range(starts[t], starts[t + 1])
            ]
        e = np.zeros_like(h)
        self.targets += len(targets)
        for row, label, weight in terms:
            u = self.outputs[row]
            chance = 1 / (1 + np.exp(-h @ u))
            self.loss -= weight * np.log(chance if label else 1 - chance)
            g = (label - looked_up(h @ u)) * weight * rate
            e += g * u
            self.outputs[row] = u + g * h
        for row in bag:
            self.inputs[row] += e


@given(
    around=st.booleans(),
    negatives=st.sampled_from([0, 1, 5]),
    shared=st.integers(1, 7),
    reach=st.integers(1, 4),
    subwords=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_the_kernel_is_its_slow_twin(
    around: bool, negatives: int, shared: int, reach: int, subwords: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    size, width = 9, 5
    counts = random.integers(1, 50, size)
    text = random.integers(END, size, 60).astype(np.int32)
    bags = [
        [w, *(size + random.integers(0, 6, 3)).tolist()][: 4 if subwords else 1]
        for w in range(size)
    ]
    starts = np.cumsum([0, *map(len, bags)])
    rows = np.array([row for bag in bags for row in bag], np.int32)
    words = Words(kept(counts, 0.05), alias(counts**0.75), starts, rows)
    inputs = random.normal(size=(size + 6, width)).astype(np.float32)
    outputs = random.normal(size=(size, width)).astype(np.float32)
    windows = Windows(reach, around, negatives, shared if negatives else 0)
    paths = huffman(counts)
    twin = Twin(inputs, outputs, words, paths, windows)
    judged, unchanged = np.zeros(2), (inputs.copy(), outputs.copy())
    state = stream(seed)

    learn(text, words, paths, inputs, outputs, windows, 0.0, state.copy(), SIGMOID, judged)
    assert (inputs == unchanged[0]).all() and (outputs == unchanged[1]).all(), (
        "judging moves nothing"
    )
    still = Twin(inputs, outputs, words, paths, windows)
    still.go(text.tolist(), 0.0, int(state[0]))
    assert judged == pytest.approx([still.loss, still.targets], rel=1e-5)

    learn(text, words, paths, inputs, outputs, windows, 0.02, state.copy(), SIGMOID, judged)
    twin.go(text.tolist(), 0.02, int(state[0]))
    # a product on the edge of two places of the table may fall to either: 0.001 · rate · weight
    assert inputs == pytest.approx(twin.inputs, abs=2e-3)
    assert outputs == pytest.approx(twin.outputs, abs=2e-3)
    assert np.abs(inputs - unchanged[0]).max() > 0.02 or judged[1] == 0
