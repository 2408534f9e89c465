"""Accuracy and time of image networks on published data, next to published figures.

    SACCADE_DATA=… python benchmarks/image_scores.py [--rows lenet,vgg] [--seeds 3] [--out FOLDER]
        [--dtype bfloat16]

All are trained for ten epochs. The published figures of the first four are those of Zhang et al.
("Dive into Deep Learning"), who enlarge the images to 96 (ResNet-18) or 224 pixels (AlexNet, VGG)
for networks of the published width (VGG: a quarter of it). Ours read 28 or 32 pixels and are
narrower. Each row is the commands

    saccade train image --data DATA … --set train.seed=N --out RUN
    saccade evaluate RUN --json

of which `--show` prints the first. Minutes are those of the whole training command; "processor" is
its user and system time: what it would take on one idle core.
"""

import argparse
import json
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
# 57,000 images: the best weights are chosen on the other 3,000
TEN_EPOCHS = "train.batch_tokens=256 train.steps=2227 data.dev_share=0.05 train.patience=100"


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
        f"{TEN_EPOCHS} model.width=12 model.hidden=128 model.grid=3",
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
    processor: float  # minutes of one core


def train_command(row: Row, seed: int, out: Path, dtype: str) -> list[str]:
    """Return the command that trains a row."""
    values = [*row.settings.split(), f"train.seed={seed}", f"train.dtype={dtype}"]
    settings = [f"--set={value}" for value in values]
    return ["saccade", "train", *row.arguments.split(), *settings, "--out", str(out)]


def measure(row: Row, seed: int, folder: Path, dtype: str) -> Result:
    """Train and evaluate one row."""
    run = folder / f"seed-{seed}"
    started, before = time.monotonic(), _processor_seconds()
    _saccade(train_command(row, seed, run, dtype))
    minutes = (time.monotonic() - started) / 60
    processor = (_processor_seconds() - before) / 60
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
    parser.add_argument("--dtype", default="float32", help="bfloat16 where the processor has it")
    parser.add_argument("--show", action="store_true", help="print the commands only")
    options = parser.parse_args()
    names = options.rows.split(",")
    if options.show:
        for name in names:
            print(shlex.join(train_command(ROWS[name], 1, Path("runs") / name, options.dtype)))
        return
    print_machine()
    rows = []
    with TemporaryDirectory() as scratch:
        for name in names:
            folder = (options.out or Path(scratch)) / name
            seeds = range(1, options.seeds + 1)
            found = [measure(ROWS[name], seed, folder, options.dtype) for seed in seeds]
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
