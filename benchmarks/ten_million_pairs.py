"""Time and memory of reading, tokenizing and batching ten million pairs in one process.

    python benchmarks/ten_million_pairs.py            # or a smaller number of pairs

Writes a TSV of short pairs to a temporary folder, reads it, trains a BPE vocabulary on a sample,
encodes both sides and plans the batches. It takes minutes and about 3 GB, so `make bench` leaves it
out. If a pair took more than its characters (or two bytes per token) and some 20 bytes, or the peak
were a multiple of the sum, a large file would no longer fit.
"""

import resource
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
from timing import print_machine

from saccade.data.batching import BatchPlan, EncodedPairs, encode_pairs, training_batches
from saccade.data.parallel.config import TokenizerConfig
from saccade.data.parallel.readers import read_pairs
from saccade.tasks.translation.data import train_tokenizers

WORDS = "the a old new red house cat dog river sees finds under near with small big and not".split()


def write(path: Path, count: int) -> None:
    """Write sentences of 3 to 7 words, each with its number, and their reversal."""
    choose = np.random.default_rng(1)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, count, 100_000):
            some = min(100_000, count - first)
            words = choose.integers(0, len(WORDS), (some, 7)).tolist()
            sizes = choose.integers(3, 8, some).tolist()
            for number, (row, size) in enumerate(zip(words, sizes, strict=True), start=first):
                text = [WORDS[word] for word in row[:size]]
                file.write(f"{' '.join(text)} {number}\t{number} {' '.join(text[::-1])}\n")


def peak() -> float:
    """Return the peak memory of this process in GB."""
    peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak_memory / (1 << 30 if sys.platform == "darwin" else 1 << 20)


def ids_bytes(encoded: EncodedPairs) -> int:
    """Return the size of the encoded pairs in bytes."""
    sides = (encoded.source, encoded.target)
    return encoded.lines.nbytes + sum(side.ids.nbytes + side.offsets.nbytes for side in sides)


def main(count: int) -> None:
    """Run the benchmark and print each figure as soon as it is measured."""
    print_machine()
    print(f"{'':32}  seconds      pairs/s  bytes per pair  peak memory")
    print(f"{'libraries loaded':32}  {'':7}  {'':11}  {'':12}  {peak():.2f} GB")

    def report(what: str, start: float, each: float | None = None) -> None:
        took = time.perf_counter() - start
        memory = "" if each is None else f"{each:.1f}"
        print(
            f"{what:32}  {took:7.1f}  {count / took:11,.0f}  {memory:>12}  {peak():.2f} GB",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.tsv"
        start = time.perf_counter()
        write(path, count)
        report("written (by this script)", start)
        size = path.stat().st_size / count
        start = time.perf_counter()
        pairs = read_pairs(path)
        report("read", start, pairs.bytes_per_pair)
    start = time.perf_counter()
    both = train_tokenizers(TokenizerConfig(kind="bpe", size=2000, shared=True), pairs)
    report("vocabulary trained on a sample", start)
    start = time.perf_counter()
    encoded = encode_pairs(pairs, both.source, both.target, lambda more: None)
    report("encoded", start, ids_bytes(encoded) / count)
    assert len(encoded.source) == len(encoded.target) == len(pairs) == count
    start = time.perf_counter()
    plan = BatchPlan(encoded, 4096)
    report("batches planned", start)
    start = time.perf_counter()
    next(training_batches(encoded, plan, 1, len(plan) // 2))
    report("first batch of an epoch", start)
    start = time.perf_counter()
    for _ in islice(training_batches(encoded, plan, 1, 0), 1000):
        pass
    thousand = time.perf_counter() - start
    tokens = (len(encoded.source.ids) + len(encoded.target.ids)) / count
    print(f"{count:,} pairs of {size:.0f} bytes, {tokens:.1f} tokens each; {len(plan):,} batches")
    print(f"A thousand batches, with the order of the epoch: {thousand:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 10_000_000)
