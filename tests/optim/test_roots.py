"""Newton's method for roots, against numpy's roots of polynomials."""

import math

import numpy as np
import pytest

from saccade.optim.roots import newton_root


def test_newton_finds_roots_and_doubles_the_correct_digits() -> None:
    points = newton_root(lambda x: x**2 - 2, 1.0)
    assert points[-1] == pytest.approx(math.sqrt(2), abs=1e-15)
    errors = [abs(point - math.sqrt(2)) for point in points[1:4]]
    for before, after in zip(errors, errors[1:], strict=False):
        assert after == pytest.approx(before**2 / (2 * math.sqrt(2)), rel=0.2)
    cubic = newton_root(lambda x: x**3 - 2 * x - 5, 2.0)[-1]
    real = [root.real for root in np.roots([1, 0, -2, -5]) if abs(root.imag) < 1e-9]
    assert cubic == pytest.approx(real[0], abs=1e-12)
    first = newton_root(lambda x: x**2 - 2, 1.0)[1]
    assert first == 1.5  # 1 - (1 - 2) / 2


def test_newton_refuses_a_flat_start_and_no_root() -> None:
    with pytest.raises(ValueError, match="got a slope of 0.0 at x = 0"):
        newton_root(lambda x: x**2 - 2, 0.0)
    with pytest.raises(ValueError, match="got no root in 7 steps"):
        newton_root(lambda x: x**2 + 1, 0.3, max_steps=7)
