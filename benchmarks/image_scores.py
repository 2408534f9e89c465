"""Accuracy and time of image networks on published data, next to published figures.

    SACCADE_DATA=… python benchmarks/image_scores.py [--rows lenet,vgg] [--seeds 3] [--out FOLDER]

All are trained for ten epochs. The published figures of the first four are those of Zhang et al.
("Dive into Deep Learning"), who enlarge the images to 96 (ResNet-18) or 224 pixels (AlexNet, VGG)
for networks of the published width (VGG: a quarter of it). Ours read 28 or 32 pixels and are
narrower. Each row is the commands

    saccade train image --data DATA … --set train.seed=N --out RUN
    saccade evaluate RUN --json

of which `--show` prints the first. Minutes are those of the whole training command; "processor" is
its user and system time divided by the number of cores: what it would take on an idle machine if
all of them were always used.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from timing import print_machine, table

AUGMENTED = "data.augment.flip=true data.augment.crop=2"
TEN_EPOCHS = "train.batch_tokens=256 train.steps=2340 data.dev_share=0.0017 train.patience=100"


class Row(NamedTuple):
    """What is trained, and the accuracy that is published for it."""

    arguments: str  # of `saccade train`
    settings: str
    published: str


ROWS = {
    "lenet": Row(
        "image --data fashion-mnist --model lenet",
        f"{TEN_EPOCHS} model.width=6 model.activation=sigmoid model.pooling=mean",
        "77.9",
    ),
    "alexnet": Row(
        "image --data fashion-mnist --model alexnet",
        f"{TEN_EPOCHS} model.width=24 model.hidden=256 model.grid=3",
        "88.3",
    ),
    "vgg": Row(
        "image --data fashion-mnist --model vgg11_bn",
        f"{TEN_EPOCHS} model.image_size=32 model.width=16 model.hidden=256 model.grid=1",
        "92.0",
    ),
    "resnet18": Row(
        "image --data fashion-mnist --model resnet18", f"{TEN_EPOCHS} model.width=8", "89.3"
    ),
    "airbench": Row(
        "image --data fashion-mnist --model airbench",
        f"{TEN_EPOCHS} {AUGMENTED} model.width=32 train.learning_rate=0.003",
        "93.4 to 95.4",
    ),
}


class Result(NamedTuple):
    """One training."""

    accuracy: float
    minutes: float
    processor: float  # minutes of all cores


def train_command(row: Row, seed: int, out: Path) -> list[str]:
    """Return the command that trains a row."""
    settings = [f"--set={value}" for value in [*row.settings.split(), f"train.seed={seed}"]]
    return ["saccade", "train", *row.arguments.split(), *settings, "--out", str(out)]


def measure(row: Row, seed: int, folder: Path) -> Result:
    """Train and evaluate one row."""
    run = folder / f"seed-{seed}"
    started, before = time.monotonic(), _processor_seconds()
    _saccade(train_command(row, seed, run))
    minutes = (time.monotonic() - started) / 60
    processor = (_processor_seconds() - before) / 60 / (os.cpu_count() or 1)
    metrics = json.loads(_saccade(["saccade", "evaluate", str(run), "--json"]))
    return Result(100 * metrics["accuracy"], minutes, processor)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _saccade(command: list[str]) -> str:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Parse the command line, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="keep the runs in this folder")
    parser.add_argument("--show", action="store_true", help="print the commands only")
    options = parser.parse_args()
    names = options.rows.split(",")
    if options.show:
        for name in names:
            print(shlex.join(train_command(ROWS[name], 1, Path("runs") / name)))
        return
    print_machine()
    rows = []
    with TemporaryDirectory() as scratch:
        for name in names:
            folder = (options.out or Path(scratch)) / name
            found = [measure(ROWS[name], seed, folder) for seed in range(1, options.seeds + 1)]
            accuracies = [result.accuracy for result in found]
            rows.append(
                [
                    name,
                    f"{mean(accuracies):.2f} ({min(accuracies):.2f} to {max(accuracies):.2f})",
                    ROWS[name].published,
                    f"{mean(result.minutes for result in found):.1f}",
                    f"{mean(result.processor for result in found):.1f}",
                ]
            )
            print(rows[-1], file=sys.stderr, flush=True)
    table(["network", "accuracy, %", "published", "minutes", "processor"], rows)


if __name__ == "__main__":
    main()
