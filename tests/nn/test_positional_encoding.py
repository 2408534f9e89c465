import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.nn import POSITIONS, LearnedPositions, SinusoidalPositions


@pytest.fixture(scope="module", autouse=True)
def in_float64() -> Iterator[None]:
    """The rates are made in the default format; the laws are held to float64's."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@given(st.integers(0, 5000), st.integers(1, 6), st.integers(1, 8).map(lambda half: 2 * half))
def test_sinusoidal_is_its_equation(start: int, steps: int, width: int) -> None:
    wanted = torch.zeros(steps, width)
    for t in range(steps):
        for i in range(width // 2):
            angle = (start + t) / 10000 ** (2 * i / width)
            wanted[t, 2 * i], wanted[t, 2 * i + 1] = math.sin(angle), math.cos(angle)
    torch.testing.assert_close(SinusoidalPositions(width)(start, steps), wanted, rtol=0, atol=1e-10)


def test_in_float32_a_thousand_places_are_right_to_four_digits() -> None:
    torch.set_default_dtype(torch.float32)
    try:
        rough = SinusoidalPositions(64)(0, 1000)
    finally:
        torch.set_default_dtype(torch.float64)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough.double(), SinusoidalPositions(64)(0, 1000), rtol=0, atol=2e-4)


@given(st.integers(0, 300), st.integers(1, 8).map(lambda half: 2 * half))
def test_an_offset_is_one_rotation_wherever_it_starts(offset: int, width: int) -> None:
    codes = SinusoidalPositions(width)
    turn = torch.zeros(width, width)
    for i in range(width // 2):
        angle = offset / 10000 ** (2 * i / width)
        sine, cosine = math.sin(angle), math.cos(angle)
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[cosine, sine], [-sine, cosine]])
    torch.testing.assert_close(turn @ turn.T, torch.eye(width))
    torch.testing.assert_close(codes(offset, 9), codes(0, 9) @ turn.T, rtol=0, atol=1e-10)


def test_the_closeness_of_two_places_depends_on_their_distance_only() -> None:
    codes = SinusoidalPositions(16)(0, 12)
    products = codes @ codes.T
    for distance in range(12):
        assert products.diagonal(distance).std(correction=0) < 1e-9


@pytest.mark.parametrize("codes", [SinusoidalPositions(6), LearnedPositions(6, 20)])
@given(start=st.integers(0, 10), first=st.integers(1, 5), second=st.integers(1, 5))
def test_a_remembered_past_changes_no_code(
    codes: SinusoidalPositions | LearnedPositions, start: int, first: int, second: int
) -> None:
    whole = codes(start, first + second)
    parts = torch.cat([codes(start, first), codes(start + first, second)])
    assert torch.equal(whole, parts)


def test_learned_codes_are_learned_and_sinusoidal_ones_leave_nothing_in_a_file() -> None:
    learned = LearnedPositions(4, 6)
    learned(2, 3).sum().backward()
    assert learned.table.grad is not None
    assert learned.table.grad[:, 0].tolist() == [0, 0, 1, 1, 1, 0]
    assert not list(SinusoidalPositions(4).parameters()) and not SinusoidalPositions(4).state_dict()


def test_messages() -> None:
    LearnedPositions(4, 6)(1, 5)
    with pytest.raises(
        ValueError,
        match="place 7 was asked for and the learned positions end at 6; use sinusoidal positions",
    ):
        LearnedPositions(4, 6)(2, 5)
    with pytest.raises(ValueError, match="need an even width, not 7"):
        SinusoidalPositions(7)
    assert POSITIONS == ("sinusoidal", "learned", "rotary", "relative", "none")
