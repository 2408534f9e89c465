"""Training speed of BERT against Hugging Face's BertForMaskedLM with the same weights.

    make bench-bert

Masked language modelling on the Python reference with 8,000 pieces: the same sequences of 128
tokens, float32, each in its own process, in alternation, after a warm-up. Their model projects
every position to the vocabulary, ours the targets alone; both losses are the same.

Goal: a ratio of 1.5 for the size `small`, and no more memory.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from peers.alternating import Contestant, log_progress, ratio, summary
from peers.bert_text import SIZES
from timing import print_machine, spread, table

from saccade.training.cpu import OMP_ENV

OURS, THEIRS = "saccade", "Hugging Face"
FILES = {OURS: "bert_saccade", THEIRS: "bert_hugging_face"}
EQUAL = 1e-4  # between losses of the same weights


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--windows", type=int, default=7, help="windows per contestant")
    parser.add_argument("--seconds", type=float, default=8, help="length of a window")
    parser.add_argument("--warm", type=float, default=10, help="seconds before the first window")
    parser.add_argument("--json", type=Path, help="save all results to this file")
    return parser.parse_args()


def rate(answer: dict[str, Any]) -> float:
    """Return targets per second."""
    return answer["tokens"] / answer["seconds"]


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Measure training of both in alternation."""
    contestants: dict[str, Contestant] = {}
    try:
        for name, file in FILES.items():
            log_progress(f"starting {name}")
            tuning = OMP_ENV if name == OURS else None  # as set by the command line
            contestants[name] = Contestant(name, file, options.size, tuning=tuning)
        theirs, ours = (contestants[THEIRS].facts[name] for name in ("loss", "ours"))
        if abs(theirs - ours) > EQUAL:
            raise SystemExit(f"With the same weights the losses are {theirs:.5f} and {ours:.5f}.")
        log_progress(f"the same weights, the same loss: {theirs:.5f} and {ours:.5f}")
        for contestant in contestants.values():
            contestant.measure(rate, do="window", seconds=options.warm)
        for number in range(1, options.windows + 1):
            for name, contestant in contestants.items():
                window = contestant.turn(rate, do="window", seconds=options.seconds)
                log_progress(
                    f"window {number}: {name}, {window.value:,.0f} ({window.others:.1%} others)"
                )
        return print_results(contestants)
    finally:
        for contestant in contestants.values():
            contestant.end()


def print_results(contestants: dict[str, Contestant]) -> dict[str, Any]:
    """Print the table and return its contents."""
    rows, kept = [], {}
    for name, contestant in contestants.items():
        middle, low, high = ratio(contestants[OURS].values, contestant.values)
        kept[name] = {**summary(contestant), "ratio": [middle, low, high]}
        against = "" if name == OURS else f"{middle:.2f} ({low:.2f} to {high:.2f})"
        rows.append([name, spread(contestant.values), against, f"{contestant.peak:,.0f}"])
    print()
    table(["", "targets/s", "ratio (saccade / peer)", "peak MB"], rows)
    return kept


def main() -> None:
    """Run the benchmark, print the results and save them if a file is given."""
    options = parse_arguments()
    print_machine()
    kept = train(options)
    if options.json:
        settings = {name: str(value) for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"asked": settings, **kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
