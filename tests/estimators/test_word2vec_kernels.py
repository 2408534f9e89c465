"""The word2vec kernel against a slow reference with the same random draws."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.estimators.word_vectors.kernels import (
    LINE_END,
    SIGMOID_TABLE,
    VocabularyTables,
    WindowParams,
    Word2VecKernelArgs,
    train_on_text,
)
from saccade.estimators.word_vectors.sampling import (
    alias_table,
    huffman_paths,
    keep_probabilities,
    rng_state,
)

MASK = (1 << 64) - 1


def table_sigmoid(x: float) -> float:
    """Return σ(x) from the table of 4,096 bins over −8 … 8."""
    position = int(np.clip(np.float32(x) * 256 + 2048, 0, 4095))
    return float(SIGMOID_TABLE[position])


def test_sigmoid_table_approximates_sigmoid() -> None:
    x = np.linspace(-7.99, 7.99, 10_001)
    assert [table_sigmoid(value) for value in x] == pytest.approx(1 / (1 + np.exp(-x)), abs=6e-4)
    assert table_sigmoid(-50) == pytest.approx(0, abs=4e-4) and table_sigmoid(50) == pytest.approx(
        1, abs=4e-4
    )


class ReferenceWord2Vec:
    """word2vec in plain NumPy and double precision, one group of windows at a time."""

    def __init__(
        self, inputs: Any, outputs: Any, words: VocabularyTables, paths: Any, windows: WindowParams
    ):
        self.inputs, self.outputs = inputs.astype(np.float64), outputs.astype(np.float64)
        self.words, self.paths, self.windows = words, paths, windows
        self.loss, self.targets = 0.0, 0

    def draw(self) -> int:
        state = self.state
        state ^= state >> 12
        state = (state ^ (state << 25)) & MASK
        self.state = state ^ (state >> 27)
        return (self.state * 2685821657736338717) & MASK

    def train(self, text: list[int], learning_rate: float, state: int) -> None:
        self.state, self.learning_rate = state, learning_rate
        self.next_negatives = self.sample_negatives()
        lines: list[list[int]] = [[]]
        for word in text:
            if word == LINE_END:
                self.train_line(lines[-1])
                lines.append([])
            elif (
                np.float32(self.draw() >> 40) * np.float32(2.0**-24)
                < self.words.keep_probabilities[word]
            ):
                lines[-1].append(word)
        self.train_line(lines[-1])

    def train_line(self, line: list[int]) -> None:
        windows_per_group = self.windows.windows_per_group
        for first in range(0, len(line) if len(line) > 1 else 0, windows_per_group):
            windows = []
            for at in range(first, min(first + windows_per_group, len(line))):
                radius = 1 + ((self.draw() >> 32) * self.windows.radius >> 32)
                near = line[max(0, at - radius) : at] + line[at + 1 : at + 1 + radius]
                windows.append((near, [line[at]]) if self.windows.is_cbow else ([line[at]], near))
            self.train_windows(windows)

    def bag(self, words: list[int]) -> list[int]:
        starts = self.words.starts
        return [int(row) for w in words for row in self.words.rows[starts[w] : starts[w + 1]]]

    def negative(self) -> int:
        bits = self.draw()
        row = (bits >> 32) * len(self.words.table) >> 32
        itself, other = self.words.table[row]
        return row if (bits & 0xFFFFFFFF) < itself else int(other)

    def sample_negatives(self) -> list[int]:
        return [self.negative() for _ in range(self.windows.shared_negatives)]

    def train_windows(self, windows: list[tuple[list[int], list[int]]]) -> None:
        """Train on a group of windows (sources, targets) that share their negatives."""
        # the negatives of the next group are drawn early, as in the kernel
        negatives, self.next_negatives = self.next_negatives, self.sample_negatives()
        bags = [self.bag(sources) for sources, _ in windows]
        h = np.array([self.inputs[bag].mean(0) for bag in bags])
        e = np.zeros_like(h)
        for i, (_, targets) in enumerate(windows):
            self.targets += len(targets)
            for row, label in self.rows_and_labels(targets):
                self.step([row], label, h, e, np.eye(len(h))[[i]])
        for first in range(0, len(negatives), 4):
            some = negatives[first : first + 4]
            share = self.windows.negatives / self.windows.shared_negatives
            weights = [[(len(t) - (word in t)) * share for _, t in windows] for word in some]
            for at in range(0, len(windows), 4):  # e[at : at + 4] is a view: it is updated in place
                four = slice(at, at + 4)
                self.step(some, 0.0, h[four], e[four], np.array(weights)[:, four])
        for bag, change in zip(bags, e, strict=True):
            for row in bag:
                self.inputs[row] += change

    def rows_and_labels(self, targets: list[int]) -> list[tuple[int, float]]:
        """Return output rows and labels: the targets, or the nodes on their paths."""
        if self.windows.negatives:
            return [(target, 1.0) for target in targets]
        starts, nodes, code_bits = self.paths.starts, self.paths.nodes, self.paths.code_bits
        steps = [k for t in targets for k in range(starts[t], starts[t + 1])]
        return [(int(nodes[k]), float(code_bits[k])) for k in steps]

    def step(self, rows: list[int], label: float, h: Any, e: Any, weights: Any) -> None:
        """Update some rows and every e; weights[s, i] is the weight of a term of the loss."""
        u = self.outputs[rows]
        x = u @ h.T
        probabilities = 1 / (1 + np.exp(-x))
        self.loss -= (weights * np.log(probabilities if label else 1 - probabilities)).sum()
        g = (label - np.vectorize(table_sigmoid)(x)) * weights * self.learning_rate
        e += g.T @ u
        for row, change in zip(rows, g @ h, strict=True):  # a row may occur twice
            self.outputs[row] += change


@given(
    is_cbow=st.booleans(),
    negatives=st.sampled_from([0, 1, 5]),
    shared_negatives=st.integers(1, 7),
    radius=st.integers(1, 4),
    subwords=st.booleans(),
    windows_per_group=st.sampled_from([4, 8]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_word2vec_kernel_equals_slow_reference(
    is_cbow: bool,
    negatives: int,
    shared_negatives: int,
    radius: int,
    subwords: bool,
    windows_per_group: int,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    size, width = 9, 5
    counts = random.integers(1, 50, size)
    text = random.integers(LINE_END, size, 60).astype(np.int32)
    bags = [
        [w, *(size + random.integers(0, 6, 3)).tolist()][: 4 if subwords else 1]
        for w in range(size)
    ]
    starts = np.cumsum([0, *map(len, bags)])
    rows = np.array([row for bag in bags for row in bag], np.int32)
    words = VocabularyTables(
        keep_probabilities(counts, 0.05), alias_table(counts**0.75), starts, rows
    )
    inputs = random.normal(size=(size + 6, width)).astype(np.float32)
    outputs = random.normal(size=(size, width)).astype(np.float32)
    draws = (shared_negatives, windows_per_group) if negatives else (0, 1)
    windows = WindowParams(radius, is_cbow, negatives, *draws)
    paths = huffman_paths(counts)
    reference = ReferenceWord2Vec(inputs, outputs, words, paths, windows)
    loss_sums, unchanged = np.zeros(2), (inputs.copy(), outputs.copy())
    state = rng_state(seed)

    args = Word2VecKernelArgs(words, paths, inputs, outputs, windows, SIGMOID_TABLE)
    train_on_text(text, args, 0.0, state.copy(), loss_sums)
    assert (inputs == unchanged[0]).all() and (outputs == unchanged[1]).all(), (
        "evaluation must not change the weights"
    )
    evaluated = ReferenceWord2Vec(inputs, outputs, words, paths, windows)
    evaluated.train(text.tolist(), 0.0, int(state[0]))
    assert loss_sums == pytest.approx([evaluated.loss, evaluated.targets], rel=1e-5)

    train_on_text(text, args, 0.02, state.copy(), loss_sums)
    reference.train(text.tolist(), 0.02, int(state[0]))
    # a product between two bins of the table may fall into either: 0.001 · rate · weight
    assert inputs == pytest.approx(reference.inputs, abs=2e-3)
    assert outputs == pytest.approx(reference.outputs, abs=2e-3)
    assert np.abs(inputs - unchanged[0]).max() > 0.02 or loss_sums[1] == 0
