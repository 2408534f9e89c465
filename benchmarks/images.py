"""Images: training, inference and decoding of a ResNet-18 against plain torch and Pillow.

    make bench-images

ResNet-18 with a 3 × 3 stem on colour images of 32 × 32, float32, two threads. The peers are a
script of plain torch (`peers/images_torch.py`) without any tuning, and the same one with
channels-last memory, the fused SGD and our allocator settings. Each has its own process, in
alternation; that all compute the same logits from the same weights, ours with folded batch norms,
is checked first.

- training, batches of 128: steps on batches that are in memory, then with the images read,
  augmented (crops of padded images, flips) and normalised, by a DataLoader without workers;
- inference on batches that are in memory;
- data: decoding into the store and reading an epoch from it, against a DataLoader that decodes and
  augments each image, without workers and with two.

Goals: ratios of 1.3 (training), 1.4 (inference) and 3 (data). Shares are those of the machine's
square matrix product, of the operations of the definition of a convolution; an algorithm with fewer
multiplications may exceed it. `--windows 1 --images 256 --steps 1` shows that all of it runs.
"""

import argparse
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from peers.alternating import Contestant, log_progress, ratio, summary
from peers.images_torch import BATCH, SIZE, ResNet18
from PIL import Image
from timing import operations, print_machine, spread, table

from saccade.training.cpu import OMP_ENV

OURS, PLAIN, TUNED, MACHINE = "saccade", "torch", "torch, tuned", "machine"
INFERENCE_BATCHES = (32, 128)
CLASSES = 10
EQUAL = 1e-5  # of the largest logit
Results = dict[str, Any]


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--windows", type=int, default=7, help="windows per contestant")
    parser.add_argument("--steps", type=int, default=2, help="training steps of a window")
    parser.add_argument("--images", type=int, default=2560, help="image files, a multiple of 128")
    parser.add_argument("--json", type=Path, help="save all results to this file")
    return parser.parse_args()


def write_pictures(folder: Path, count: int) -> None:
    """Write coloured patterns as PNG files, in a folder for each class."""
    generator = np.random.default_rng(1)
    for number in range(count):
        path = folder / str(number % CLASSES) / f"{number:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = generator.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(coarse).resize((SIZE, SIZE), Image.Resampling.BICUBIC).save(path)


class Rounds:
    """Contestants of one kind of work, measured in alternation."""

    def __init__(self, starts: Mapping[str, tuple[str, ...]], windows: int):
        self.windows, self.contestants = windows, dict[str, Contestant]()
        for name, arguments in starts.items():
            log_progress(f"starting {name}: {' '.join(arguments[:1] + arguments[3:])}")
            tuning = OMP_ENV if name == OURS else None  # as set by the command line
            contestant = self.contestants[name] = Contestant(name, *arguments, tuning=tuning)
            difference = contestant.facts.get("difference", 0.0)
            if difference > EQUAL:
                self.end()
                raise SystemExit(f"{name} does not compute the same: it differs by {difference}.")
            if difference:
                log_progress(f"{name} computes the same, up to {difference:.1g}")

    def measure(self, count: int, names: tuple[str, ...], **command: Any) -> Results:
        """Return the images per second of each window by contestant, after one to warm up."""
        found: dict[str, list[float]] = {}

        def rate(answer: dict[str, Any]) -> float:
            return answer["rate"] if "rate" in answer else count / answer["seconds"]

        for name in names:
            self.contestants[name].windows.clear()
            self.contestants[name].measure(rate, **command)
        for number, name in product(range(1, self.windows + 1), names):
            window = self.contestants[name].turn(rate, **command)
            found.setdefault(name, []).append(window.value)
            text = f"{' '.join(map(str, command.values()))}, window {number}: {name}"
            log_progress(f"{text}, {window.value:,.0f} ({window.others:.1%} others)")
        return {name: {"rates": rates, **self.facts(name)} for name, rates in found.items()}

    def facts(self, name: str) -> Results:
        """Return what else is known about the windows of a contestant."""
        whole = summary(self.contestants[name])
        return {key: whole[key] for key in ("others", "repeated", "peak_mb")}

    def end(self) -> None:
        """End the processes."""
        for contestant in self.contestants.values():
            contestant.end()


