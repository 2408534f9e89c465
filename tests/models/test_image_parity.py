"""Image networks against independent ones with the same weights.

The plain versions below read torchvision's parameter names from a state dict, and call functions of
torch only; ResNet is also compared with Hugging Face's.
"""

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.models.airbench import Airbench
from saccade.models.image_config import AirbenchConfig
from tests.models.image_networks import random_images, small_network

Weights = Mapping[str, Tensor]


def conv(w: Weights, name: str, x: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
    return F.conv2d(x, w[f"{name}.weight"], w.get(f"{name}.bias"), stride, padding)


def norm(w: Weights, name: str, x: Tensor, eps: float = 1e-5) -> Tensor:
    keys = ("running_mean", "running_var", "weight", "bias")
    mean, variance, gain, bias = (w[f"{name}.{key}"][:, None, None] for key in keys)
    return (x - mean) / (variance + eps) ** 0.5 * gain + bias


def dense(w: Weights, name: str, x: Tensor) -> Tensor:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


@torch.no_grad()
def logits(model: Any, images: Tensor) -> Tensor:
    found: Tensor = model(images)
    return found


def test_airbench() -> None:
    model = small_network("airbench")
    w, images = model.state_dict(), random_images(model)
    x = F.gelu(norm(w, "norm", conv(w, "stem", images)))
    for group in ("groups.0", "groups.1", "groups.2"):
        x = F.max_pool2d(conv(w, f"{group}.conv1", x, padding=1), 2)
        x = conv(w, f"{group}.conv2", F.gelu(norm(w, f"{group}.norm1", x)), padding=1)
        x = F.gelu(norm(w, f"{group}.norm2", x))
    torch.testing.assert_close(logits(model, images), x.amax((2, 3)) @ w["fc.weight"].T / 9)


def test_airbench_starts_as_whitened_patches() -> None:
    model = Airbench(AirbenchConfig(classes=5, channels=3, image_size=20, width=30))
    kernels = model.stem.weight.detach().flatten(1)
    torch.testing.assert_close(kernels[:12] @ kernels[:12].T, torch.eye(12))
    torch.testing.assert_close(kernels[12:], -kernels[:12])
    x = torch.randn(2, 24, 6, 6)
    torch.testing.assert_close(model.groups[0].conv1(x)[:, :24], x)


@pytest.mark.parametrize(("stem", "options"), [("imagenet", (4, 2)), ("small", (1, 1))])
def test_alexnet(stem: str, options: tuple[int, int]) -> None:
    model = small_network("alexnet", stem=stem)
    w, images = model.state_dict(), random_images(model)
    x = F.max_pool2d(conv(w, "features.0", images, *options).relu(), 3, 2)
    x = F.max_pool2d(conv(w, "features.3", x, padding=2).relu(), 3, 2)
    for layer in (6, 8, 10):
        x = conv(w, f"features.{layer}", x, padding=1).relu()
    x = F.adaptive_avg_pool2d(F.max_pool2d(x, 3, 2), 2).flatten(1)
    x = dense(w, "classifier.4", dense(w, "classifier.1", x).relu()).relu()
    torch.testing.assert_close(logits(model, images), dense(w, "classifier.6", x))


@pytest.mark.parametrize("name", ["vgg11", "vgg13_bn"])
def test_vgg(name: str) -> None:
    model = small_network(name)
    w, images = model.state_dict(), random_images(model)
    x, index = images, 0
    for convolutions in {"vgg11": (1, 1, 2, 2, 2), "vgg13_bn": (2, 2, 2, 2, 2)}[name]:
        for _ in range(convolutions):
            x = conv(w, f"features.{index}", x, padding=1)
            if name.endswith("_bn"):
                index += 1
                x = norm(w, f"features.{index}", x)
            x, index = x.relu(), index + 2
        x, index = F.max_pool2d(x, 2), index + 1
    x = F.adaptive_avg_pool2d(x, 2 if name == "vgg13_bn" else 1).flatten(1)
    for layer in (0, 3):
        x = dense(w, f"classifier.{layer}", x).relu()
    torch.testing.assert_close(logits(model, images), dense(w, "classifier.6", x))


def test_nin_as_taught() -> None:
    def block(inputs: int, outputs: int, *options: int) -> list[nn.Module]:
        pixels = [layer for _ in "12" for layer in (nn.Conv2d(outputs, outputs, 1), nn.ReLU())]
        return [nn.Conv2d(inputs, outputs, *options), nn.ReLU(), *pixels]

    model = small_network("nin", stem="imagenet", image_size=80)
    plain = nn.Sequential(
        *block(3, 6, 11, 4, 0),
        nn.MaxPool2d(3, stride=2),
        *block(6, 16, 5, 1, 2),
        nn.MaxPool2d(3, stride=2),
        *block(16, 24, 3, 1, 1),
        nn.MaxPool2d(3, stride=2),
        *block(24, 5, 3, 1, 1),
        nn.AdaptiveAvgPool2d((1, 1)),
        nn.Flatten(),
    ).double()
    plain.load_state_dict(dict(zip(plain.state_dict(), model.state_dict().values(), strict=True)))
    images = random_images(model)
    torch.testing.assert_close(logits(model, images), plain(images))


@pytest.mark.parametrize(("stem", "kernel"), [("imagenet", 3), ("small", 5)])
def test_googlenet(stem: str, kernel: int) -> None:
    model = small_network("googlenet", stem=stem, branch_kernel=kernel)
    w, images = model.state_dict(), random_images(model)

    def layer(name: str, x: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
        return norm(w, f"{name}.bn", conv(w, f"{name}.conv", x, stride, padding), 1e-3).relu()

    def inception(name: str, x: Tensor) -> Tensor:
        branches = [
            layer(f"{name}.branch1", x),
            layer(f"{name}.branch2.1", layer(f"{name}.branch2.0", x), padding=1),
            layer(f"{name}.branch3.1", layer(f"{name}.branch3.0", x), padding=kernel // 2),
            layer(f"{name}.branch4.1", F.max_pool2d(x, 3, 1, 1)),
        ]
        return torch.cat(branches, 1)

    if stem == "imagenet":
        x = F.max_pool2d(layer("conv1", images, 2, 3), 3, 2, ceil_mode=True)
    else:
        x = layer("conv1", images, padding=1)
    x = layer("conv3", layer("conv2", x), padding=1)
    x = F.max_pool2d(x, 3, 2, ceil_mode=True)
    for letter in "ab":
        x = inception(f"inception3{letter}", x)
    x = F.max_pool2d(x, 3, 2, ceil_mode=True)
    for letter in "abcde":
        x = inception(f"inception4{letter}", x)
    x = F.max_pool2d(x, 2, 2, ceil_mode=True)
    for letter in "ab":
        x = inception(f"inception5{letter}", x)
    torch.testing.assert_close(logits(model, images), dense(w, "fc", x.mean((2, 3))))


@pytest.mark.parametrize("stem", ["imagenet", "small"])
def test_densenet(stem: str) -> None:
    model = small_network("densenet121", stem=stem)
    w, images = model.state_dict(), random_images(model)
    if stem == "imagenet":
        x = norm(w, "features.norm0", conv(w, "features.conv0", images, 2, 3)).relu()
        x = F.max_pool2d(x, 3, 2, 1)
    else:
        x = norm(w, "features.norm0", conv(w, "features.conv0", images, 1, 1)).relu()
    for block, layers in enumerate((6, 12, 24, 16), 1):
        for layer in range(1, layers + 1):
            name = f"features.denseblock{block}.denselayer{layer}"
            y = conv(w, f"{name}.conv1", norm(w, f"{name}.norm1", x).relu())
            y = conv(w, f"{name}.conv2", norm(w, f"{name}.norm2", y).relu(), padding=1)
            x = torch.cat([x, y], 1)
        if block < 4:
            name = f"features.transition{block}"
            x = F.avg_pool2d(conv(w, f"{name}.conv", norm(w, f"{name}.norm", x).relu()), 2)
    x = norm(w, "features.norm5", x).relu().mean((2, 3))
    torch.testing.assert_close(logits(model, images), dense(w, "classifier", x))


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
@pytest.mark.parametrize("stem", ["imagenet", "small"])
def test_resnet(name: str, stem: str) -> None:
    model = small_network(name, stem=stem)
    w, images = model.state_dict(), random_images(model)
    if stem == "imagenet":
        x = F.max_pool2d(norm(w, "bn1", conv(w, "conv1", images, 2, 3)).relu(), 3, 2, 1)
    else:
        x = norm(w, "bn1", conv(w, "conv1", images, 1, 1)).relu()
    for stage, blocks in enumerate({"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}[name]):
        for index in range(blocks):
            block, stride = f"layer{stage + 1}.{index}", 2 if stage and not index else 1
            if name == "resnet18":
                y = norm(w, f"{block}.bn1", conv(w, f"{block}.conv1", x, stride, 1)).relu()
                y = norm(w, f"{block}.bn2", conv(w, f"{block}.conv2", y, 1, 1))
            else:
                y = norm(w, f"{block}.bn1", conv(w, f"{block}.conv1", x)).relu()
                y = norm(w, f"{block}.bn2", conv(w, f"{block}.conv2", y, stride, 1)).relu()
                y = norm(w, f"{block}.bn3", conv(w, f"{block}.conv3", y))
            if f"{block}.downsample.0.weight" in w:
                x = conv(w, f"{block}.downsample.0", x, stride)
                x = norm(w, f"{block}.downsample.1", x)
            x = (x + y).relu()
    torch.testing.assert_close(logits(model, images), dense(w, "fc", x.mean((2, 3))))


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_resnet_equals_that_of_hugging_face(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    model = small_network(name, stem="imagenet")
    widths = [4, 8, 16, 32] if name == "resnet18" else [16, 32, 64, 128]
    theirs = transformers.ResNetForImageClassification(
        transformers.ResNetConfig(
            embedding_size=4,
            hidden_sizes=widths,
            depths=[2, 2, 2, 2] if name == "resnet18" else [3, 4, 6, 3],
            layer_type="basic" if name == "resnet18" else "bottleneck",
            num_labels=5,
        )
    )
    theirs.double().eval()
    theirs.load_state_dict({key: model.state_dict()[ours(key)] for key in theirs.state_dict()})
    images = random_images(model)
    with torch.no_grad():
        torch.testing.assert_close(logits(model, images), theirs(images).logits)


def ours(key: str) -> str:
    """Return torchvision's name of a parameter of Hugging Face's ResNet."""
    parts = key.split(".")
    kind = {"convolution": "conv", "normalization": "bn"}
    if parts[0] == "classifier":
        return f"fc.{parts[-1]}"
    if parts[1] == "embedder":
        return f"{kind[parts[3]]}1.{parts[-1]}"
    stage, block = int(parts[3]) + 1, parts[5]
    if parts[6] == "shortcut":
        index = 0 if parts[7] == "convolution" else 1
        return f"layer{stage}.{block}.downsample.{index}.{parts[-1]}"
    return f"layer{stage}.{block}.{kind[parts[8]]}{int(parts[7]) + 1}.{parts[-1]}"


def test_attention_cnn_equals_torch_attention() -> None:
    model = small_network("attention_cnn")
    w, images = model.state_dict(), random_images(model)
    x = images
    for layer in (0, 4):
        x = norm(w, f"features.{layer + 1}", conv(w, f"features.{layer}", x, padding=1)).relu()
        x = F.max_pool2d(x, 2)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).double()
    part = model.attention.self_attention
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([part.query.weight, part.key_value.weight]))
        attention.in_proj_bias.copy_(torch.cat([part.query.bias, part.key_value.bias]))
        attention.out_proj.load_state_dict(part.out.state_dict())
        cells = x.flatten(2).transpose(1, 2)
        n = F.layer_norm(cells, (8,), w["attention.norm.weight"], w["attention.norm.bias"])
        cells = cells + attention(n, n, n)[0]
    torch.testing.assert_close(logits(model, images), dense(w, "fc", cells.mean(1)))


def test_vision_transformer_equals_torch_encoder() -> None:
    model = small_network("vit")
    w, images = model.state_dict(), random_images(model)
    patches = F.unfold(images, 4, stride=4).transpose(1, 2)  # (B, T, pixels)
    x = patches @ w["patches.weight"].flatten(1).T + w["patches.bias"] + w["positions.table"]
    with torch.no_grad():
        for block in model.blocks:
            layer = nn.TransformerEncoderLayer(
                8, 2, 12, activation="gelu", batch_first=True, norm_first=True, dropout=0
            ).double()
            part = block.self_attention
            layer.self_attn.in_proj_weight.copy_(
                torch.cat([part.query.weight, part.key_value.weight])
            )
            layer.self_attn.in_proj_bias.copy_(torch.cat([part.query.bias, part.key_value.bias]))
            layer.self_attn.out_proj.load_state_dict(part.out.state_dict())
            layer.linear1.load_state_dict(block.feed_forward.inner.state_dict())
            layer.linear2.load_state_dict(block.feed_forward.outer.state_dict())
            layer.norm1.load_state_dict(block.around_attention.norm.state_dict())
            layer.norm2.load_state_dict(block.around_feed_forward.norm.state_dict())
            x = layer(x)
    x = F.layer_norm(x, (8,), w["norm.weight"], w["norm.bias"]).mean(1)
    torch.testing.assert_close(logits(model, images), dense(w, "head", x))


def test_efficientnet_lite() -> None:
    model = small_network("efficientnet_lite0")
    w, images = model.state_dict(), random_images(model)

    def same(name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = w[f"{name}.weight"]
        kernel, size = weight.shape[-1], x.shape[-1]
        total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        before, after = total // 2, total - total // 2
        groups = len(weight) if weight.shape[1] == 1 else 1
        return F.conv2d(F.pad(x, (before, after) * 2), weight, None, stride, groups=groups)

    x = F.relu6(norm(w, "bn0", same("conv_stem", images, 2), 1e-3))
    inputs, index = 4, 0
    # of the builder of the published model, with an eighth of its channels
    for repeats, stride, outputs in (
        (1, 1, 2), (2, 2, 3), (2, 2, 5), (3, 2, 10), (3, 1, 14), (4, 2, 24), (1, 1, 40)
    ):  # fmt: skip
        for repeat in range(repeats):
            name, y, step = f"blocks.{index}", x, 1 if repeat else stride
            if index:
                y = F.relu6(norm(w, f"{name}.bn0", same(f"{name}.expand_conv", y), 1e-3))
            y = same(f"{name}.depthwise_conv", y, step)
            y = F.relu6(norm(w, f"{name}.bn1", y, 1e-3))
            y = norm(w, f"{name}.bn2", same(f"{name}.project_conv", y), 1e-3)
            x = x + y if step == 1 and inputs == outputs else y
            inputs, index = outputs, index + 1
    assert index == 16
    x = F.relu6(norm(w, "bn1", same("conv_head", x), 1e-3)).mean((2, 3))
    torch.testing.assert_close(logits(model, images), dense(w, "fc", x))
