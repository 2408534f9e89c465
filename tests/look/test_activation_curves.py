"""The curves and slopes that are drawn, against differences; the picture itself."""

import xml.etree.ElementTree as xml
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from scipy.special import erf

from saccade.look.activations import APPROXIMATIONS, CORNERS, EQUATIONS, approximations, curve
from saccade.look.draw_activations import activations_figure, save_activations
from saccade.nn.activations import ACTIVATIONS

X = np.linspace(-4, 4, 161)


def test_every_activation_of_one_number_is_shown() -> None:
    assert {*EQUATIONS, *APPROXIMATIONS, "softmax", "linear"} == set(ACTIVATIONS)


@pytest.mark.parametrize("name", [*EQUATIONS, *APPROXIMATIONS])
def test_slopes_are_differences(name: str) -> None:
    step = 1e-6
    off_zero = X[np.abs(X) > 0.01]
    one = curve(name, off_zero)
    ahead, behind = curve(name, off_zero + step).y, curve(name, off_zero - step).y
    np.testing.assert_allclose(one.slope, (ahead - behind) / (2 * step), atol=1e-8)


def test_the_slope_at_a_corner_is_between_those_beside_it() -> None:
    for name in EQUATIONS:
        one = curve(name, np.array([-1e-9, 1e-9]))
        low, high = sorted(one.slope)
        assert (high - low > 0.1) == (name in CORNERS), name
        assert low - 1e-6 <= one.at_zero <= high + 1e-6
    assert curve("relu", X).at_zero == 0


def test_the_errors_are_those_of_scipys_gelu() -> None:
    for one in approximations():
        x = one.x[::40]
        f = {
            "gelu": x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
            "gelu_sigmoid": x / (1 + np.exp(-1.702 * x)),
        }[one.name]
        error = np.abs(f - x / 2 * (1 + erf(x / np.sqrt(2))))
        np.testing.assert_allclose(np.abs(one.error[::40]), error, atol=1e-12)
        assert error.max() <= one.largest == pytest.approx(error.max(), rel=1e-3)
        assert abs(one.place) == pytest.approx(abs(x[error.argmax()]), abs=0.01)


def test_the_picture_is_written_and_nothing_global_is_touched(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    path = tmp_path / "new" / "activations.svg"
    save_activations([curve(name, X) for name in EQUATIONS], approximations(), path)
    assert dict(matplotlib.rcParams) == before
    xml.parse(path)


def test_the_picture_has_a_panel_each_and_says_what_is_taken_at_0() -> None:
    curves, errors = [curve(name, X) for name in EQUATIONS], approximations()
    *panels, last = activations_figure(curves, errors).axes
    assert [panel.get_title(loc="left") for panel in panels] == list(EQUATIONS)
    for panel, one in zip(panels, curves, strict=True):
        np.testing.assert_array_equal(panel.lines[2].get_ydata(), one.y)
        said = [text.get_text() for text in panel.get_legend().get_texts()]
        assert (f"f'(0) := {one.at_zero:.3g}" in said) == (one.name in CORNERS)
    said = [text.get_text() for text in last.get_legend().get_texts()]
    assert all(f"{e.largest:.2g} at most" in text for e, text in zip(errors, said, strict=True))


def test_messages(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="softmax is a function of many numbers"):
        curve("softmax", X)
    with pytest.raises(ValueError, match="a picture can be .png, .svg, .pdf"):
        save_activations([curve("relu", X)], approximations(), tmp_path / "a.gif")
