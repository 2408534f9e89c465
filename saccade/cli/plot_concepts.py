"""Plots of `saccade plot`: activation functions, signal propagation, word frequencies."""

import math
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.errors import ConfigError
from saccade.types.limits import MAX_VALUE
from saccade.types.names import ACTIVATIONS_WITH_ALPHA

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from saccade.inspection.figures import ActivationCurve, GELUApproximation, SignalPropagation
    from saccade.inspection.zipf import ZipfFit

ACTIVATION_RANGE = 4.0  # activations are plotted from minus this to this
ACTIVATION_POINTS = 161
MAX_ALPHAS = 6  # panels of one activation
MAX_FLOAT_EXPONENT = 300  # powers of ten beyond it are formatted by hand
SCRIPT_SAMPLE_LINES = 200  # lines from which the script of a text is inferred
GELU_FORMULAS = {"gelu": "tanh (gelu)", "gelu_sigmoid": "σ(1.702 x) (gelu_sigmoid)"}


def plot_activations(alphas: str | None, save: Path | None, json: bool) -> None:
    """Print and plot activation functions, their derivatives and the errors of GELU's forms.

    With `alphas`, only the activations that have an α, each with each of these.
    """
    import numpy as np

    from saccade.inspection.activations import (
        ACTIVATION_EQUATIONS,
        activation_curve,
        gelu_approximations,
    )
    from saccade.plots.activations import save_activations

    x = np.linspace(-ACTIVATION_RANGE, ACTIVATION_RANGE, ACTIVATION_POINTS)
    if alphas is None:
        curves = [activation_curve(name, x) for name in ACTIVATION_EQUATIONS]
        approximations = gelu_approximations()
    else:
        given = parse_alphas(alphas)
        names = ACTIVATIONS_WITH_ALPHA
        curves = [activation_curve(name, x, alpha) for name in names for alpha in given]
        approximations = []
    if save is not None:
        try:
            save_activations(curves, approximations, save)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        stderr_console().print(f"Wrote {len(curves)} activation functions to {save}.")
    if json:
        print_json(
            {
                "activations": [
                    {
                        "name": curve.name,
                        **({} if curve.alpha is None else {"alpha": curve.alpha}),
                        "equation": curve.equation,
                        "x": x.tolist(),
                        "y": curve.y.tolist(),
                        "slope": curve.derivative.tolist(),
                        "slope_at_0": curve.derivative_at_zero,
                    }
                    for curve in curves
                ],
                "gelu": {
                    found.name: {"largest_error": found.max_error, "at": found.max_error_x}
                    for found in approximations
                },
            }
        )
        return
    _print_activations(curves, approximations)


def parse_alphas(text: str) -> list[float]:
    """Return the numbers of a list such as 0.01,0.3,1."""
    try:
        alphas = [float(part) for part in text.split(",")]
    except ValueError:
        alphas = []
    if not 1 <= len(alphas) <= MAX_ALPHAS or not all(0 <= a <= MAX_VALUE for a in alphas):
        raise ConfigError(
            f"got --alpha {text[:40]!r}; expected 1 to {MAX_ALPHAS} numbers of 0 or more, with "
            "commas between them; try --alpha 0.01,0.3,1."
        )
    return alphas


def _print_activations(
    curves: "list[ActivationCurve]", approximations: "list[GELUApproximation]"
) -> None:
    from rich.console import Console

    table = make_table("activation", "f(x)", "min f'(x)", "max f'(x)", "f'(0)")
    for curve in curves:
        slopes = (curve.derivative.min(), curve.derivative.max(), curve.derivative_at_zero)
        table.add_row(curve.label, curve.equation, *(f"{slope:.3g}" for slope in slopes))
    console = Console(highlight=False, markup=False)
    console.print(table)
    console.print()
    console.print(f"Derivatives for x from {-ACTIVATION_RANGE:g} to {ACTIVATION_RANGE:g}.")
    if kinked := [curve.label for curve in curves if curve.is_kinked]:
        console.print(
            f"Not differentiable at 0: {'; '.join(kinked)}. The value given there is the "
            "subgradient used for training (for relu any number from 0 to 1 is one)."
        )
    errors = [
        f"{GELU_FORMULAS[found.name]} {found.max_error:.2e}, at x = {found.max_error_x:.2f}"
        for found in approximations
    ]
    if errors:
        console.print(f"Largest error of the approximations of gelu_exact: {'; '.join(errors)}.")
        console.print("softmax is a function of a whole vector and is not plotted.")


