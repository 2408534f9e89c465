"""Plain torch as its users write it: ResNet-18, a data set that decodes and augments each image.

`plain` is a script without any tuning: images with their channels first, the default SGD.
`tuned` has channels-last weights and images, the fused SGD and glibc's allocator tuned as ours.
Imports nothing of Saccade, whose memory would be counted.
"""

import ctypes
import random
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from peers.pipe import THREADS, Pipe
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

BATCH, SIZE, PADDING = 128, 32, 4
WIDTH, STAGES = 64, 4


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Add the shortcut."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet18(nn.Module):
    """ResNet-18 for images of 32 × 32, with the parameter names of torchvision."""

    def __init__(self, classes: int = 10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        self.relu = nn.ReLU(inplace=True)
        inputs = WIDTH
        for stage in range(STAGES):
            outputs = WIDTH * 2**stage
            blocks = Block(inputs, outputs, 2 if stage else 1), Block(outputs, outputs, 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.relu(self.bn1(self.conv1(x)))
        for stage in range(STAGES):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


class Pictures(Dataset[tuple[Tensor, int]]):
    """Image files in a folder for each class, decoded and augmented one by one."""

    def __init__(self, folder: str, mean: Tensor, deviation: Tensor, augment: bool = True):
        self.files = sorted(Path(folder).glob("*/*.png"))
        self.classes = sorted({file.parent.name for file in self.files})
        self.mean, self.deviation = mean[:, None, None], deviation[:, None, None]
        self.augment = augment

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        """Open, crop, mirror, convert and normalise an image."""
        image = Image.open(self.files[row]).convert("RGB")
        if self.augment:
            image = ImageOps.expand(image, PADDING)
            x, y = random.randint(0, 2 * PADDING), random.randint(0, 2 * PADDING)
            image = image.crop((x, y, x + SIZE, y + SIZE))
            if random.random() < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        values = pixels.to(torch.float32).div(255)
        return values.sub_(self.mean).div_(self.deviation), self.classes.index(
            self.files[row].parent.name
        )


def compete(pipe: Pipe, folder: str, given: str, what: str, kind: str = "plain") -> None:
    """Train, predict or read images of a folder, as the commands on the pipe ask."""
    torch.set_num_threads(THREADS)
    expected = torch.load(given)
    mean, deviation = expected["mean"], expected["deviation"]
    tasks: dict[str, Callable[..., None]]
    if what == "data":
        loader = make_loader(Pictures(folder, mean, deviation), int(kind))
        batch, _ = next(iter(DataLoader(Pictures(folder, mean, deviation, augment=False), 64)))
        difference = float((batch - expected["batch"]).abs().max())
        tasks = {"epoch": lambda: [None for _ in loader]}
    else:
        model, is_tuned = ResNet18(), kind == "tuned"
        model.load_state_dict(expected["weights"])
        form = {"memory_format": torch.channels_last if is_tuned else torch.contiguous_format}
        if is_tuned:
            keep_freed_memory()
            model.to(**form)
        with torch.inference_mode():
            logits = model.eval()(expected["batch"].contiguous(**form))
        difference = float((logits - expected["logits"]).abs().max() / logits.abs().max())
        if what == "inference":
            tasks = {"predict": lambda batch: predict(model, batch, form)}
        else:
            loader = make_loader(Pictures(folder, mean, deviation), 0)
            tasks = train_tasks(model, loader, form, is_tuned)
    pipe.send(difference=difference)
    while command := pipe.receive():
        run, start = tasks[command.pop("do")], time.perf_counter()
        run(**command)
        pipe.send(seconds=time.perf_counter() - start)


def make_loader(pictures: Pictures, workers: int) -> DataLoader[tuple[Tensor, int]]:
    """Return shuffled batches."""
    return DataLoader(
        pictures, BATCH, True, num_workers=workers, persistent_workers=workers > 0, drop_last=True
    )


def keep_freed_memory() -> None:
    """Configure glibc to keep freed memory, as our training does."""
    libc: Any = ctypes.CDLL(None)
    libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
    libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD


def predict(model: nn.Module, batch: int, form: dict[str, Any]) -> None:
    """Compute the logits of a batch that is in memory."""
    images = torch.full((batch, 3, SIZE, SIZE), 0.5).contiguous(**form)
    with torch.inference_mode():
        model(images)


def train_tasks(
    model: nn.Module, loader: DataLoader[tuple[Tensor, int]], form: dict[str, Any], is_fused: bool
) -> dict[str, Callable[..., None]]:
    """Return training on batches that are in memory, and on those of the loader."""
    options = {"momentum": 0.9, "weight_decay": 5e-4, "fused": is_fused or None}
    optimizer = torch.optim.SGD(model.parameters(), 0.01, **options)
    ready = [(images.contiguous(**form), classes) for images, classes in loader]

    def read() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            for images, classes in loader:
                yield images.contiguous(**form), classes

    batches = {"steps": cycle(ready), "pipeline": read()}

    def train(kind: str, steps: int) -> None:
        model.train()
        for _ in range(steps):
            images, classes = next(batches[kind])
            loss = F.cross_entropy(model(images), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()  # which a script logs

    return {kind: lambda steps, kind=kind: train(kind, steps) for kind in batches}
