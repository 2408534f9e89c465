"""`saccade plot`: plots that need no run."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import (
    DataArgument,
    ImageOption,
    JsonOption,
    SetOption,
    data_or_file,
)
from saccade.cli.plot_concepts import plot_activations, plot_signal, plot_zipf
from saccade.cli.plot_reinforcement import (
    DEFAULT_ARMS,
    PlotOutput,
    plot_bandits,
    plot_off_policy,
    plot_paths,
    plot_planning,
)
from saccade.cli.plot_schedules import plot_schedules
from saccade.cli.plot_views import (
    plot_huffman,
    plot_losses,
    plot_markov,
    plot_positions,
    plot_powers,
    plot_ratios,
    plot_reading,
    plot_scores,
    plot_temperature,
    plot_weight_decay,
)
from saccade.types.limits import MAX_DEPTH, MAX_PLOTTED_WIDTH, MAX_SEED, MAX_VALUE

MAX_PLOTTED_STATES = 200  # rows and columns of a matrix that is drawn

GridWorldOption = Annotated[
    str, typer.Option("--world", metavar="NAME", help="World with a transition table.")
]
DiscountOption = Annotated[float, typer.Option(help="Discount factor γ.", min=0, max=1)]
SeedsOption = Annotated[int, typer.Option(help="Number of seeds.", min=1, max=1000)]

PLOT_HELP = r"""Plot concepts: activations, losses, scores, positions, schedules, texts, matrices.

\b
saccade plot activations --save activations.png
saccade plot schedules --set train.steps=500 --save schedules.png
saccade plot signal --activation relu --init kaiming --layers 50 --save signal.png
saccade plot zipf book.txt --save zipf.png
saccade plot markov book.txt --steps 8 --save markov.png
saccade plot huffman book.txt --save huffman.png
saccade plot reading|scores|positions|losses|temperature --save plot.png
saccade plot weight-decay|powers --save plot.png
saccade plot bandits|planning|paths|off-policy --save plot.png
"""


def activations_command(
    alpha: Annotated[
        str | None,
        typer.Option(help="Only elu and leaky_relu, with each of these α, as in 0.01,0.3,1."),
    ] = None,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot activation functions and their derivatives.

    \b
    saccade plot activations --save activations.png
    saccade plot activations --alpha 0.01,0.3,1 --save alphas.png
    """
    plot_activations(alpha, save, json)


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
    alpha: Annotated[
        float | None, typer.Option(help="α of elu or leaky_relu.", min=0, max=MAX_VALUE)
    ] = None,
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
            "alpha": alpha,
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


def markov_command(
    file: DataArgument = None,
    data: Annotated[str | None, typer.Option(help="A text file.")] = None,
    steps: Annotated[
        int, typer.Option(help="Largest power of the matrix.", min=1, max=MAX_DEPTH)
    ] = 8,
    states: Annotated[
        int, typer.Option(help="States: the most frequent tokens.", min=2, max=MAX_PLOTTED_STATES)
    ] = 12,
    characters: Annotated[
        bool, typer.Option("--characters", help="Characters as states, not words.")
    ] = False,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot the Markov chain of a text: transition matrix, powers, stationary distribution.

    \b
    saccade plot markov --data book.txt --steps 8 --save markov.png
    """
    plot_markov(data_or_file(data, file), steps, (states, characters), save, json)


def ratios_command(
    file: DataArgument = None,
    words: Annotated[str, typer.Option(help="Two words: ice,steam.")] = "ice,steam",
    probes: Annotated[
        str, typer.Option(help="Words to probe them with.")
    ] = "solid,gas,water,fashion",
    window: Annotated[int, typer.Option(help="Words to each side.", min=1, max=1000)] = 10,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Print ratios of co-occurrence probabilities, from which GloVe is derived.

    \b
    saccade plot ratios book.txt --words king,queen --probes crown,man,woman
    """
    plot_ratios(file, (words, probes), window, save, json)


def scores_command(
    queries: Annotated[int, typer.Option(help="Queries.", min=1, max=MAX_PLOTTED_STATES)] = 4,
    keys: Annotated[int, typer.Option(help="Keys.", min=1, max=MAX_PLOTTED_STATES)] = 6,
    width: Annotated[int, typer.Option(help="Width of both.", min=1, max=MAX_PLOTTED_WIDTH)] = 16,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=MAX_SEED)] = 0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot the attention weights of every score for the same queries and keys.

    \b
    saccade plot scores --width 64 --save scores.png
    """
    plot_scores(queries, keys, width, seed, save, json)


def positions_command(
    length: Annotated[int, typer.Option(help="Positions.", min=2, max=MAX_PLOTTED_STATES)] = 48,
    width: Annotated[
        int, typer.Option(help="Width, an even number.", min=2, max=MAX_PLOTTED_WIDTH)
    ] = 32,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot positional encodings and their dot products.

    \b
    saccade plot positions --save positions.png
    """
    plot_positions(length, width, save, json)


def losses_command(save: ImageOption = None, json: JsonOption = False) -> None:
    r"""Plot losses of regression and classification, and their derivatives.

    \b
    saccade plot losses --save losses.png
    """
    plot_losses(save, json)


