"""The conditions of Karush, Kuhn and Tucker: each violation is seen, and said in words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.types.kkt import KKT_DESCRIPTIONS, KKTResiduals, kkt_residuals

NUMBERS = st.floats(-10, 10)


@given(
    st.lists(NUMBERS, max_size=4),
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4),
    st.lists(NUMBERS, max_size=4),
)
def test_each_is_the_largest_violation(equal, inequalities, slope):
    at_most, pushes = [g for g, _ in inequalities], [m for _, m in inequalities]
    found = kkt_residuals(equal, at_most, pushes, slope)
    assert found.primal == max([0.0, *(abs(h) for h in equal), *at_most])
    assert found.dual == max([0.0, *(-m for m in pushes)])
    assert found.slackness == max([0.0, *(abs(g * m) for g, m in inequalities)])
    assert found.stationarity == max([0.0, *(abs(s) for s in slope)])


@pytest.mark.parametrize("which", range(4))
def test_one_violation_is_enough_and_is_named(which):
    values = [0.0] * 4
    values[which] = 0.5
    found = KKTResiduals(*values)
    assert not found.are_satisfied() and found.are_satisfied(0.5)
    lines = str(found).splitlines()
    assert [line.startswith(name) for line, name in zip(lines, KKT_DESCRIPTIONS, strict=True)] == [
        True
    ] * 4
    assert ["does not hold within 1e-06" in line for line in lines] == [
        number == which for number in range(4)
    ]
    assert "0.5" in lines[which]


def test_what_is_not_a_number_does_not_hold():
    assert not kkt_residuals([np.nan], [], [], []).are_satisfied(1e9)
    assert not kkt_residuals([], [], [], [1.0, np.nan]).are_satisfied(1e9)


def test_every_inequality_has_a_multiplier():
    with pytest.raises(ValueError, match="2 inequalities and 1 multipliers"):
        kkt_residuals([], [1, 2], [1], [])
