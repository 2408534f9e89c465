"""`saccade plot`: plots that need no run."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import ImageOption, JsonOption, SetOption
from saccade.cli.plot_concepts import plot_activations, plot_signal, plot_zipf
from saccade.cli.plot_schedules import plot_schedules
from saccade.types.limits import MAX_DEPTH, MAX_PLOTTED_WIDTH, MAX_SEED

PLOT_HELP = r"""Plot activation functions, schedules, signal propagation or word frequencies.

\b
saccade plot activations --save activations.png
saccade plot schedules --set train.steps=500 --save schedules.png
saccade plot signal --activation relu --init kaiming --layers 50 --save signal.png
saccade plot zipf book.txt --save zipf.png
"""


def activations_command(save: ImageOption = None, json: JsonOption = False) -> None:
    r"""Plot activation functions and their derivatives.

    \b
    saccade plot activations --save activations.png
    """
    plot_activations(save, json)


def schedules_command(
    set: SetOption = None, save: ImageOption = None, json: JsonOption = False
) -> None:
    r"""Plot learning-rate schedules.

    \b
    saccade plot schedules --set train.steps=500 --set train.warmup=50 --save schedules.png
    saccade plot schedules --set train.schedule=one_cycle --json
    """
    plot_schedules(set or [], save, json)


def signal_command(
    activation: Annotated[str, typer.Option(help="Activation function.")] = "tanh",
    init: Annotated[str, typer.Option(help="Weight initialisation.")] = "xavier",
    layers: Annotated[int, typer.Option(help="Number of layers.", min=1, max=MAX_DEPTH)] = 50,
    width: Annotated[
        int, typer.Option(help="Units per layer.", min=2, max=MAX_PLOTTED_WIDTH)
    ] = 256,
    norm: Annotated[str, typer.Option(help="Normalisation: none, batch, layer or rms.")] = "none",
    residual: Annotated[bool, typer.Option("--residual", help="Add residual connections.")] = False,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=MAX_SEED)] = 0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot signals and gradients through a deep network at initialisation.

    \b
    saccade plot signal --activation relu --init kaiming --layers 50 --save signal.png
    saccade plot signal --norm rms --residual
    """
    plot_signal(
        {
            "activation": activation,
            "init": init,
            "layers": layers,
            "width": width,
            "norm": norm,
            "residual": residual,
            "seed": seed,
        },
        save,
        json,
    )


def zipf_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A text file.")],
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot rank against frequency of words and n-grams, with fitted Zipf exponents.

    \b
    saccade plot zipf book.txt --save zipf.png
    """
    plot_zipf(file, save, json)


PLOT_COMMANDS: dict[str, Callable[..., None]] = {
    "activations": activations_command,
    "schedules": schedules_command,
    "signal": signal_command,
    "zipf": zipf_command,
}