def plot_signal(stack_options: dict[str, Any], save: Path | None, json: bool) -> None:
    """Print and plot the variance of signals and gradients through a deep network."""
    from saccade.inspection.figures import StackConfig
    from saccade.inspection.signal_propagation import propagate
    from saccade.plots.signal_propagation import save_signal_propagation
    from saccade.plots.style import image_format

    try:
        if save is not None:
            image_format(save)  # before the computation
        found = propagate(StackConfig(**stack_options))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if save is not None:
        save_signal_propagation(found, save)
        stderr_console().print(f"Wrote signals and gradients to {save}.")
    if json:
        print_json(_signal_json(found))
    else:
        _print_signal(found)


def _print_signal(found: "SignalPropagation") -> None:
    from rich.console import Console

    from saccade.inspection.signal_propagation import describe_propagation, log_spaced_layers
    from saccade.plots.signal_propagation import stack_title

    spectra = {spectrum.depth: spectrum for spectrum in found.spectra}
    table = make_table("layer", "signals", "over inputs", "gradients", "|λ|", "σ")
    for layer in (0, *log_spaced_layers(found.stack.layers)):
        sizes = (found.signals[layer], found.differences[layer], found.gradients[layer])
        cells = [f"{size:.3g}" for size in sizes]
        if spectrum := spectra.get(layer):
            cells += [_largest(spectrum.moduli), _largest(spectrum.singular)]
        table.add_row(str(layer), *cells)
    console = Console(highlight=False, markup=False)
    for part in (stack_title(found.stack), "", table, "", *describe_propagation(found)):
        console.print(part)
    console.print(
        "signals: mean of h² after each layer; over inputs: variance of h over the inputs; "
        "gradients: mean of (∂L/∂h)²; |λ| and σ: largest eigenvalue modulus and singular value of "
        "W_l … W_1. A norm is the square root of such a mean."
    )


def _largest(logs: "NDArray[np.float64]") -> str:
    """Format 10 ** logs[0], which may exceed the range of floats."""
    if not len(logs):
        return "0"
    if abs(logs[0]) < MAX_FLOAT_EXPONENT:
        return f"{10 ** logs[0]:.3g}"
    exponent = int(logs[0] // 1)
    return f"{10 ** (logs[0] - exponent):.3g}e{exponent:+d}"


def _signal_json(found: "SignalPropagation") -> dict[str, Any]:
    from saccade.inspection.signal_propagation import describe_propagation, norm_growths

    def numbers(values: "NDArray[np.float64]") -> list[float | None]:  # JSON has no infinity
        return [value if math.isfinite(value) else None for value in values.tolist()]

    return {
        **found.stack._asdict(),
        "signals": numbers(found.signals),
        "differences": numbers(found.differences),
        "gradients": numbers(found.gradients),
        "products": [
            {
                "depth": spectrum.depth,
                "log10_moduli": spectrum.moduli.tolist(),
                "log10_singular": spectrum.singular.tolist(),
            }
            for spectrum in found.spectra
        ],
        "norm_growths": {name: growth._asdict() for name, growth in norm_growths(found).items()},
        "description": describe_propagation(found),
    }


def _zipf_exponent(fit: "ZipfFit | None") -> str:
    if fit is None:
        return "too few"
    return f"{fit.exponent:.3f}" + ("" if fit.follows_line else " (no power law)")


def plot_zipf(path: Path, save: Path | None, json: bool) -> None:
    """Print and plot the rank-frequency curves of a text and their Zipf exponents."""
    from rich.console import Console

    from saccade.data.text.corpus import read_text_corpus
    from saccade.data.word_splitting import is_unspaced
    from saccade.inspection.zipf import fit_zipf_by_order, rank_frequencies, word_ids
    from saccade.plots.zipf import ngram_name, save_zipf

    lines = iter(read_text_corpus(path))
    sample = list(islice(lines, SCRIPT_SAMPLE_LINES))
    unit = "character" if is_unspaced("".join(sample)) else "word"
    if unit == "character":
        stderr_console().print(f"{path}: no spaces between words, so characters are counted.")
    counts = rank_frequencies(word_ids(chain(sample, lines)))
    fits = fit_zipf_by_order(counts)
    if save is not None:
        try:
            save_zipf(counts, save, unit)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        stderr_console().print(f"Wrote rank against frequency to {save}.")
    if json:
        print_json(
            {
                ngram_name(order, unit): {
                    "different": len(frequencies),
                    "total": int(frequencies.sum()),
                    **(fits[order]._asdict() if order in fits else {}),
                }
                for order, frequencies in counts.items()
            }
        )
        return
    table = make_table("n-grams", "distinct", "total", "once", "Zipf exponent", "fitted ranks")
    for order, frequencies in counts.items():
        fit = fits.get(order)
        table.add_row(
            ngram_name(order, unit),
            f"{len(frequencies):,}",
            f"{int(frequencies.sum()):,}",
            f"{int((frequencies == 1).sum()):,}",
            _zipf_exponent(fit),
            f"{fit.first:,} to {fit.last:,}" if fit else "",
        )
    Console(highlight=False).print(table)
