"""Convolution, pooling and batch norm of images: torch's kernels against loops in float64."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from saccade.nn.convolution import (
    POOLINGS,
    RunningStatistics,
    StochasticPool2d,
    convolve_images,
    convolve_images_reference,
    convolve_pixels,
    convolved_size,
    cross_correlate,
    cross_correlate_reference,
    global_max_pool,
    global_mean_pool,
    normalise_channels,
    pool_reference,
)

CASES: list[dict[str, int]] = [
    {},
    {"padding": 1},
    {"stride": 2},
    {"dilation": 2},
    {"groups": 2},
    {"stride": 2, "padding": 2, "dilation": 2, "groups": 2},
]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_cross_correlation_equals_loops(options: dict[str, int]) -> None:
    x, bias = random(2, 4, 6, 5), random(6)
    kernel = random(6, 4 // options.get("groups", 1), 3, 2)
    expected = cross_correlate_reference(x, kernel, bias, **options)
    torch.testing.assert_close(cross_correlate(x, kernel, bias, **options), expected)


def test_convolution_is_cross_correlation_with_the_flipped_kernel() -> None:
    x, kernel = random(1, 2, 5, 5), random(3, 2, 3, 2)
    expected = convolve_images_reference(x, kernel, padding=1)
    torch.testing.assert_close(convolve_images(x, kernel, padding=1), expected)
    flipped = cross_correlate_reference(x, kernel.flip(-2, -1), padding=1)
    torch.testing.assert_close(expected, flipped)
    assert not torch.allclose(expected, cross_correlate(x, kernel, padding=1))


def test_convolution_of_polynomials_multiplies_them() -> None:
    # (1 + 2a)(3 + 4a + 5a²) = 3 + 10a + 13a² + 10a³, which cross-correlation does not give
    x = torch.tensor([[[[3.0, 4.0, 5.0]]]])
    kernel = torch.tensor([[[[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]]])
    product = convolve_images(x, kernel, padding=1)
    assert product.flatten().tolist() == [3.0, 10.0, 13.0, 10.0]


@pytest.mark.parametrize("options", [{}, CASES[-1]], ids=str)
def test_cross_correlation_gradcheck(options: dict[str, int]) -> None:
    x, bias = random(1, 2, 3, 3).requires_grad_(), random(2).requires_grad_()
    kernel = random(2, 2 // options.get("groups", 1), 2, 2).requires_grad_()
    for function in (cross_correlate, cross_correlate_reference):
        assert torch.autograd.gradcheck(
            lambda *tensors, f=function: f(*tensors, **options), (x, kernel, bias)
        )


def test_kernel_larger_than_the_image_is_refused() -> None:
    assert convolved_size(224, 7, stride=2, padding=3) == 112
    message = r"got 4 pixels and a kernel that spans 5; expected at least 5 pixels; try padding=1"
    with pytest.raises(ValueError, match=message):
        convolved_size(4, 3, dilation=2)
    assert convolved_size(4, 3, dilation=2, padding=1) == 2


def test_one_by_one_convolution_is_a_dense_layer_of_each_pixel() -> None:
    x, weight, bias = random(2, 3, 4, 5), random(6, 3), random(6)
    dense = nn.Linear(3, 6).double()
    with torch.no_grad():
        dense.weight.copy_(weight)
        dense.bias.copy_(bias)
    expected = cross_correlate_reference(x, weight[:, :, None, None], bias)
    torch.testing.assert_close(convolve_pixels(x, weight, bias), expected)
    for pixel in ((0, 0, 0), (1, 3, 4)):
        image, i, j = pixel
        torch.testing.assert_close(dense(x[image, :, i, j]), expected[image, :, i, j])


# --- pooling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POOLINGS)
def test_pooling_equals_loops(kind: str) -> None:
    x = random(2, 3, 6, 6)
    x[0, 0, :2, :2] = -1  # a region without a positive activation
    for layer in (POOLINGS[kind](2), POOLINGS[kind](3)):
        layer.eval()
        torch.testing.assert_close(layer(x), pool_reference(x, kind, layer.kernel_size))


def test_pooling_with_overlapping_regions_equals_loops() -> None:
    x = random(1, 2, 5, 5)
    for kind, layer in {
        "max": nn.MaxPool2d(3, 2),
        "mean": nn.AvgPool2d(3, 2),
        "stochastic": StochasticPool2d(3, 2).eval(),
    }.items():
        torch.testing.assert_close(layer(x), pool_reference(x, kind, 3, 2))


def test_stochastic_pooling_samples_in_proportion_to_the_activation() -> None:
    region = torch.tensor([[1.0, 2.0], [0.0, 5.0]])
    draws = 4000
    layer = StochasticPool2d(2)
    samples = layer(region.expand(draws, 1, 2, 2)).flatten()
    assert set(samples.tolist()) == {1.0, 2.0, 5.0}
    for value in (1.0, 2.0, 5.0):
        share, probability = (samples == value).double().mean().item(), value / 8
        deviation = (probability * (1 - probability) / draws) ** 0.5
        assert abs(share - probability) < 5 * deviation
    assert layer.eval()(region[None, None]).item() == pytest.approx((1 + 4 + 25) / 8)


def test_stochastic_pooling_passes_the_gradient_to_the_sample() -> None:
    x = random(1, 1, 4, 4).abs().requires_grad_()
    y = StochasticPool2d(2)(x)
    y.sum().backward()
    assert x.grad is not None
    assert set(x.grad.flatten().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(x[x.grad == 1].sort().values, y.flatten().sort().values)
    assert torch.autograd.gradcheck(StochasticPool2d(2).eval(), x)
    empty = torch.zeros(1, 1, 2, 2, requires_grad=True)
    for layer in (StochasticPool2d(2), StochasticPool2d(2).eval()):
        layer(empty).sum().backward()
    assert empty.grad is not None and empty.grad.isfinite().all()


def test_global_pooling() -> None:
    x = random(2, 3, 4, 5)
    for b in range(2):
        for c in range(3):
            values = x[b, c].flatten().tolist()
            assert global_max_pool(x)[b, c].item() == max(values)
            assert global_mean_pool(x)[b, c].item() == pytest.approx(sum(values) / 20)
    torch.testing.assert_close(global_mean_pool(x), nn.AdaptiveAvgPool2d(1)(x)[..., 0, 0])
    torch.testing.assert_close(global_max_pool(x), nn.AdaptiveMaxPool2d(1)(x)[..., 0, 0])


# --- batch normalisation --------------------------------------------------------------------------


def test_batch_norm_equals_torch_in_training_and_inference() -> None:
    layer: Any = nn.BatchNorm2d(3).double()
    nn.init.normal_(layer.weight, 1.0)
    nn.init.normal_(layer.bias)
    running = RunningStatistics(layer.running_mean.clone(), layer.running_var.clone())
    for _ in range(3):
        x = 3 * random(4, 3, 2, 5) + 1
        y, running = normalise_channels(x, layer.weight, layer.bias, running, training=True)
        torch.testing.assert_close(y, layer(x))
        torch.testing.assert_close(running.mean, layer.running_mean)
        torch.testing.assert_close(running.variance, layer.running_var)
    layer.eval()
    y, after = normalise_channels(x, layer.weight, layer.bias, running, training=False)
    torch.testing.assert_close(y, layer(x))
    assert after is running


def test_batch_norm_by_loops_and_gradcheck() -> None:
    x, gain, bias = (t.requires_grad_() for t in (random(2, 2, 2, 2), random(2), random(2)))
    running = RunningStatistics(random(2), random(2).abs())

    def normalise(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        return normalise_channels(x, gain, bias, running, training=True)[0]

    y = normalise(x, gain, bias)
    for c in range(2):
        values = x[:, c].flatten().tolist()
        mean = sum(values) / 8
        variance = sum((value - mean) ** 2 for value in values) / 8
        expected = [
            gain[c].item() * (value - mean) / (variance + 1e-5) ** 0.5 + bias[c].item()
            for value in values
        ]
        assert y[:, c].flatten().tolist() == pytest.approx(expected)
    assert torch.autograd.gradcheck(normalise, (x, gain, bias))
