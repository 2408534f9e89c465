"""Winograd's 3 × 3 convolution against its formula and torch's kernel."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.nn import convolution
from saccade.nn.convolution import Conv2d
from saccade.nn.kernels import winograd
from saccade.nn.kernels.winograd import (
    is_winograd_faster,
    winograd_convolution,
    winograd_reference,
)


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator)


def test_formula_is_the_convolution() -> None:
    x, kernel = random(2, 3, 8, 12), random(5, 3, 3, 3)
    torch.testing.assert_close(winograd_reference(x, kernel), F.conv2d(x, kernel, padding=1))


@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 11), st.integers(1, 9)
)
def test_values_and_gradients_are_those_of_torch(
    count: int, channels: int, outputs: int, height: int, width: int
) -> None:
    x = random(count, channels, height, width).requires_grad_()
    kernel = random(outputs, channels, 3, 3).requires_grad_()
    expected = F.conv2d(x, kernel, padding=1)
    gradient = random(*expected.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "CHUNK_TILES", 4)
        found = winograd_convolution(x, kernel)
        gradients = torch.autograd.grad(found, [x, kernel], gradient)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, [x, kernel], gradient))
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_only_the_gradients_that_are_needed() -> None:
    x, kernel = random(2, 3, 4, 4), random(5, 3, 3, 3)
    for inputs in ([x], [kernel]):
        for tensor in (x, kernel):
            tensor.requires_grad_(any(tensor is one for one in inputs))
        found = torch.autograd.grad(winograd_convolution(x, kernel).sum(), inputs)
        expected = torch.autograd.grad(F.conv2d(x, kernel, padding=1).sum(), inputs)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("is_inference", [False, True])
def test_threads_compute_the_same_again(is_inference: bool) -> None:
    x, kernel = random(9, 5, 8, 8).requires_grad_(), random(6, 5, 3, 3).requires_grad_()
    gradient = random(9, 6, 8, 8)
    found = []
    try:
        for threads in (1, 3, 3):
            torch.set_num_threads(threads)
            with torch.inference_mode(is_inference):
                y = winograd_convolution(x, kernel)
            assert y.is_inference() == is_inference
            gradients = () if is_inference else torch.autograd.grad(y, [x, kernel], gradient)
            found.append((y, *gradients))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(1)
    for one, other, again in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
        assert torch.equal(other, again)


def assert_rounded(found: Tensor, exact: Tensor) -> None:
    """Fail if values in float32 differ by more than 32 roundings, in the root mean square.

    A value is a sum of 36 products with numbers of Aᵀ and Bᵀ up to 3, of either sign.
    """
    found, exact = found.detach(), exact.detach()
    error = (found - exact).square().mean().sqrt()
    assert error < 32 * torch.finfo(torch.float32).eps * exact.square().mean().sqrt()


def test_rounding_is_that_of_float32() -> None:
    x, kernel = random(2, 128, 16, 16).relu(), random(128, 128, 3, 3)
    found = winograd_convolution(x.float(), kernel.float())
    assert_rounded(found, F.conv2d(x, kernel, padding=1))


# --- layer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_layer_equals_that_of_torch(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def count(x: Tensor, kernel: Tensor) -> Tensor:
        calls.append(x.shape)
        return winograd_convolution(x, kernel)

    monkeypatch.setattr(winograd, "has_short_vectors", lambda: True)
    monkeypatch.setattr(convolution, "winograd_convolution", count)
    layer = Conv2d(64, 80, 3, padding=1, bias=bias)
    plain = nn.Conv2d(64, 80, 3, padding=1, bias=bias)
    plain.load_state_dict(layer.state_dict())
    x = random(16, 64, 16, 16, dtype=torch.float32)
    found, expected = layer(x), plain(x)
    assert len(calls) == 1
    assert_rounded(found, expected)
    assert torch.equal(layer(x), found)
    gradient = random(*found.shape, dtype=torch.float32)
    gradients = torch.autograd.grad(found, layer.parameters(), gradient)
    others = torch.autograd.grad(expected, plain.parameters(), gradient)
    for one, other in zip(gradients, others, strict=True):
        assert_rounded(one, other)
        assert one.stride() == other.stride()


GEOMETRIES = [
    {"kernel_size": 1},
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 3, "padding": 1, "stride": 2},
    {"kernel_size": 3, "padding": 2, "dilation": 2},
    {"kernel_size": 3, "padding": 1, "groups": 2},
    {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
    {"kernel_size": (3, 1), "padding": (1, 0)},
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_layers_of_other_geometries_are_torch_layers(
    geometry: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd, "has_short_vectors", lambda: True)
    layer = Conv2d(64, 64, **geometry)  # type: ignore[arg-type]
    plain = nn.Conv2d(64, 64, **geometry)  # type: ignore[arg-type]
    plain.load_state_dict(layer.state_dict())
    x = random(16, 64, 16, 16, dtype=torch.float32)
    assert torch.equal(layer(x), plain(x))


def test_one_image_without_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "has_short_vectors", lambda: True)
    layer, x = Conv2d(64, 64, 3, padding=1), random(64, 64, 64, dtype=torch.float32)
    torch.testing.assert_close(layer(x), layer(x[None])[0], rtol=0, atol=1e-4)


def images(*shape: int) -> Tensor:
    return torch.empty(shape, device="cpu")


@pytest.mark.parametrize(
    "x, outputs, expected",
    [
        (images(16, 64, 16, 16), 64, True),
        (images(128, 512, 4, 4), 512, True),
        (images(8, 128, 28, 28), 128, True),
        (images(16, 64, 16, 16).double(), 64, False),
        (images(16, 64, 16, 16).to("meta"), 64, False),
        (images(16, 64, 16, 16), 32, False),  # few channels
        (images(16, 64, 8, 8), 64, False),  # few rows
        (images(1, 64, 16, 16), 64, False),  # few tiles
        (images(16, 512, 5, 5), 512, False),  # three of four tiles extend beyond the image
        (images(1, 64, 128, 128), 64, False),  # too many tiles for the cache
    ],
    ids=lambda value: str(tuple(value.shape)) if isinstance(value, Tensor) else str(value),
)
def test_it_is_used_where_it_is_faster(
    x: Tensor, outputs: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = torch.empty(outputs, x.shape[1], 3, 3, dtype=x.dtype, device=x.device)
    monkeypatch.setattr(winograd, "has_short_vectors", lambda: False)
    assert not is_winograd_faster(x, kernel)
    monkeypatch.setattr(winograd, "has_short_vectors", lambda: True)
    assert is_winograd_faster(x, kernel) is expected
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_winograd_faster(x, kernel)
