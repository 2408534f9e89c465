"""Summary of layers: published multiply-adds, torch's counter, receptive fields by gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from saccade.inspection.model_summary import summarise_model
from saccade.models.registry import IMAGE_MODELS
from tests.models.image_networks import SMALL, random_images, small_network

# 10⁹ multiply-adds of an image of 224 × 224: torchvision's tables of its models
PUBLISHED = {
    "alexnet": 0.714,
    "densenet121": 2.834,
    "googlenet": 1.498,
    "resnet18": 1.814,
    "resnet50": 4.089,
    "resnet152": 11.514,
    "vgg11": 7.609,
    "vgg19_bn": 19.632,
}


def receptive_fields(model: nn.Module, images: Tensor) -> dict[str, int | None]:
    return {s.name: s.receptive_field for s in summarise_model(model, images).layers}


def published_network(name: str) -> Any:
    entry = IMAGE_MODELS[name]
    with torch.device("meta"):
        config = entry.config_class(name=name, classes=1000, channels=3, image_size=224)
        return entry.model_class(config)


@pytest.mark.parametrize("name", PUBLISHED)
def test_multiply_adds_are_the_published_ones(name: str) -> None:
    summary = summarise_model(published_network(name), torch.empty(1, 3, 224, 224, device="meta"))
    assert summary.multiply_adds / 1e9 == pytest.approx(PUBLISHED[name], abs=0.0005)


@pytest.mark.parametrize("name", SMALL)
def test_multiply_adds_are_half_of_the_operations_that_torch_counts(name: str) -> None:
    model = small_network(name)
    images = random_images(model, 1)
    # it counts no fused attention on a CPU
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(images)
    summary = summarise_model(model, images)
    assert 2 * summary.multiply_adds == counter.get_total_flops()
    assert summary.parameters == sum(p.numel() for p in model.parameters())
    listed = sum(layer.parameters for layer in summary.layers)
    assert listed == summary.parameters


def test_layers_have_shape_and_parameters() -> None:
    model = small_network("lenet")
    summary = summarise_model(model.train(), random_images(model, 7))
    assert model.training and not any(part._forward_hooks for part in model.modules())
    first, last = summary.layers[0], summary.layers[-1]
    assert first == ("features.0", "Conv2d", (6, 20, 20), 3 * 25 * 6 + 6, 75 * 6 * 400, 5)
    assert last == ("classifier.5", "Linear", (5,), 84 * 5 + 5, 84 * 5, None)


class Branches(nn.Module):
    """Windows of several sizes, strides and dilations, added and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 2, 3, stride=2, padding=1)
        self.pool = nn.AvgPool2d(3, stride=2)
        self.dilated = nn.Conv2d(2, 2, 3, dilation=2, padding=2)
        self.pixel = nn.Conv2d(2, 2, 1)
        self.joined = nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.first(x).relu())
        return self.joined(torch.cat([x + self.dilated(x), self.pixel(x)], 1))


def test_receptive_field_is_the_extent_of_the_gradient() -> None:
    model = Branches()
    for parameter in model.parameters():
        nn.init.ones_(parameter)  # so that no gradient cancels
    size = 81
    fields = {
        s.name: s.receptive_field for s in summarise_model(model, torch.ones(1, 1, 81, 81)).layers
    }
    outputs: dict[str, Tensor] = {}
    images = torch.ones(1, 1, size, size, requires_grad=True)
    for name, module in model.named_children():
        module.register_forward_hook(lambda m, x, y, name=name: outputs.update({name: y}))
    model(images)
    assert fields == {"first": 3, "pool": 7, "dilated": 23, "pixel": 7, "joined": 31}
    for name, output in outputs.items():
        middle = output[0, 0, output.shape[2] // 2, output.shape[3] // 2]
        (gradient,) = torch.autograd.grad(middle, images, retain_graph=True)
        rows = gradient[0, 0].sum(1).nonzero().flatten()
        assert rows.max() - rows.min() + 1 == fields[name]


def test_attention_and_pooling_depend_on_the_whole_image() -> None:
    model = small_network("attention_cnn")
    fields = {
        s.name: s.receptive_field for s in summarise_model(model, random_images(model)).layers
    }
    assert fields["features.7"] == 10
    assert fields["attention.self_attention.query"] == 10
    assert fields["attention.self_attention.attention"] is None
    assert fields["fc"] is None
    plain = small_network("attention_cnn", attention=False)
    assert summarise_model(plain, random_images(plain)).layers[-2].receptive_field is None


def test_receptive_fields_of_published_networks() -> None:
    # Araujo et al. 2019, "Computing receptive fields of convolutional neural networks", table 1
    for name, last, expected in (("alexnet", "features.12", 195), ("vgg16", "features.30", 212)):
        model = published_network(name)
        fields = receptive_fields(model, torch.empty(1, 3, 224, 224, device="meta"))
        assert fields[last] == expected
