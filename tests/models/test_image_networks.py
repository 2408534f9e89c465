"""Image networks: published sizes, invariants, attention maps, images that are too small."""

import pytest
import torch
from torch import nn

from saccade.errors import ConfigError
from saccade.inspection.attention import capture_attention
from saccade.models.image_config import LeNetConfig
from saccade.models.lenet import LeNet
from saccade.models.registry import IMAGE_MODELS
from saccade.nn.kernels import winograd
from tests.models.image_networks import SMALL, random_images, small_network

# weights for 1000 classes and images of 224 × 224: torchvision's tables of its models
PUBLISHED = {
    "alexnet": 61_100_840,
    "densenet121": 7_978_856,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "efficientnet_lite0": 4_652_008,  # of its package
    "googlenet": 6_624_904,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "vgg11": 132_863_336,
    "vgg11_bn": 132_868_840,
    "vgg13": 133_047_848,
    "vgg13_bn": 133_053_736,
    "vgg16": 138_357_544,
    "vgg16_bn": 138_365_992,
    "vgg19": 143_667_240,
    "vgg19_bn": 143_678_248,
}


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_count_is_the_published_one(name: str) -> None:
    entry = IMAGE_MODELS[name]
    with torch.device("meta"):
        model = entry.model_class(
            entry.config_class(name=name, classes=1000, channels=3, image_size=224)
        )
    assert count(model) == PUBLISHED[name]


def test_lenet_as_taught_equals_a_plain_one() -> None:
    config = LeNetConfig(
        classes=10, channels=1, image_size=28, activation="sigmoid", pooling="mean"
    )
    model = LeNet(config)
    plain = nn.Sequential(
        nn.Conv2d(1, 6, kernel_size=5, padding=2),
        nn.Sigmoid(),
        nn.AvgPool2d(kernel_size=2, stride=2),
        nn.Conv2d(6, 16, kernel_size=5),
        nn.Sigmoid(),
        nn.AvgPool2d(kernel_size=2, stride=2),
        nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120),
        nn.Sigmoid(),
        nn.Linear(120, 84),
        nn.Sigmoid(),
        nn.Linear(84, 10),
    )
    plain.load_state_dict(dict(zip(plain.state_dict(), model.state_dict().values(), strict=True)))
    images = torch.randn(3, 1, 28, 28)
    torch.testing.assert_close(model(images), plain(images))
    assert count(model) == 61_706


def test_modern_lenet_of_small_images() -> None:
    model = LeNet(LeNetConfig(classes=10, channels=1, image_size=8, kernel_size=3, width=12))
    assert model(torch.randn(2, 1, 8, 8)).shape == (2, 10)
    assert model.feature_grid(torch.randn(2, 1, 8, 8)).shape == (2, 32, 1, 1)


# --- invariants -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_batch_neighbours_and_batch_size_do_not_change_logits(name: str) -> None:
    model = small_network(name)
    images = random_images(model, 4)
    with torch.no_grad():
        logits = model(images)
        for index in range(4):
            torch.testing.assert_close(model(images[index : index + 1])[0], logits[index])
        neighbours = torch.cat([images[:1], 100 * torch.randn_like(images)])
        torch.testing.assert_close(model(neighbours)[0], logits[0])


@pytest.mark.parametrize("name", SMALL)
def test_folding_of_batch_norm_does_not_change_logits(name: str) -> None:
    model = small_network(name)
    folded, images = model.folded(), random_images(model)
    left = [key for key, part in folded.named_modules() if isinstance(part, nn.BatchNorm2d)]
    # in DenseNet a norm precedes its convolution, except for the first and those between two
    assert all(name == "densenet121" and not key.endswith(("norm0", "norm2")) for key in left)
    assert len(left) == (58 + 4 if name == "densenet121" else 0)
    with torch.no_grad():
        torch.testing.assert_close(folded(images), model(images))
        # float32, relative to the largest logit
        expected = model(images)
        rounded = folded.float()(images.float()).double() / expected.abs().max()
        torch.testing.assert_close(rounded, expected / expected.abs().max(), rtol=0, atol=1e-5)


