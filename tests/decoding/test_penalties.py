"""The length penalty, by hand."""

import pytest

from saccade.decoding import length_penalty


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [
        (1, 1.0, 1.0),  # 6/6
        (7, 1.0, 2.0),  # 12/6
        (7, 2.0, 4.0),
        (19, 0.5, 2.0),  # √(24/6)
        (100, 0.0, 1.0),
    ],
)
def test_length_penalty_equals_worked_example(length, alpha, expected):
    assert length_penalty(length, alpha) == pytest.approx(expected)
