"""Attributions as values: completeness, order, rejected fields."""

from dataclasses import replace

import numpy as np
import pytest

from saccade.inspection.attribution import ATTRIBUTION_METHODS, Attribution, check_attribution

WORDS = Attribution(
    ["not", "bad"],
    np.array([0.5, -2.0]),
    "good",
    "contributions",
    value=-1.25,
    base=0.25,
    text="not bad",
    spans=[(0, 3), (4, 7)],
)


def test_complete_attribution_has_no_residual() -> None:
    assert WORDS.is_complete and WORDS.residual == 0
    assert not replace(WORDS, method="occlusion").is_complete
    assert replace(WORDS, value=0.0).residual == pytest.approx(1.25)


def test_strongest_parts_come_first() -> None:
    assert WORDS.strongest().tolist() == [1, 0]
    assert WORDS.strongest(1).tolist() == [1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": np.zeros(3)}, r"got scores of shape \(3,\) for 2 parts"),
        ({"parts": [], "scores": np.zeros(0)}, "for 0 parts"),
        ({"spans": [(0, 3)]}, "got 1 spans for 2 parts; expected 2, or none"),
        ({"cells": ["1", "2", "3"]}, "got 3 cells for 2 parts"),
        ({"scores": np.array([0.0, np.nan])}, "not finite"),
        ({"method": "guess"}, "expected one of contributions, occlusion"),
    ],
)
def test_inconsistent_attribution_is_refused(changes: dict[str, object], message: str) -> None:
    assert check_attribution(WORDS) is WORDS
    with pytest.raises(ValueError, match=message):
        check_attribution(replace(WORDS, **changes))  # type: ignore[arg-type]


def test_every_method_is_described() -> None:
    assert all(ATTRIBUTION_METHODS.values())
