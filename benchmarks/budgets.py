"""Quality of a time budget beside that of fixed numbers of steps.

    python benchmarks/budgets.py DATA --minutes 3 --steps 200 400 600

Trains the same sentence pairs with `--minutes` and with each number of steps, all other settings
left open, one after the other on an otherwise idle machine. Prints for each run its sizes, the
minutes of its training loop and of the whole command, and the scores on the same held-out pairs.
Perplexity is per token and cannot be compared between vocabularies; chrF can. The goal: a budget
is at least as good as every fixed length that takes as long.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from saccade import load
from saccade.config import flatten

SIZES = ("data.tokenizer.size", "model.depth", "train.batch_tokens", "train.learning_rate")
METRICS = ("perplexity", "chrf", "bleu")


def train(data: str, folder: Path, options: list[str]) -> float:
    """Train with the command line; return the minutes that the command took."""
    command = [sys.executable, "-m", "saccade", "train", "translate", "--data", data]
    started = time.monotonic()
    subprocess.run([*command, *options, "--out", str(folder), "--quiet"], check=True)
    return (time.monotonic() - started) / 60


def row(name: str, folder: Path, minutes: float) -> list[str]:
    """Return the cells of one run."""
    run = load(folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    loop = max(line.get("seconds", 0.0) for line in lines) / 60
    steps = max(line.get("step", 0) for line in lines)
    settings = flatten(run.recipe)
    sizes = [str(settings[size]) for size in SIZES]
    metrics = run.evaluate(limit=1000).metrics
    scores = [f"{metrics[metric]:.1f}" if metric in metrics else "" for metric in METRICS]
    return [name, *sizes, f"{steps:,}", f"{loop:.1f}", f"{minutes:.1f}", *scores]


def main() -> None:
    """Train with the budget and with each number of steps, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="file of sentence pairs")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--steps", type=int, nargs="+", default=[200, 400, 600])
    given = parser.parse_args()
    cases = {f"--minutes {given.minutes:g}": ["--minutes", f"{given.minutes:g}"]}
    cases |= {f"train.steps={n}": ["--set", f"train.steps={n}"] for n in given.steps}
    heads = ["run", *SIZES, "steps", "minutes of the loop", "of the command", *METRICS]
    for cells in (heads, ["---"] * len(heads)):
        print(f"| {' | '.join(cells)} |", flush=True)
    with tempfile.TemporaryDirectory() as work:
        for number, (name, options) in enumerate(cases.items()):
            folder = Path(work) / str(number)
            minutes = train(given.data, folder, options)
            print(f"| {' | '.join(row(name, folder, minutes))} |", flush=True)


if __name__ == "__main__":
    main()
