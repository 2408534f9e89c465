"""Where does the time of skip-gram and CBOW go, and how far is it from memory?

    SACCADE_DATA=folder python benchmarks/word_rows.py

Learning word vectors is fetching rows from a table that is larger than the caches, adding to them
and putting them back. Next to a copy of memory stands the rate at which this machine can do just
that: rows by their frequency, each read, added to and written, and nothing else. What a kernel
moves is counted from its windows (each row it uses once read and once written, whether a cache had
it or not), and given as a share of both. Then the kernel again, part by part: the text and the
windows alone, with the draws, with all.

The text is that of `vectors.py` (words that are there 5 times or more), width 100, two threads. A
share far below the plain additions' is where to look.
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from machine import copy_rate
from numpy.typing import NDArray
from peers.words import corpus
from timing import print_machine, spread, table

from saccade.compiled.jit import aligned_zeros, jit_nogil
from saccade.data.text.word_corpus import read_word_corpus
from saccade.estimators.word_vectors.config import Word2VecConfig
from saccade.estimators.word_vectors.kernels import (
    MAX_LINE_WORDS,
    VocabularyTables,
    WindowParams,
    next_line,
)
from saccade.estimators.word_vectors.sampling import (
    RngState,
    random_below,
    rng_state,
    sample_alias,
)
from saccade.estimators.word_vectors.word2vec import (
    Word2VecTrainer,
    identity_bags,
    init_word2vec_params,
)
from saccade.types.arrays import Float32Array, Int32Array

THREADS, WIDTH, REPEATS = 2, 100, 5
BLOCKS = 24  # of text per measurement
ROWS = 1 << 20  # updated by each thread


@jit_nogil
def add_to_rows(outputs: Float32Array, rows: Int32Array, g: np.float32) -> None:
    """Read, add to and write each row."""
    for row in rows:
        u = outputs[row]
        for d in range(u.shape[0]):
            u[d] += g


@jit_nogil
def walk(
    text: Int32Array,
    words: VocabularyTables,
    windows: WindowParams,
    draws: bool,
    state: RngState,
    moved: NDArray[np.int64],
) -> int:
    """Iterate over the text as the kernel does, without updates; add the rows used to moved[0]."""
    line = np.empty(MAX_LINE_WORDS, np.int32)
    position, drawn_from = 0, 0
    while position < len(text):
        length, position = next_line(text, position, words.keep_probabilities, state, line)
        for at in range(length if length > 1 else 0):
            radius = 1 + random_below(state, windows.radius)
            count = min(length, at + radius + 1) - max(0, at - radius) - 1
            moved[0] += count + 1
            if at % windows.windows_per_group == 0:  # they share their draws
                moved[0] += windows.shared_negatives
                for _ in range(windows.shared_negatives if draws else 0):
                    drawn_from += sample_alias(state, words.table)
    return drawn_from


def on_all_cores(work: Callable[[int], object], parts: int) -> float:
    """Return the seconds that two threads take for `parts` parts."""
    with ThreadPoolExecutor(THREADS) as pool:
        started = time.perf_counter()
        list(pool.map(work, range(parts)))
        return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(".peers") / "words")
    asked = parser.parse_args()
    print_machine()
    corpus(asked.folder / "corpus.txt")
    content = (asked.folder / "corpus.txt").read_bytes()
    started = time.perf_counter()
    sentences = read_word_corpus([content], split="whitespace")
    reading = time.perf_counter() - started
    print(f"Reading {sentences.read:,} words, once: {reading:.1f} s (and compiling).")

    size, wide = len(sentences.words), aligned_zeros(1, WIDTH).shape[1]
    row_bytes = 2 * 4 * wide  # read and written
    learner = Word2VecTrainer(
        sentences,
        Word2VecConfig(),
        init_word2vec_params(size, size, WIDTH, 1),
        identity_bags(size),
        seed=1,
    )
    rows = [
        np.array([sample_alias(state, learner.words.table) for _ in range(ROWS)], np.int32)
        for state in (rng_state(1), rng_state(2))
    ]
    outputs = learner.vectors.outputs
    add_to_rows(outputs, rows[0][:8], np.float32(0))

    def add(part: int) -> None:
        add_to_rows(outputs, rows[part], np.float32(0))

    added = spread(
        [THREADS * ROWS * row_bytes / on_all_cores(add, THREADS) / 1e9 for _ in range(REPEATS)]
    )
    print(f"\nA table of {size:,} rows: {size * 4 * wide / 1e6:.0f} MB.")
    table(["memory", "GB/s"], [["copy", copy_rate()], ["rows added to", added]])
    print()
    lines = []
    for name in ("skipgram", "cbow"):
        learner = Word2VecTrainer(
            sentences,
            Word2VecConfig(name=name),
            init_word2vec_params(size, size, WIDTH, 1),
            identity_bags(size),
            1,
        )
        lines += parts_of(name, learner, row_bytes, added.middle)
    heads = ["", "million words/s", "seconds of the whole", "rows moved, GB/s", "of the additions"]
    table(heads, lines)


def parts_of(
    name: str, learner: Word2VecTrainer, row_bytes: int, peak_rate: float
) -> list[list[str]]:
    """Measure the kernel part by part."""
    moved = np.zeros(1, np.int64)
    blocks = learner.blocks[:BLOCKS]
    words = sum(last - first for first, last in blocks)

    def gone_through(draws: bool) -> Callable[[int], object]:
        def work(part: int) -> int:
            first, last = blocks[part]
            state, mine = rng_state(1, 1, part), np.zeros(1, np.int64)
            found = walk(
                learner.text[first:last], learner.words, learner.windows, draws, state, mine
            )
            moved[0] += mine[0]
            return found

        return work

    def learned(part: int) -> int:
        return learner.train_block(part, 0.1)

    timed: dict[str, float] = {}
    rows = 0
    for part, work in (
        ("text and windows", gone_through(False)),
        ("with draws", gone_through(True)),
        ("with rows", learned),
    ):
        on_all_cores(work, 1)  # compiled
        moved[0] = 0
        timed[part] = spread([on_all_cores(work, len(blocks)) for _ in range(REPEATS)]).middle
        rows = int(moved[0]) // REPEATS or rows  # learning goes through the same ones
    lines = []
    for part, took in timed.items():
        rate = rows * row_bytes / took / 1e9
        last = part == "with rows"
        lines.append(
            [
                f"{name}, {part}",
                f"{words / took / 1e6:.2f}",
                f"{took / timed['with rows']:.0%}",
                f"{rate:.1f}" if last else "",
                f"{rate / peak_rate:.0%}" if last else "",
            ]
        )
    return lines


if __name__ == "__main__":
    main()
