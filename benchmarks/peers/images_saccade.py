"""Our images: the decoder, store, augmentation, objective and loop of `saccade train`."""

import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from peers.images_torch import BATCH, PADDING, SIZE
from peers.pipe import THREADS, Pipe

from saccade.data.images.augment import normalise_images, scale_pixels
from saccade.recipes.resolve import resolve_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.image_classification.components import build_image_network
from saccade.tasks.image_classification.config import ImageRecipe
from saccade.tasks.image_classification.data import PreparedImages, prepare_images
from saccade.tasks.image_classification.objective import ImageBatch, ImageObjective
from saccade.tasks.image_classification.scorer import ImageScorer
from saccade.training.device import tune_malloc
from saccade.training.loop import train_loop
from saccade.training.objective import Validation
from saccade.training.session import build_optimizer
from saccade.training.state import TrainState

FOREVER = 10**9
COMPARED = 64  # images


class ReadyObjective(ImageObjective):
    """The same batches again and again, which are in memory."""

    def __init__(self, *parts: Any):
        super().__init__(*parts)
        self.ready = list(islice(super().batches("train"), self.batches_in_epoch()))

    def batches(self, split: str, start: int = 0) -> Iterator[ImageBatch]:
        """Yield the batches of the first epoch without end."""
        return cycle(self.ready)


def compete(pipe: Pipe, folder: str, given: str, what: str) -> None:
    """Train, predict or read images of a folder, as the commands on the pipe ask."""
    torch.set_num_threads(THREADS)
    recipe = image_recipe(folder)
    data = prepare_images(recipe, PrepareContext())
    assert len(data.splits["train"]) % BATCH == 0
    tasks: dict[str, Callable[..., None]]
    if what == "data":
        store = Path(given).parent / "store"
        objective = objective_of(prepare_images(recipe, PrepareContext(scratch_dir=store)))

        def decode() -> None:
            for file in store.iterdir():
                file.unlink()
            found = prepare_images(recipe, PrepareContext(scratch_dir=store))
            objective.splits = found.splits

        tasks = {"decode": decode, "epoch": lambda: read_epoch(objective)}
    else:
        objective = objective_of(data)
        save_expected(objective, data, Path(given))
        if what == "inference":
            scorer = ImageScorer(data.recipe, objective.model, data.preprocessor)
            tasks = {"predict": lambda batch: predict(scorer, batch)}
        else:
            tasks = train_tasks(data)
    pipe.send(difference=0.0)
    while command := pipe.receive():
        run, start = tasks[command.pop("do")], time.perf_counter()
        run(**command)
        pipe.send(seconds=time.perf_counter() - start)


def image_recipe(folder: str) -> ImageRecipe:
    """Return the settings of a ResNet-18 on all images of a folder."""
    augment = {"flip": True, "crop": PADDING}
    train = {
        "batch_tokens": BATCH,
        "optimizer": "momentum",
        "learning_rate": 0.01,
        "weight_decay": 5e-4,
        "schedule": "constant",
        "steps": FOREVER,
        "evaluate_every": FOREVER,
        "checkpoint_seconds": FOREVER,
    }
    changes: dict[str, Any] = {f"data.augment.{name}": value for name, value in augment.items()}
    changes |= {"data.dev_share": 0.0, "data.test_share": 0.0, "model.image_size": SIZE}
    changes |= {f"train.{name}": value for name, value in train.items()}
    recipe = resolve_recipe("image", data=folder, model="resnet18", changes=changes).recipe
    assert isinstance(recipe, ImageRecipe)
    return recipe


def objective_of(data: PreparedImages, kind: type[ImageObjective] = ImageObjective) -> Any:
    """Return the training objective of a new network."""
    recipe = data.recipe
    assert isinstance(recipe, ImageRecipe)
    network = build_image_network(recipe, data.preprocessor)
    return kind(recipe, network, data.preprocessor, data.splits)


def save_expected(objective: ImageObjective, data: PreparedImages, path: Path) -> None:
    """Save weights, images and their logits by the folded network, for the peers to compare."""
    model, images = objective.model, data.splits["train"]
    with torch.no_grad():
        for batch in islice(objective.batches("train"), 3):
            model.train()(batch.images)  # running statistics
    order = sorted(range(len(images)), key=lambda row: images.names[row])[:COMPARED]
    pixels = torch.from_numpy(images.pixels_at(torch.tensor(order).numpy()))
    scorer = ImageScorer(data.recipe, model, data.preprocessor)
    expected = {
        "weights": model.state_dict(),
        "mean": objective.mean,
        "deviation": objective.deviation,
        "batch": normalise_images(scale_pixels(pixels), objective.mean, objective.deviation),
        "logits": torch.from_numpy(scorer.logits(pixels.numpy())).float(),
    }
    torch.save(expected, path)


def read_epoch(objective: ImageObjective) -> None:
    """Augment and normalise every image once."""
    for _ in islice(objective.batches("train"), objective.batches_in_epoch()):
        pass


def predict(scorer: ImageScorer, batch: int) -> None:
    """Compute the logits of a batch that is in memory."""
    images = torch.full((batch, 3, SIZE, SIZE), 0.5).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        scorer.inference_network()(images)


def train_tasks(data: PreparedImages) -> dict[str, Callable[..., None]]:
    """Return training on batches that are in memory, and on those of the objective."""
    tune_malloc()
    ready = objective_of(data, ReadyObjective)
    reading = objective_of(data)
    reading.model = ready.model
    optimizer = build_optimizer(ready.model, ready.settings)
    states = {"steps": TrainState(), "pipeline": TrainState()}
    objectives = {"steps": ready, "pipeline": reading}

    def train(kind: str, steps: int) -> None:
        state = states[kind]
        end = state.step + steps
        train_loop(
            objectives[kind],
            lambda examples: Validation({}, 0.0),  # never called
            optimizer,
            ready.settings,
            state,
            on_event=lambda event: None,
            save=lambda state: None,
            stop=lambda: state.step >= end,
        )

    return {kind: lambda steps, kind=kind: train(kind, steps) for kind in states}
