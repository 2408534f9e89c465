"""Signal propagation against explicit NumPy loops and against theory."""

import math
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import ConfigError
from saccade.inspection.figures import FloatArray, StackConfig
from saccade.inspection.signal_propagation import (
    describe_propagation,
    log_spaced_layers,
    norm_growth,
    norm_growths,
    product_spectra,
    propagate,
    random_stack,
)
from saccade.plots.signal_propagation import save_signal_propagation, signal_propagation_figure

# --- explicit loops -------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[Any, Any]] = {  # each with its slope
    "linear": (lambda z: z, np.ones_like),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float)),
    "sigmoid": (
        lambda z: 1 / (1 + np.exp(-z)),
        lambda z: np.exp(-z) / (1 + np.exp(-z)) ** 2,
    ),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
}


def normed(x: FloatArray, norm: str) -> tuple[FloatArray, Any]:
    """Return the normalised x and the function that maps its gradient back."""
    if norm == "none":
        return x, lambda g: g
    axis = 0 if norm == "batch" else 1
    mean = 0.0 if norm == "rms" else x.mean(axis=axis, keepdims=True)
    spread = np.sqrt(((x - mean) ** 2).mean(axis=axis, keepdims=True) + 1e-5)
    y = (x - mean) / spread

    def back(g: FloatArray) -> FloatArray:
        centre = 0.0 if norm == "rms" else g.mean(axis=axis, keepdims=True)
        return (g - centre - y * (g * y).mean(axis=axis, keepdims=True)) / spread

    return y, back


