"""Weights of torchvision's networks as safetensors files, in and out."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from saccade.errors import ConfigError, DataError
from saccade.interop.torchvision import export_torchvision, load_torchvision_weights
from saccade.models.image_config import ResNetConfig
from saccade.models.registry import IMAGE_MODELS
from saccade.models.resnet import ResNet
from saccade.tasks.image_classification.components import load_published_weights
from saccade.tasks.image_classification.config import ImageRecipe
from tests.models.image_networks import random_images, small_network


def saved(path: Path, model: Any, **more: torch.Tensor) -> Path:
    save_file({**model.float().state_dict(), **more}, path)
    return path


@pytest.mark.parametrize("name", ["alexnet", "vgg11", "resnet18", "googlenet"])
def test_weights_are_loaded_by_name(tmp_path: Path, name: str) -> None:
    model, other = small_network(name).float(), small_network(name).float()
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    auxiliary = {"aux1.fc1.weight": torch.zeros(2, 2)} if name == "googlenet" else {}
    path = saved(tmp_path / "weights.safetensors", model, **auxiliary)
    assert load_torchvision_weights(other, name, path) == list(auxiliary)
    images = random_images(model).float()
    with torch.no_grad():
        torch.testing.assert_close(other(images), model(images), rtol=0, atol=0)


def test_old_names_of_densenet_are_read(tmp_path: Path) -> None:
    model = small_network("densenet121").float()
    tensors = {}
    for key, tensor in model.state_dict().items():
        if not key.endswith("num_batches_tracked"):
            for layer in ("norm1", "norm2", "conv1", "conv2"):
                key = key.replace(f".{layer}.", f".{layer[:-1]}.{layer[-1]}.")
            tensors[key] = tensor
    assert any(".norm.1." in key for key in tensors)
    save_file(tensors, tmp_path / "old.safetensors")
    other = small_network("densenet121", classes=7).float()
    left_out = load_torchvision_weights(
        other, "densenet121", tmp_path / "old.safetensors", is_new_output=True
    )
    assert left_out == ["classifier.bias", "classifier.weight"]
    images = random_images(model).float()
    with torch.no_grad():
        torch.testing.assert_close(
            other.feature_grid(images), model.feature_grid(images), rtol=0, atol=0
        )


def test_output_layer_of_each_network() -> None:
    outputs = {name: small_network(name).output_name for name in ("alexnet", "vgg11", "resnet18")}
    assert outputs == {"alexnet": "classifier.6", "vgg11": "classifier.6", "resnet18": "fc"}


def test_wrong_weights_are_refused_and_the_network_is_unchanged(tmp_path: Path) -> None:
    model = small_network("resnet18").float()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    path = tmp_path / "weights.safetensors"
    tensors = dict(model.state_dict())
    for changed, message in (
        (
            {"fc.weight": torch.zeros(9, 32), "fc.bias": torch.zeros(9)},
            r"\(is_new_output=True",
        ),
        ({"conv1.weight": torch.zeros(1, 2)}, r"conv1\.weight: got 1 × 2; expected 4 × 3 × 7 × 7"),
        ({"bn1.bias": torch.zeros(4, dtype=torch.int64)}, r"bn1\.bias: got values of type I64"),
        ({"more": torch.zeros(1)}, r"more: it is not a tensor of resnet18"),
    ):
        save_file({**tensors, **changed}, path)
        with pytest.raises(DataError, match=message):
            load_torchvision_weights(model, "resnet18", path)
    missing = {key: tensor for key, tensor in tensors.items() if key != "bn1.bias"}
    save_file(missing, path)
    with pytest.raises(DataError, match=r"bn1\.bias: it is missing; expected 4"):
        load_torchvision_weights(model, "resnet18", path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_files_that_are_not_safetensors_are_refused(tmp_path: Path) -> None:
    model = small_network("resnet18")
    path = tmp_path / "resnet18.pth"
    with pytest.raises(DataError, match=r"is missing; expected .* weights_only=True"):
        load_torchvision_weights(model, "resnet18", path)
    torch.save({"conv1.weight": torch.zeros(1)}, path)
    with pytest.raises(DataError, match=r"got a pickle, .* try in Python: .*weights_only=True"):
        load_torchvision_weights(model, "resnet18", path)
    path.write_bytes(pickle.dumps({"conv1.weight": 1}))
    with pytest.raises(DataError, match="got a pickle"):
        load_torchvision_weights(model, "resnet18", path)
    path.write_bytes(b"\x10\0\0\0\0\0\0\0{broken")
    with pytest.raises(DataError, match="could not be read"):
        load_torchvision_weights(model, "resnet18", path)


def test_setting_names_the_file_that_a_new_run_starts_from(tmp_path: Path) -> None:
    source = small_network("resnet18", classes=9).float()
    path = saved(tmp_path / "weights.safetensors", source)
    config = ResNetConfig(classes=5, channels=3, image_size=64, width=4, weights=str(path))
    model = ResNet(config)
    own = model.fc.weight.clone()
    assert load_published_weights(ImageRecipe(model=config), model) == str(path)
    assert torch.equal(model.layer3[1].conv2.weight, source.layer3[1].conv2.weight)
    assert torch.equal(model.fc.weight, own)
    without = config.with_values(weights=None)
    assert load_published_weights(ImageRecipe(model=without), model) is None


def test_export_has_torchvisions_names_and_is_read_again(tmp_path: Path) -> None:
    config = ResNetConfig(classes=3, channels=3, image_size=64)
    model = ResNet(config)
    export_torchvision(tmp_path / "out", config, model.state_dict())
    with safe_open(tmp_path / "out" / "model.safetensors", framework="pt") as file:
        keys = set(file.keys())
    assert {"conv1.weight", "layer2.0.downsample.1.running_var", "fc.bias"} <= keys
    assert "bn1.num_batches_tracked" in keys
    other = ResNet(config)
    assert load_torchvision_weights(other, "resnet18", tmp_path / "out/model.safetensors") == []
    assert all(
        torch.equal(tensor, model.state_dict()[name]) for name, tensor in other.state_dict().items()
    )


def test_networks_that_torchvision_does_not_have_are_not_exported(tmp_path: Path) -> None:
    small = ResNetConfig(classes=3, channels=3, image_size=32, width=8)
    with pytest.raises(
        ConfigError, match=r"conv1\.weight: got \(8, 3, 3, 3\); expected \(64, 3, 7"
    ):
        export_torchvision(tmp_path / "out", small, ResNet(small).state_dict())
    entry = IMAGE_MODELS["lenet"]
    lenet = entry.config_class(name="lenet", classes=3, channels=1, image_size=28)
    with pytest.raises(ConfigError, match="got lenet; expected a network that torchvision has"):
        export_torchvision(tmp_path / "out", lenet, {})
    assert not (tmp_path / "out").exists()
