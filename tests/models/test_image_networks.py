"""Image networks: published sizes, independent implementations with the same weights, bad sizes."""

import pytest
import torch
from torch import nn

from saccade.errors import ConfigError
from saccade.models.image_config import LeNetConfig
from saccade.models.lenet import LeNet


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


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


def test_image_too_small_is_refused_with_the_layer_that_ran_out_of_pixels() -> None:
    message = (
        r"lenet: got image_size=8, which leaves no pixel for the layer features\.3 \(Conv2d\); "
        r"expected at least 12; try image_size=12"
    )
    with pytest.raises(ConfigError, match=message):
        LeNet(LeNetConfig(classes=10, channels=1, image_size=8))
    LeNet(LeNetConfig(classes=10, channels=1, image_size=12))


def test_sizes_that_were_not_set_are_refused() -> None:
    with pytest.raises(ConfigError, match="lenet: got classes=0, image_size=0; expected 1 or more"):
        LeNet(LeNetConfig(channels=1))