def by_hand(stack: StackConfig) -> dict[str, list[float]]:
    """Compute the forward and the backward pass layer by layer, by the chain rule."""
    f, slope = FUNCTIONS[stack.activation]
    weights, x, gradient = (
        [weight.numpy() for weight in part] if isinstance(part, list) else part.numpy()
        for part in random_stack(stack)
    )
    h, backs = [x], []
    for weight in weights:
        if stack.residual:
            y, through = normed(h[-1], stack.norm)
            h.append(h[-1] + f(y) @ weight.T)
            backs.append(lambda g, w=weight, y=y, through=through: g + through((g @ w) * slope(y)))
        else:
            y, through = normed(h[-1] @ weight.T, stack.norm)
            h.append(f(y))
            backs.append(lambda g, w=weight, y=y, through=through: through(g * slope(y)) @ w)
    gradients = [gradient]
    for back in reversed(backs):
        gradients.insert(0, back(gradients[0]))
    return {
        "signals": [float((one**2).mean()) for one in h],
        "differences": [float(one.var(axis=0).mean()) for one in h],
        "gradients": [float((one**2).mean()) for one in gradients],
    }


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from(["xavier", "kaiming", "lecun", "depth_scaled"]),
    st.integers(1, 5),
    st.integers(2, 9),
    st.sampled_from(["none", "batch", "layer", "rms"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_propagate_equals_the_chain_rule(
    activation: str, init: str, layers: int, width: int, norm: str, residual: bool, seed: int
) -> None:
    stack = StackConfig(activation, init, layers, width, norm, residual, seed)
    seen = propagate(stack)
    for what, expected in by_hand(stack).items():
        # a width of 2 and a norm leave values near 0, mostly rounding error
        np.testing.assert_allclose(getattr(seen, what), expected, rtol=1e-7, atol=1e-18)


def test_product_spectra_equal_direct_products() -> None:
    weights = [np.random.default_rng(n).normal(size=(6, 6)) for n in range(7)]
    product = np.eye(6)
    found = {one.depth: one for one in product_spectra(weights)}
    for depth, weight in enumerate(weights, 1):
        product = weight @ product
        if depth in found:
            moduli = np.sort(np.abs(np.linalg.eigvals(product)))[::-1]
            np.testing.assert_allclose(10 ** found[depth].moduli, moduli, rtol=1e-6)
            singular = np.linalg.svd(product, compute_uv=False)
            np.testing.assert_allclose(10 ** found[depth].singular, singular, rtol=1e-6)
    assert sorted(found) == [1, 2, 5, 7]


def test_product_spectra_do_not_overflow() -> None:
    weights = [1e60 * np.eye(3)] * 10
    assert product_spectra(weights)[-1].moduli == pytest.approx([600.0] * 3)
    assert all(
        len(one.moduli) == len(one.singular) == 0 for one in product_spectra([np.zeros((3, 3))] * 2)
    )


# --- theory ---------------------------------------------------------------------------------------


def means(stack: StackConfig, what: str, seeds: int) -> FloatArray:
    """Return the mean over seeds of a quantity at each layer."""
    samples = [getattr(propagate(stack._replace(seed=seed)), what) for seed in range(seeds)]
    return np.mean(samples, axis=0)


def test_propagate_kaiming_relu_preserves_mean_squares() -> None:
    # of one draw log E[h²] strays by about √(5 layers / width); the mean of 8 by a third of that
    stack = StackConfig("relu", "kaiming", layers=10, width=128)
    np.testing.assert_allclose(means(stack, "signals", 8), 1, atol=0.45)
    np.testing.assert_allclose(means(stack, "gradients", 8), 1, atol=0.45)
    half = StackConfig(
        "relu", "lecun", layers=10, width=128
    )  # without the 2 it is halved each time
    assert means(half, "signals", 4)[-1] == pytest.approx(2.0**-10, rel=0.5)


def test_propagate_xavier_tanh_follows_mean_field_theory() -> None:
    # q' = E[tanh(√q z)²], z ~ N(0, 1): what the variance becomes in a layer of infinite width
    z = np.linspace(-8, 8, 4001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    q, expected = 1.0, [1.0]
    for _ in range(12):
        q = float(np.trapezoid(np.tanh(math.sqrt(q) * z) ** 2 * density, z))
        expected.append(q)
    stack = StackConfig("tanh", "xavier", layers=12, width=128)
    np.testing.assert_allclose(means(stack, "signals", 4), expected, rtol=0.25)
    linear = StackConfig("linear", "xavier", layers=12, width=128)
    np.testing.assert_allclose(means(linear, "signals", 4), 1, rtol=0.25)


@pytest.mark.parametrize("width", [64, 144])
def test_propagate_normal_init_explodes_by_sqrt_width(width: int) -> None:
    seen = propagate(StackConfig("linear", "normal", layers=10, width=width))
    for what in ("signals", "gradients"):
        found = norm_growths(seen)[what]
        assert found.word == "explodes"
        assert found.factor == pytest.approx(math.sqrt(width), rel=0.08)
    # and so do the eigenvalues (circular law of random matrices)
    assert 10 ** seen.spectra[0].moduli[0] == pytest.approx(math.sqrt(width), rel=0.25)
    assert 10 ** (seen.spectra[-1].moduli[0] / 10) == pytest.approx(math.sqrt(width), rel=0.15)


def test_propagate_sigmoid_gradients_vanish() -> None:
    # σ' ≤ ¼; deep inside sums are z = ½ Σ w of variance ¼ (E[h²] ≈ ¼), so E[σ'(z)²] is just below
    seen = propagate(StackConfig("sigmoid", "xavier", layers=20, width=128))
    z = np.linspace(-8, 8, 4001) * 0.52
    density = np.exp(-((z / 0.52) ** 2) / 2) / math.sqrt(2 * math.pi) / 0.52
    slope = np.exp(-z) / (1 + np.exp(-z)) ** 2
    expected = math.sqrt(np.trapezoid(slope**2 * density, z))
    assert 0.23 < expected < 0.25
    assert norm_growths(seen)["gradients"].word == "vanishes"
    assert norm_growths(seen)["gradients"].factor == pytest.approx(expected, rel=0.05)
    assert norm_growths(seen)["signals"].word == "holds"  # but no longer depends on the input
    assert norm_growths(seen)["differences"].word == "vanishes"


def test_propagate_norm_makes_init_scale_irrelevant() -> None:
    for norm in ("batch", "layer", "rms"):
        seen = propagate(StackConfig("tanh", "normal", layers=20, width=64, norm=norm))
        plain = propagate(StackConfig("tanh", "xavier", layers=20, width=64, norm=norm))
        np.testing.assert_allclose(seen.signals[1:], plain.signals[1:], rtol=0.1)
    # the norm takes the size of the weights away, so that even numbers agree where they are scaled
    one = propagate(StackConfig("tanh", "lecun", layers=4, width=16, norm="layer", seed=3))
    other = propagate(StackConfig("tanh", "normal", layers=4, width=16, norm="layer", seed=3))
    np.testing.assert_allclose(one.signals, other.signals, rtol=1e-3)


def test_propagate_residual_doubles_unless_depth_scaled() -> None:
    plain = means(StackConfig("relu", "kaiming", 8, 128, residual=True), "signals", 4)
    np.testing.assert_allclose(plain[1:] / plain[:-1], 2, rtol=0.15)
    scaled = means(StackConfig("relu", "depth_scaled", 20, 128, residual=True), "signals", 4)
    assert scaled[-1] == pytest.approx((1 + 1 / 20) ** 20, rel=0.15)


def test_propagate_orthogonal_preserves_norms() -> None:
    seen = propagate(StackConfig("linear", "orthogonal", layers=30, width=32))
    np.testing.assert_allclose(seen.signals, seen.signals[0])
    np.testing.assert_allclose(seen.gradients, seen.gradients[-1])
    np.testing.assert_allclose(seen.spectra[-1].singular, 0, atol=1e-10)


# --- descriptions and figure ----------------------------------------------------------------------


def test_norm_growth_words() -> None:
    assert norm_growth(np.array([1.0, 4.0, 16.0, 64.0]))[:3] == ("grows", pytest.approx(2), 8.0)
    assert norm_growth(np.full(6, 0.3)) == ("holds", 1.0, 1.0, 5)
    assert norm_growth(10.0 ** -np.arange(9)).word == "vanishes"
    assert norm_growth(10.0 ** -np.arange(4)).word == "fades"
    assert norm_growth(10.0 ** np.arange(9)).word == "explodes"
    assert norm_growth(np.array([1.0, 1e200, np.inf, np.nan])) == ("explodes", 1e100, 1e100, 1)
    assert norm_growth(np.array([1.0, 0.0, 0.0])) == ("vanishes", 0.0, 1.0, 0)


def test_describe_propagation_sentences() -> None:
    signals, _, gradients = describe_propagation(propagate(StackConfig("linear", "normal", 8, 64)))
    assert signals.startswith("The norm of signals explodes: ×8")
    assert gradients.endswith("after 8 layers.") and "(backward) explodes" in gradients
    zero = describe_propagation(propagate(StackConfig("tanh", "zero", 4, 8)))
    assert all("0 after the first layer." in sentence for sentence in zero)
    beyond = describe_propagation(propagate(StackConfig("linear", "normal", 400, 8)))
    assert "overflows after" in beyond[0] and "of 400 layers." in beyond[0]


def test_log_spaced_layers_values() -> None:
    assert log_spaced_layers(1) == [1]
    assert log_spaced_layers(50) == [1, 2, 5, 10, 20, 50]
    assert log_spaced_layers(120) == [1, 2, 5, 10, 20, 50, 100, 120]


def test_propagate_is_deterministic_by_seed() -> None:
    one, again = (propagate(StackConfig(layers=3, width=8, seed=5)) for _ in range(2))
    assert one.signals.tolist() == again.signals.tolist()
    assert one.signals.tolist() != propagate(StackConfig(layers=3, width=8)).signals.tolist()


@pytest.mark.parametrize(
    "stack",
    [
        StackConfig("tanh", "zero", 3, 4),
        StackConfig("linear", "normal", 400, 4),
        StackConfig("sigmoid", "xavier", 1, 2, norm="batch", residual=True),
    ],
    ids=["zero", "beyond", "one layer"],
)
def test_signal_propagation_figure_draws_any_stack(stack: StackConfig, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    save_signal_propagation(propagate(stack), tmp_path / "new" / "depth.svg")
    assert dict(matplotlib.rcParams) == before
    xml.parse(tmp_path / "new" / "depth.svg")


def test_signal_propagation_figure_lines() -> None:
    seen = propagate(StackConfig("relu", "kaiming", 12, 16))
    there, back, matrices = signal_propagation_figure(seen).axes
    np.testing.assert_allclose(10 ** there.lines[0].get_ydata(), seen.signals)
    np.testing.assert_allclose(10 ** there.lines[1].get_ydata(), seen.differences)
    np.testing.assert_allclose(10 ** back.lines[0].get_ydata(), seen.gradients)
    legend = [text.get_text() for text in matrices.get_legend().get_texts()]
    assert legend == ["l = 1", "l = 2", "l = 5", "l = 10", "l = 12"]
    np.testing.assert_array_equal(matrices.lines[0].get_ydata(), seen.spectra[0].moduli)


def test_propagate_error_messages() -> None:
    with pytest.raises(ConfigError, match="no activation 'than'. Did you mean 'tanh'?"):
        propagate(StackConfig(activation="than", layers=2, width=2))
    with pytest.raises(ConfigError, match="There is no norm 'bach'. Did you mean 'batch'?"):
        propagate(StackConfig(norm="bach", layers=2, width=2))
    with pytest.raises(ValueError, match="0 layers of width 4; expected at least 1 layer"):
        propagate(StackConfig(layers=0, width=4))
    with pytest.raises(ValueError, match=r"would take 8.4 GB; .* at this width up to 128 layers"):
        propagate(StackConfig(layers=1000, width=1024))