def print_table(found: Results, per_image: float = 0.0, machine: float = 0.0) -> None:
    """Print rates, shares of the machine's rate, ratios and memory."""
    rows = []
    for name, one in found.items():
        middle, low, high = ratio(found[OURS]["rates"], one["rates"])
        one["ratio"] = [middle, low, high]
        share = per_image * median(one["rates"]) / 1e9 / machine if machine else 0.0
        rows.append(
            [
                name,
                spread(one["rates"]),
                *([f"{share:.0%}"] if machine else []),
                "" if name == OURS else f"{middle:.2f} ({low:.2f} to {high:.2f})",
                f"{one['peak_mb']:,}",
            ]
        )
    heads = ["images/s", *(["share of the square product"] if machine else [])]
    table(["", *heads, "ratio (saccade / peer)", "peak MB"], rows)


def count_operations() -> tuple[float, float]:
    """Return the operations of an image in training and in inference, by the definition."""
    model, images = ResNet18(), torch.zeros(2, 3, SIZE, SIZE)
    training = operations(model, lambda: model(images).sum()) / 2
    first = 2 * model.conv1.weight.numel() * SIZE**2  # the gradient of the images is not computed
    return training, (training + first) / 3


def start_all(work: Path, what: str, kinds: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the arguments of the contestants' processes."""
    common = (str(work / "pictures"), str(work / "expected.pt"), what)
    peers = {name: ("images_torch", *common, kind) for name, kind in kinds.items()}
    return {OURS: ("images_saccade", *common), **peers}


def train(options: argparse.Namespace, work: Path, per_image: float) -> Results:
    """Compare training on batches in memory, and with reading and augmenting the images."""
    starts = start_all(work, "train", {PLAIN: "plain", TUNED: "tuned"})
    rounds = Rounds({**starts, MACHINE: ("train_machine",)}, options.windows)
    kept = {}
    try:
        for what in ("steps", "pipeline"):
            names = (OURS, PLAIN, TUNED, MACHINE)
            found = rounds.measure(BATCH * options.steps, names, do=what, steps=options.steps)
            machine = median(found.pop(MACHINE)["rates"])
            print(f"\nTraining, {what} (the machine: {machine:.0f} GFLOP/s)")
            print_table(found, per_image, machine)
            kept[what] = found | {MACHINE: machine}
    finally:
        rounds.end()
    return kept


def infer(options: argparse.Namespace, work: Path, per_image: float) -> Results:
    """Compare inference on batches in memory."""
    starts = start_all(work, "inference", {PLAIN: "plain", TUNED: "tuned"})
    rounds = Rounds({**starts, MACHINE: ("train_machine",)}, options.windows)
    kept = {}
    try:
        for batch in INFERENCE_BATCHES:
            names = (OURS, PLAIN, TUNED, MACHINE)
            found = rounds.measure(batch, names, do="predict", batch=batch)
            machine = median(found.pop(MACHINE)["rates"])
            print(f"\nInference, batches of {batch} (the machine: {machine:.0f} GFLOP/s)")
            print_table(found, per_image, machine)
            kept[str(batch)] = found | {MACHINE: machine}
    finally:
        rounds.end()
    return kept


def read(options: argparse.Namespace, work: Path) -> Results:
    """Compare decoding and augmentation."""
    workers = {f"{PLAIN}, {count} workers": str(count) for count in (0, 2)}
    rounds = Rounds(start_all(work, "data", workers), options.windows)
    try:
        later = rounds.measure(options.images, (OURS, *workers), do="epoch")
        decoding = rounds.measure(options.images, (OURS,), do="decode")
    finally:
        rounds.end()
    print("\nData, each epoch after the first")
    print_table(later)
    first = {name: {**one} for name, one in later.items()}
    first[OURS]["rates"] = [
        1 / (1 / one + 1 / other)
        for one, other in zip(later[OURS]["rates"], decoding[OURS]["rates"], strict=True)
    ]
    print("\nData, the first epoch, in which ours writes the store")
    print_table(first)
    return {"later": later, "first": first, "decoding": decoding}


def main() -> None:
    """Run the benchmark, print the results and save them if a file is given."""
    options = parse_arguments()
    print_machine()
    training, inference = count_operations()
    print(f"GFLOP an image: {training / 1e9:.2f} in training, {inference / 1e9:.2f} in inference")
    with TemporaryDirectory() as folder:
        work = Path(folder)
        write_pictures(work / "pictures", options.images)
        kept = {
            "train": train(options, work, training),
            "inference": infer(options, work, inference),
            "data": read(options, work),
        }
    if options.json:
        settings = {name: str(value) for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"asked": settings, **kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