def temperature_command(
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=MAX_SEED)] = 0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot the effect of a contrastive loss's temperature, and its bound on information.

    \b
    saccade plot temperature --save temperature.png
    """
    plot_temperature(seed, save, json)


def reading_command(
    rows: Annotated[int, typer.Option(help="Rows of a batch.", min=1, max=12)] = 4,
    segment: Annotated[int, typer.Option(help="Tokens of a segment.", min=1, max=24)] = 6,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=MAX_SEED)] = 0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot which part of a text each batch reads, in sequential and in random order.

    \b
    saccade plot reading --save reading.png
    """
    plot_reading(rows, segment, seed, save, json)


def weight_decay_command(
    rate: Annotated[float, typer.Option(help="Learning rate.", min=0.0001, max=0.3)] = 0.1,
    steps: Annotated[int, typer.Option(help="Steps.", min=1, max=100_000)] = 200,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot the path of two weights with several weight decays.

    \b
    saccade plot weight-decay --save decay.png
    """
    plot_weight_decay(rate, steps, save, json)


def powers_command(
    size: Annotated[int, typer.Option(help="Rows of a matrix.", min=2, max=512)] = 6,
    steps: Annotated[int, typer.Option(help="Largest power.", min=1, max=MAX_DEPTH)] = 12,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=MAX_SEED)] = 0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot how Mᵏx tends to the main eigenvector, and the eigenvalues of a product.

    \b
    saccade plot powers --steps 12 --save powers.png
    """
    plot_powers(size, steps, seed, save, json)


def huffman_command(
    file: DataArgument = None,
    weights: Annotated[
        str | None, typer.Option(help="Weights of symbols: sun=0.5,rain=0.25,snow=0.25.")
    ] = None,
    code: Annotated[
        str | None, typer.Option(help="A code to compare: sun=0,rain=10,snow=11.")
    ] = None,
    symbols: Annotated[
        int, typer.Option(help="Most frequent words of FILE.", min=2, max=MAX_PLOTTED_STATES)
    ] = 12,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot the Huffman tree of weights or of a text's words; measure a code's mean length.

    \b
    saccade plot huffman book.txt --save huffman.png
    saccade plot huffman --weights sun=0.5,rain=0.25,snow=0.25 --code sun=10,rain=0,snow=11
    """
    plot_huffman(file, weights, code, symbols, save, json)


def bandits_command(
    arms: Annotated[str, typer.Option(help="Probability of a reward of each arm.")] = DEFAULT_ARMS,
    steps: Annotated[int, typer.Option(help="Steps of a run.", min=10, max=1_000_000)] = 2000,
    runs: Annotated[int, typer.Option(help="Independent runs.", min=1, max=10_000)] = 200,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=MAX_SEED)] = 0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot the regret of bandit methods and its lower bound.

    \b
    saccade plot bandits --save bandits.png
    saccade plot bandits --arms 0.5,0.45 --steps 10000
    """
    plot_bandits(arms, (steps, runs, seed), PlotOutput(save, json))


def planning_command(
    world: GridWorldOption = "FrozenLake-v1",
    discount: DiscountOption = 0.99,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot policy iteration and value iteration on the transition table of a world.

    \b
    saccade plot planning --world FrozenLake-v1 --save planning.png
    saccade plot planning --world CliffWalking-v1 --discount 1
    """
    plot_planning(world, discount, PlotOutput(save, json))


def paths_command(
    world: GridWorldOption = "CliffWalking-v1",
    episodes: Annotated[int, typer.Option(help="Episodes.", min=1, max=1_000_000)] = 500,
    seeds: SeedsOption = 20,
    seed: Annotated[int, typer.Option(help="First random seed.", min=0, max=MAX_SEED)] = 0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot which cells of a grid world the policies learned by tabular methods visit.

    \b
    saccade plot paths --world CliffWalking-v1 --seeds 20 --save cliff.png
    """
    plot_paths(world, episodes, (seeds, seed), PlotOutput(save, json))


def off_policy_command(
    world: GridWorldOption = "FrozenLake-v1",
    discount: DiscountOption = 0.95,
    seeds: SeedsOption = 5,
    seed: Annotated[int, typer.Option(help="First random seed.", min=0, max=MAX_SEED)] = 0,
    save: ImageOption = None,
    json: JsonOption = False,
) -> None:
    r"""Plot Q-learning from several behaviours, and estimates by importance sampling.

    \b
    saccade plot off-policy --save off-policy.png
    """
    plot_off_policy(world, discount, (seeds, seed), PlotOutput(save, json))


PLOT_COMMANDS: dict[str, Callable[..., None]] = {
    "activations": activations_command,
    "schedules": schedules_command,
    "signal": signal_command,
    "zipf": zipf_command,
    "markov": markov_command,
    "huffman": huffman_command,
    "ratios": ratios_command,
    "reading": reading_command,
    "scores": scores_command,
    "positions": positions_command,
    "losses": losses_command,
    "temperature": temperature_command,
    "weight-decay": weight_decay_command,
    "powers": powers_command,
    "bandits": bandits_command,
    "planning": planning_command,
    "paths": paths_command,
    "off-policy": off_policy_command,
}
