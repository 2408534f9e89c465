import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.nn import Dropout

shares = st.floats(0.01, 0.99)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.25, 0.5, 0.9, 0.999])
def test_dropout_rate_is_p(p: float) -> None:
    size = 400_000
    gone = int((Dropout(p)(torch.ones(size)) == 0).sum())
    assert abs(gone - size * p) < 5 * math.sqrt(size * p * (1 - p)) + size / 131072


@given(shares)
def test_dropout_scale_is_that_of_rounded_p(p: float) -> None:
    kept = Dropout(p)(torch.ones(1000, dtype=torch.float64)).unique().tolist()
    scale = 1 / (1 - round(p * 65536) / 65536)
    assert [value for value in kept if value] in ([], [pytest.approx(scale, rel=1e-15)])


def test_dropout_keeps_mean() -> None:
    x = torch.full((1_000_000,), 3.0, dtype=torch.float64)
    assert Dropout(0.3)(x).mean() == pytest.approx(3, abs=5 * 3 * math.sqrt(0.3 / 0.7 / 1e6))


def test_dropout_elements_of_one_draw_are_independent() -> None:
    gone = (Dropout(0.5)(torch.ones(400_000)) == 0).double().view(-1, 4)
    assert gone.mean(0).sub(0.5).abs().max() < 0.01
    together = torch.corrcoef(gone.T) - torch.eye(4)
    assert together.abs().max() < 0.02
    # nor are consecutive draws dependent
    assert torch.corrcoef(torch.stack([gone[:-1, 3], gone[1:, 0]]))[0, 1].abs() < 0.02


@given(st.lists(st.integers(0, 7), min_size=1, max_size=4), shares, st.integers(0, 2**31))
def test_dropout_mask_depends_on_seed_only(shape: list[int], p: float, seed: int) -> None:
    dropout = Dropout(p)
    x = torch.randn(shape, dtype=torch.float64)
    torch.manual_seed(seed)
    first = dropout(x)
    torch.manual_seed(seed)
    assert torch.equal(first, dropout(x))
    torch.manual_seed(seed)
    flat = dropout(x.flatten())
    assert torch.equal(first.flatten(), flat)
    torch.manual_seed(seed)
    turned = x.transpose(0, -1).contiguous().transpose(0, -1)  # the same values, other strides
    assert torch.equal(first, dropout(turned))


def test_dropout_mask_differs_between_calls() -> None:
    dropout, x = Dropout(0.5), torch.ones(200)
    assert not torch.equal(dropout(x), dropout(x))


def test_dropout_is_identity_in_evaluation_or_for_p_zero() -> None:
    x = torch.randn(5)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout()(x) is x


def test_dropout_gradient_is_scaled_mask() -> None:
    x = torch.randn(50, dtype=torch.float64, requires_grad=True)
    slope = torch.randn(50, dtype=torch.float64)
    torch.manual_seed(3)
    out = Dropout(0.25)(x)
    (grad,) = torch.autograd.grad(out, x, slope)
    torch.manual_seed(3)
    mask = Dropout(0.25)(torch.ones(50, dtype=torch.float64))
    assert 0 < int((mask == 0).sum()) < 50
    assert torch.equal(grad, slope * mask)

    def seeded(y: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return Dropout(0.25)(y)

    assert torch.autograd.gradcheck(seeded, (x,))


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, math.nan])
def test_dropout_refuses_invalid_p(p: float) -> None:
    with pytest.raises(ValueError, match=rf"got dropout {p}; expected a number in \[0, 1\)"):
        Dropout(p)


@pytest.mark.parametrize("p", [1 - 2**-18, math.nextafter(1, 0)])
def test_dropout_with_p_near_one_keeps_some_elements(p: float) -> None:
    torch.manual_seed(0)
    out = Dropout(p)(torch.ones(1_000_000))
    assert out.unique().tolist() == [0, 65536]


def test_dropout_keeps_dtype_and_prints_p() -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert Dropout(0.5)(torch.ones(9, dtype=dtype)).dtype == dtype
    assert repr(Dropout(0.5)) == "Dropout(p=0.5)"
