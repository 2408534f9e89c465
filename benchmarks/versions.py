"""Training and prediction speed of two versions of Saccade, in alternation.

    SACCADE_DATA=folder python benchmarks/versions.py OLD_TREE NEW_TREE --rounds 5

Each argument is a source tree, for example `git worktree add ../old TAG`. Both run in this
environment through the command line alone, so that they may have different modules. Training rates
are the median of metrics.jsonl's `rate` (target tokens per second) without the first reports;
prediction rates are those that `saccade predict --file` reports. A round runs one version after the
other, in changing order; the ratio is taken within a round, since the machine's speed drifts.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median

TRAINING = {
    "transformer": ["multi30k-transformer", "--set", "train.steps=100"],
    "bahdanau": ["multi30k-bahdanau", "--set", "train.steps=100"],
    "gpt2": ["tinyshakespeare", "--set", "train.steps=100"],
}
EVALUATE_NEVER = ["--set", "train.evaluate_every=1000", "--set", "train.warmup=10"]
PREDICTED_LINES = 1000
REPORTS = 5  # lines of metrics.jsonl with a rate in 100 steps
_RATE = re.compile(r"([\d,.]+) (?:lines|sentences)/s")


def start(tree: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a command of one version."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "saccade", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, cwd=tree, stdout=pipe, stderr=pipe, text=True)


def saccade(tree: Path, *arguments: str) -> str:
    """Run a command of one version and return its standard error."""
    process = start(tree, *arguments)
    _, printed = process.communicate()
    if process.returncode:
        sys.exit(f"{tree}: {' '.join(arguments)}\n{printed}")
    return printed


def train_arguments(model: str, folder: Path) -> list[str]:
    """Return the arguments of a training into a folder."""
    return ["train", *TRAINING[model], *EVALUATE_NEVER, "--out", str(folder), "--overwrite"]


def training_rate(tree: Path, model: str, folder: Path) -> float:
    """Train for 100 steps, without the evaluation after them; return target tokens per second."""
    shutil.rmtree(folder, ignore_errors=True)
    process = start(tree, *train_arguments(model, folder))
    rates: list[float] = []
    while len(rates) < REPORTS and process.poll() is None:
        time.sleep(0.2)
        with suppress(OSError, ValueError):  # not there yet, or half a line
            lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
            rates = [line["rate"] for line in lines if "rate" in line]
    process.kill()
    process.communicate()
    return median(rates[1:])


def prediction_rate(tree: Path, run: Path, inputs: Path) -> float:
    """Predict a file and return lines per second."""
    printed = saccade(tree, "predict", str(run), "--file", str(inputs))
    return float(_RATE.findall(printed)[-1].replace(",", ""))


def training_rates(trees: list[Path], model: str, scratch: Path, side: int) -> float:
    """Return the training rate of one of the versions."""
    return training_rate(trees[side], model, scratch)


def prediction_rates(trees: list[Path], runs: list[Path], inputs: Path, side: int) -> float:
    """Return the prediction rate of one of the versions, with its own run."""
    return prediction_rate(trees[side], runs[side], inputs)


def report(what: str, measure: Callable[[int], float], rounds: int) -> None:
    """Measure both versions in alternation and print a row."""
    rates: list[list[float]] = [[], []]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            rates[side].append(measure(side))
    ratios = [new / old for old, new in zip(*rates, strict=True)]
    each = " ".join(f"{ratio:.3f}" for ratio in ratios)
    print(
        f"| {what} | {median(rates[0]):,.0f} | {median(rates[1]):,.0f} "
        f"| {median(ratios):.3f} ({each}) |",
        flush=True,
    )


def main() -> None:
    """Measure both versions and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", nargs=2, type=Path, metavar="TREE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default=",".join(TRAINING))
    options = parser.parse_args()
    trees = [tree.resolve() for tree in options.trees]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        inputs = work / "inputs.txt"
        words = "a man in a blue shirt is standing on a ladder cleaning a window".split()
        inputs.write_text(
            "".join(
                " ".join(words[i % 7 : i % 7 + 3 + i % 6]) + "\n" for i in range(PREDICTED_LINES)
            )
        )
        print("| what | old, per second | new, per second | new / old, by round |")
        print("|---|---|---|---|")
        for model in options.models.split(","):
            runs = [work / f"{model}-{side}" for side in (0, 1)]
            report(
                f"training, {model}",
                partial(training_rates, trees, model, work / "scratch"),
                options.rounds,
            )
            if model == "gpt2":  # generates a varying number of tokens: see benchmarks/gpt.py
                continue
            for tree, run in zip(trees, runs, strict=True):
                saccade(tree, *train_arguments(model, run))
            report(
                f"predicting, {model}",
                partial(prediction_rates, trees, runs, inputs),
                options.rounds,
            )


if __name__ == "__main__":
    main()
