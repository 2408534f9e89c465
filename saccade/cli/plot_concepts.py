"""look at what needs no run: activations, and what depth does to signals and gradients."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from saccade.inspection.signal_propagation import SignalPropagation

ACTIVATION_RANGE = 4.0  # activations are drawn from minus this to this
ACTIVATION_POINTS = 161


def look_at_concept(name: str, given: dict[str, Any], save: Path | None, json: bool) -> None:
    """Show one of `IDEAS`; `given` are the options that somebody typed, by name."""
    show, known = CONCEPTS[name]
    if strange := [f"--{option}" for option in given if option not in known]:
        has = ", ".join(f"--{option}" for option in (*known, "save", "json"))
        raise ConfigError(f"look {name} takes no {', '.join(strange)}; it takes {has}.")
    try:
        show(given, save, json)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def concept_only_message(given: dict[str, Any]) -> str:
    """The message for options that a run or a text does not take."""
    owners = {
        option: " or ".join(
            f"look {name}" for name, (_, known) in CONCEPTS.items() if option in known
        )
        for option in given
    }
    return "; ".join(f"--{option} is for saccade {owner}" for option, owner in owners.items()) + "."


def _activations(given: dict[str, Any], save: Path | None, json: bool) -> None:
    import numpy as np
    from rich.console import Console

    from saccade.inspection.activations import (
        ACTIVATION_EQUATIONS,
        KINKED_ACTIVATIONS,
        activation_curve,
        gelu_approximations,
    )
    from saccade.plots.activations import save_activations

    x = np.linspace(-ACTIVATION_RANGE, ACTIVATION_RANGE, ACTIVATION_POINTS)
    curves = [activation_curve(name, x) for name in ACTIVATION_EQUATIONS]
    errors_of_gelu = gelu_approximations()
    if save is not None:
        save_activations(curves, errors_of_gelu, save)
        stderr_console().print(f"{len(curves)} activations are drawn in {save}.")
    if json:
        print_json(
            {
                "activations": [
                    {
                        "name": one.name,
                        "equation": ACTIVATION_EQUATIONS[one.name],
                        "x": x.tolist(),
                        "y": one.y.tolist(),
                        "slope": one.derivative.tolist(),
                        "slope_at_0": one.derivative_at_zero,
                    }
                    for one in curves
                ],
                "gelu": {
                    one.name: {"largest_error": one.max_error, "at": one.max_error_x}
                    for one in errors_of_gelu
                },
            }
        )
        return
    shown = make_table("activation", "f(x)", "least slope", "greatest", "at 0")
    for one in curves:
        slopes = (one.derivative.min(), one.derivative.max(), one.derivative_at_zero)
        shown.add_row(
            one.name,
            ACTIVATION_EQUATIONS[one.name],
            *(f"{derivative:.3g}" for derivative in slopes),
        )
    screen = Console(highlight=False, markup=False)
    screen.print(shown)
    screen.print()
    screen.print(
        f"Slopes of x from {-ACTIVATION_RANGE:g} to {ACTIVATION_RANGE:g}. {', '.join(KINKED_ACTIVATIONS)} have a corner at 0, "
        "where no slope is: learning takes the one that is told, a subgradient (of relu any number "
        "from 0 to 1 would be one)."
    )
    said = {"gelu": "by tanh (gelu)", "gelu_sigmoid": "by σ(1.702 x) (gelu_sigmoid)"}
    found = [
        f"{said[one.name]} {one.max_error:.2e}, at x = {one.max_error_x:.2f}"
        for one in errors_of_gelu
    ]
    screen.print(f"Approximations of gelu_exact, and their largest error: {'; '.join(found)}.")
    screen.print("softmax is a function of many numbers at once, and is not drawn.")


def _depth(given: dict[str, Any], save: Path | None, json: bool) -> None:
    from saccade.inspection.signal_propagation import StackConfig, propagate
    from saccade.plots.attention import image_format
    from saccade.plots.signal_propagation import save_signal_propagation

    if save is not None:
        image_format(save)
    seen = propagate(StackConfig(**given))
    if save is not None:
        save_signal_propagation(seen, save)
        stderr_console().print(f"Signals and gradients are drawn in {save}.")
    if json:
        print_json(_plain(seen))
    else:
        _show(seen)


def _show(seen: "SignalPropagation") -> None:
    from rich.console import Console

    from saccade.inspection.signal_propagation import describe_propagation, log_spaced_layers
    from saccade.plots.signal_propagation import stack_title

    by_depth = {one.depth: one for one in seen.spectra}
    shown = make_table("layer", "signals", "over inputs", "gradients", "|λ|", "σ")
    for layer in (0, *log_spaced_layers(seen.stack.layers)):
        figures = (seen.signals[layer], seen.differences[layer], seen.gradients[layer])
        values = [f"{figure:.3g}" for figure in figures]
        if one := by_depth.get(layer):
            values += [_power(one.moduli), _power(one.singular)]
        shown.add_row(str(layer), *values)
    screen = Console(highlight=False, markup=False)
    for part in (stack_title(seen.stack), "", shown, "", *describe_propagation(seen)):
        screen.print(part)
    screen.print(
        "signals: the mean of h² after each layer; over inputs: its variance from one input to "
        "the next; gradients: the mean of (∂L/∂h)²; |λ| and σ: the largest eigenvalue and singular "
        "value of W_l … W_1. A size is the root of such a mean."
    )


def _power(logs: Any) -> str:
    """The largest of some numbers that are told by their logarithms, as others are written."""
    if not len(logs):
        return "0"
    if abs(logs[0]) < 300:
        return f"{10 ** logs[0]:.3g}"
    whole = int(logs[0] // 1)
    return f"{10 ** (logs[0] - whole):.3g}e{whole:+d}"


def _plain(seen: "SignalPropagation") -> dict[str, Any]:
    import math

    from saccade.inspection.signal_propagation import describe_propagation

    def numbers(values: Any) -> list[float | None]:  # JSON knows no infinity
        return [value if math.isfinite(value) else None for value in values.tolist()]

    return {
        **seen.stack._asdict(),
        "signals": numbers(seen.signals),
        "differences": numbers(seen.differences),
        "gradients": numbers(seen.gradients),
        "products": [
            {
                "depth": one.depth,
                "log10_moduli": one.moduli.tolist(),
                "log10_singular": one.singular.tolist(),
            }
            for one in seen.spectra
        ],
        "norm_growths": {
            what: norm_growth._asdict() for what, norm_growth in seen.norm_growths.items()
        },
        "description": describe_propagation(seen),
    }


ConceptView = tuple[Callable[[dict[str, Any], Path | None, bool], None], tuple[str, ...]]
CONCEPTS: dict[str, ConceptView] = {  # what shows it, and the options that it takes
    "activations": (_activations, ()),
    "depth": (
        _depth,
        ("activation", "init", "layers", "width", "norm", "residual", "seed"),
    ),
}
