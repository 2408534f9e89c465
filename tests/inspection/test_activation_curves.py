"""Activation curves against finite differences and SciPy, and their figure."""

import xml.etree.ElementTree as xml
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from scipy.special import erf

from saccade.inspection.activations import (
    ACTIVATION_EQUATIONS,
    GELU_APPROXIMATIONS,
    KINKED_ACTIVATIONS,
    activation_curve,
    gelu_approximations,
)
from saccade.nn.activations import ACTIVATIONS
from saccade.plots.activations import activations_figure, save_activations

X = np.linspace(-4, 4, 161)


def test_activation_equations_cover_the_registry() -> None:
    assert {*ACTIVATION_EQUATIONS, *GELU_APPROXIMATIONS, "softmax", "linear"} == set(ACTIVATIONS)


@pytest.mark.parametrize("name", [*ACTIVATION_EQUATIONS, *GELU_APPROXIMATIONS])
def test_activation_curve_derivative_equals_finite_differences(name: str) -> None:
    step = 1e-6
    off_zero = X[np.abs(X) > 0.01]
    one = activation_curve(name, off_zero)
    ahead, behind = (
        activation_curve(name, off_zero + step).y,
        activation_curve(name, off_zero - step).y,
    )
    np.testing.assert_allclose(one.derivative, (ahead - behind) / (2 * step), atol=1e-8)


def test_activation_curve_derivative_at_zero_is_a_subgradient() -> None:
    for name in ACTIVATION_EQUATIONS:
        one = activation_curve(name, np.array([-1e-9, 1e-9]))
        low, high = sorted(one.derivative)
        assert (high - low > 0.1) == (name in KINKED_ACTIVATIONS), name
        assert low - 1e-6 <= one.derivative_at_zero <= high + 1e-6
    assert activation_curve("relu", X).derivative_at_zero == 0


@pytest.mark.parametrize("name", ["elu", "leaky_relu"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.0])
def test_activation_curve_with_alpha(name: str, alpha: float) -> None:
    curve = activation_curve(name, X, alpha)
    left = X < 0
    expected = alpha * (np.expm1(X[left]) if name == "elu" else X[left])
    np.testing.assert_allclose(curve.y[left], expected, atol=1e-12)
    np.testing.assert_array_equal(curve.y[~left], X[~left])
    slope = alpha * (np.exp(X[left]) if name == "elu" else 1.0)
    np.testing.assert_allclose(curve.derivative[left], slope + 0 * X[left], atol=1e-12)
    assert curve.is_kinked == (alpha != 1)
    with pytest.raises(ValueError, match="got an α of 0.5 for relu"):
        activation_curve("relu", X, 0.5)


def test_activations_figure_has_a_row_for_each_activation_with_alpha() -> None:
    alphas = (0.01, 0.3, 1.0, 2.0)
    curves = [activation_curve(name, X, a) for name in ("elu", "leaky_relu") for a in alphas]
    panels = activations_figure(curves, []).axes
    titles = [panel.get_title(loc="left") for panel in panels]
    assert titles == [f"{name}, α = {a:g}" for name in ("elu", "leaky_relu") for a in alphas]
    rows = {panel.get_subplotspec().rowspan.start for panel in panels[:4]}
    assert rows == {0} and len({panel.get_ylim() for panel in panels[:4]}) == 1


def test_gelu_approximations_equal_scipy() -> None:
    for one in gelu_approximations():
        x = one.x[::40]
        f = {
            "gelu": x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
            "gelu_sigmoid": x / (1 + np.exp(-1.702 * x)),
        }[one.name]
        error = np.abs(f - x / 2 * (1 + erf(x / np.sqrt(2))))
        np.testing.assert_allclose(np.abs(one.error[::40]), error, atol=1e-12)
        assert error.max() <= one.max_error == pytest.approx(error.max(), rel=1e-3)
        assert abs(one.max_error_x) == pytest.approx(abs(x[error.argmax()]), abs=0.01)


def test_activations_figure_leaves_rcparams_unchanged(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    path = tmp_path / "new" / "activations.svg"
    save_activations(
        [activation_curve(name, X) for name in ACTIVATION_EQUATIONS], gelu_approximations(), path
    )
    assert dict(matplotlib.rcParams) == before
    xml.parse(path)


def test_activations_figure_has_a_panel_each_and_the_value_at_0() -> None:
    curves, errors = (
        [activation_curve(name, X) for name in ACTIVATION_EQUATIONS],
        gelu_approximations(),
    )
    *panels, last = activations_figure(curves, errors).axes
    assert [panel.get_title(loc="left") for panel in panels] == list(ACTIVATION_EQUATIONS)
    for panel, one in zip(panels, curves, strict=True):
        np.testing.assert_array_equal(panel.lines[2].get_ydata(), one.y)
        legend = [text.get_text() for text in panel.get_legend().get_texts()]
        assert (f"f'(0) := {one.derivative_at_zero:.3g}" in legend) == (
            one.name in KINKED_ACTIVATIONS
        )
    legend = [text.get_text() for text in last.get_legend().get_texts()]
    assert all(f"{e.max_error:.2g} at most" in text for e, text in zip(errors, legend, strict=True))


def test_activation_curve_error_messages(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got softmax, a function of a vector"):
        activation_curve("softmax", X)
    with pytest.raises(ValueError, match="a picture can be .png, .svg, .pdf"):
        save_activations([activation_curve("relu", X)], gelu_approximations(), tmp_path / "a.gif")
