"""Invariances of the image tasks, each network of each: neighbours, batch size, folding of batch
norms, reload and resume."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from saccade.io.tensors import read_tensors, write_tensors
from saccade.models.contrastive import ContrastiveNetwork
from saccade.models.registry import IMAGE_MODELS
from saccade.nn.norm_folding import fold_batch_norm
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from tests.models.image_networks import SMALL, random_images, small_network
from tests.models.test_captioning import NETWORKS as CAPTIONERS
from tests.models.test_captioning import VOCAB, build, draw_images


class Case(NamedTuple):
    """A network, and its output for each image of a batch."""

    model: nn.Module
    images: Tensor
    output: Callable[[nn.Module, Tensor], Tensor]


def features(name: str) -> Case:
    network = small_network(name)
    model = ContrastiveNetwork(network, 6, 4).double().eval()
    return Case(model, random_images(network, 2), lambda model, images: model(images))


def captioner(name: str) -> Case:
    target = torch.randint(4, VOCAB, (1, 5))
    return Case(
        build(name),
        draw_images(2),
        lambda model, images: model(images, target.expand(len(images), -1)),
    )


# classifiers are in tests/models/test_image_networks.py
CASES: dict[str, Callable[[], Case]] = {
    **{f"contrastive {name}": lambda name=name: features(name) for name in SMALL},
    **{f"caption {name}": lambda name=name: captioner(name) for name in CAPTIONERS},
}


def test_table_has_every_family() -> None:
    families = {name.split("_")[0].rstrip("0123456789") for name in IMAGE_MODELS}
    assert {name.split("_")[0].rstrip("0123456789") for name in SMALL} == families


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_output_of_an_image_is_its_own(name: str, tmp_path: Path) -> None:
    model, images, output = CASES[name]()
    expected = output(model, images)
    neighbours = torch.cat([images[:1], 100 * torch.randn_like(images)])
    for batch in (images[:1], neighbours):
        torch.testing.assert_close(output(model, batch)[0], expected[0])
    folded = fold_batch_norm(model.encoder, images[:1])
    torch.testing.assert_close(folded(images), model.encoder(images))
    weights = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    write_tensors(tmp_path / "weights", weights, {})
    for tensor in model.state_dict().values():
        tensor.zero_()
    model.load_state_dict(read_tensors(tmp_path / "weights")[0])
    assert torch.equal(output(model, images), expected)


# --- runs -----------------------------------------------------------------------------------------

QUICK = {
    "train.steps": 3,
    "train.evaluate_every": 2,
    "train.batch_tokens": 8,
    "train.checkpoint_seconds": 0,
    "train.threads": 1,
}
SMALL_CAPTIONER = {"width": 8, "encoder_width": 4}
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"{task} {name}": (task, name, values) for task in ("image", "contrastive")
       for name, values in SMALL.items()},
    "caption recurrent": ("caption", "recurrent", SMALL_CAPTIONER),
    "caption hard": ("caption", "recurrent", {**SMALL_CAPTIONER, "attention": "hard"}),
    "caption gru": ("caption", "recurrent", {**SMALL_CAPTIONER, "cell": "gru", "depth": 2}),
    "caption resnet18": ("caption", "recurrent", {**SMALL_CAPTIONER, "encoder": "resnet18"}),
    "caption recurrent_mean": ("caption", "recurrent_mean", SMALL_CAPTIONER),
    "caption transformer": ("caption", "transformer", {**SMALL_CAPTIONER, "heads": 2}),
}  # fmt: skip


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("invariants") / "photos"
    lines = []
    for number in range(24):
        kind = ("dark", "light")[number % 2]
        (folder / kind).mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 128, (20, 20, 3), np.uint8)
        Image.fromarray(pixels + np.uint8(number % 2 * 128)).save(folder / kind / f"{number}.png")
        lines.append(f"photos/{kind}/{number}.png\ta {kind} image\n")
    (folder.parent / "captions.tsv").write_text("".join(lines))
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_resumed_and_reloaded_runs_are_equal(
    name: str,
    photos: Path,
    tmp_path: Path,
    no_report: None,
    outcome_of: Callable[[Path], dict[str, Any]],
) -> None:
    task, model, values = RUNS[name]
    data = photos.parent / "captions.tsv" if task == "caption" else photos
    changes = QUICK | {f"model.{key}": value for key, value in values.items()}
    recipe = resolve_recipe(task, data=str(data), model=model, changes=changes).recipe
    whole = train_recipe(recipe, tmp_path / "whole", TrainOptions()).run

    def interrupt(event: Any) -> None:
        if getattr(event, "step", 0) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=interrupt))
    resume(tmp_path / "resumed", {}, TrainOptions())
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")
    image = str(photos / "dark" / "0.png")
    assert load_run(whole.folder).predict(image) == whole.predict(image)