def test_kernels_of_wide_networks_do_not_change_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_network("resnet18", width=64, image_size=32).float()
    folded, images = model.folded(), random_images(model, 4).float()
    monkeypatch.setattr(winograd, "has_short_vectors", lambda: True)
    with torch.no_grad():
        found = model(images), folded(images)
        monkeypatch.setattr(winograd, "has_short_vectors", lambda: False)
        expected = model(images)
    for logits in found:
        assert not torch.equal(logits, expected)
        assert (logits - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize("name", SMALL)
def test_logits_are_those_of_the_feature_grid(name: str) -> None:
    model = small_network(name)
    images = random_images(model)
    with torch.no_grad():
        grid = model.feature_grid(images)
        torch.testing.assert_close(model.classify_grid(grid), model(images))
    assert grid.dim() == 4 and len(grid) == 3


@pytest.mark.parametrize("name", ["attention_cnn", "vit"])
def test_attention_over_the_grid_is_captured(name: str) -> None:
    model = small_network(name)
    images = random_images(model)
    with torch.no_grad(), capture_attention(model) as recorder:
        model(images)
    cells = model.feature_grid(images).shape[2:].numel()
    assert len(recorder.names()) == (1 if name == "attention_cnn" else 2)
    for layer in recorder.names():
        weights = recorder.weights(layer)
        assert weights.shape == (3, 2, cells, cells)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, cells, dtype=torch.float64))


def test_network_without_its_attention_layer_has_none_to_capture() -> None:
    model = small_network("attention_cnn", attention=False)
    with torch.no_grad(), capture_attention(model) as recorder:
        model(random_images(model))
    assert recorder.names() == []


# --- sizes that are refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changed", "layer", "smallest"),
    [
        ("lenet", {"image_size": 8}, r"features\.3 \(Conv2d\)", 12),
        ("alexnet", {"image_size": 32, "stem": "imagenet"}, r"features\.12 \(MaxPool2d\)", 63),
        ("vgg11", {"image_size": 28}, r"features\.20 \(MaxPool2d\)", 32),
        ("nin", {"image_size": 40, "stem": "imagenet"}, r"features\.5 \(MaxPool2d\)", 67),
        ("attention_cnn", {"image_size": 3}, r"features\.7 \(MaxPool2d\)", 4),
    ],
)
def test_network_too_deep_for_its_images_is_refused_with_the_layer(
    name: str, changed: dict[str, object], layer: str, smallest: int
) -> None:
    size = changed["image_size"]
    message = (
        rf"{name}: got image_size={size}, which leaves no pixel for the layer .*{layer}; "
        rf"expected at least {smallest}; try image_size={smallest}, or"
    )
    with pytest.raises(ConfigError, match=message):
        small_network(name, **changed)
    model = small_network(name, **{**changed, "image_size": smallest})
    assert model(random_images(model)).shape == (3, 5)


def test_sizes_that_were_not_set_are_refused() -> None:
    with pytest.raises(ConfigError, match="lenet: got classes=0, image_size=0; expected 1 or more"):
        LeNet(LeNetConfig(channels=1))


def test_patches_that_do_not_divide_the_image_are_refused() -> None:
    message = r"got image_size=16 and patch_size=5; expected a patch size that divides .*_size=4\."
    with pytest.raises(ConfigError, match=message):
        small_network("vit", patch_size=5)


def test_stem_follows_the_image_size() -> None:
    kernels = {
        (stem, size): small_network("resnet18", stem=stem, image_size=size).conv1.kernel_size
        for stem, size in (("auto", 63), ("auto", 64), ("imagenet", 32), ("small", 64))
    }
    assert list(kernels.values()) == [(3, 3), (7, 7), (7, 7), (3, 3)]
