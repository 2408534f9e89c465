"""Karush–Kuhn–Tucker residuals and their table."""

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
def test_kkt_residuals_are_the_largest_violations(equal, inequalities, gradient):
    values, multipliers = [g for g, _ in inequalities], [m for _, m in inequalities]
    found = kkt_residuals(equal, values, multipliers, gradient)
    assert found.primal == max([0.0, *(abs(h) for h in equal), *values])
    assert found.dual == max([0.0, *(-m for m in multipliers)])
    assert found.slackness == max([0.0, *(abs(g * m) for g, m in inequalities)])
    assert found.stationarity == max([0.0, *(abs(s) for s in gradient)])


@pytest.mark.parametrize("which", range(4))
def test_kkt_table_names_the_violated_condition(which):
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


def test_kkt_residuals_of_nan_are_not_satisfied():
    assert not kkt_residuals([np.nan], [], [], []).are_satisfied(1e9)
    assert not kkt_residuals([], [], [], [1.0, np.nan]).are_satisfied(1e9)


def test_kkt_residuals_refuse_missing_multipliers():
    with pytest.raises(ValueError, match="2 inequalities and 1 multipliers"):
        kkt_residuals([], [1, 2], [1], [])
