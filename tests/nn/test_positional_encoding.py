import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.nn import POSITIONS, LearnedPositions, SinusoidalPositions


@pytest.fixture(scope="module", autouse=True)
def in_float64() -> Iterator[None]:
    """Use float64 as the default dtype, in which the rates are computed."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@given(st.integers(0, 5000), st.integers(1, 6), st.integers(1, 8).map(lambda half: 2 * half))
def test_sinusoidal_positions_match_equation(start: int, steps: int, width: int) -> None:
    expected = torch.zeros(steps, width)
    for t in range(steps):
        for i in range(width // 2):
            angle = (start + t) / 10000 ** (2 * i / width)
            expected[t, 2 * i], expected[t, 2 * i + 1] = math.sin(angle), math.cos(angle)
    torch.testing.assert_close(
        SinusoidalPositions(width)(start, steps), expected, rtol=0, atol=1e-10
    )


def test_sinusoidal_positions_float32_accuracy() -> None:
    torch.set_default_dtype(torch.float32)
    try:
        rough = SinusoidalPositions(64)(0, 1000)
    finally:
        torch.set_default_dtype(torch.float64)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough.double(), SinusoidalPositions(64)(0, 1000), rtol=0, atol=2e-4)


@given(st.integers(0, 300), st.integers(1, 8).map(lambda half: 2 * half))
def test_sinusoidal_positions_offset_is_a_rotation(offset: int, width: int) -> None:
    codes = SinusoidalPositions(width)
    turn = torch.zeros(width, width)
    for i in range(width // 2):
        angle = offset / 10000 ** (2 * i / width)
        sine, cosine = math.sin(angle), math.cos(angle)
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[cosine, sine], [-sine, cosine]])
    torch.testing.assert_close(turn @ turn.T, torch.eye(width))
    torch.testing.assert_close(codes(offset, 9), codes(0, 9) @ turn.T, rtol=0, atol=1e-10)


def test_sinusoidal_positions_product_depends_on_distance() -> None:
    codes = SinusoidalPositions(16)(0, 12)
    products = codes @ codes.T
    for distance in range(12):
        assert products.diagonal(distance).std(correction=0) < 1e-9


@pytest.mark.parametrize("codes", [SinusoidalPositions(6), LearnedPositions(6, 20)])
@given(start=st.integers(0, 10), first=st.integers(1, 5), second=st.integers(1, 5))
def test_positions_do_not_depend_on_cache(
    codes: SinusoidalPositions | LearnedPositions, start: int, first: int, second: int
) -> None:
    whole = codes(start, first + second)
    parts = torch.cat([codes(start, first), codes(start + first, second)])
    assert torch.equal(whole, parts)


def test_positions_state_dict_has_learned_ones_only() -> None:
    learned = LearnedPositions(4, 6)
    learned(2, 3).sum().backward()
    assert learned.table.grad is not None
    assert learned.table.grad[:, 0].tolist() == [0, 0, 1, 1, 1, 0]
    assert not list(SinusoidalPositions(4).parameters()) and not SinusoidalPositions(4).state_dict()


def test_positions_error_messages() -> None:
    LearnedPositions(4, 6)(1, 5)
    with pytest.raises(
        ValueError,
        match="got 7 positions; expected at most 6, .* try sinusoidal positions",
    ):
        LearnedPositions(4, 6)(2, 5)
    with pytest.raises(ValueError, match="got width 7; expected an even width"):
        SinusoidalPositions(7)
    assert POSITIONS == ("sinusoidal", "learned", "rotary", "relative", "none")
