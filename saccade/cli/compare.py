"""`saccade compare`: compare models, settings or layers on equal terms."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.completion import complete_training
from saccade.cli.console import (
    load_torch,
    make_table,
    print_json,
    stderr_console,
    stdout_console,
)
from saccade.cli.opening import check_file
from saccade.cli.options import (
    DataArgument,
    ImageOption,
    JsonOption,
    SetOption,
    WorldOption,
    data_or_file,
    parse_overrides,
)
from saccade.cli.roles import column_settings, with_role_options
from saccade.errors import ConfigError
from saccade.types.limits import MAX_COUNT, MAX_LENGTH, MAX_MINUTES, MAX_TRAININGS

if TYPE_CHECKING:
    from rich.table import Table

    from saccade.types.results import ComparisonMetric
    from saccade.workflows import Comparison, LayerComparison
    from saccade.workflows.compare.measure import ModelResults

MAX_ROWS_WITH_ALL_PAIRS = 5  # with more rows only the pairs with the best are printed
MEANS_LEGEND = (
    "dev: best during training; test: with those weights; seeds: range of the test score; seconds: "
    "of training until 90 % of the best dev score; ms: inference time per input (of pairs: of the "
    "test set in one batch). All but seeds are means over the seeds."
)
SEEDS_LEGEND = (
    "IQM: mean of the middle half of the seeds, with a stratified bootstrap interval (Agarwal et "
    "al. 2021); range: worst and best seed; seconds: of training until 90 % of the best dev score."
)
DEFAULT_MAX_LENGTH = 2048
MAX_KERNEL, MAX_LAYER_WIDTH = 1023, 4096  # of measured layers

LAYERS_SECTION = "saccade compare layers"


@with_role_options
def compare_command(
    what: Annotated[
        str,
        typer.Argument(
            help="A recipe, a .toml or a data file; activations, inits, optimizers; or layers.",
            autocompletion=complete_training,
        ),
    ],
    file: DataArgument = None,
    data: Annotated[
        str | None,
        typer.Option(help="As in saccade train; for activations, …: the recipe or file to train."),
    ] = None,
    world: WorldOption = None,
    models: Annotated[
        str | None, typer.Option(help="Comma-separated names; default: all models of the task.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="activations, inits, optimizers: comma-separated names; default: all."),
    ] = None,
    ablate: Annotated[
        str | None,
        typer.Option(help="Comma-separated switches of one model (--models), each switched off."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Time budget of each training; default: 2 without --steps (control: none).",
            min=0,
            max=MAX_MINUTES,
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of each training.", min=1, max=MAX_COUNT)
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Trainings of each model.", min=1, max=MAX_TRAININGS)
    ] = 3,
    set: SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs; default: runs/compare-NAME.")
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help=f"Longest sequence; default: {DEFAULT_MAX_LENGTH}.",
            min=1,
            max=MAX_LENGTH,
            rich_help_panel=LAYERS_SECTION,
        ),
    ] = None,
    kernel: Annotated[
        int | None,
        typer.Option(
            help="Positions that the convolution covers, odd; default: 3.",
            min=3,
            max=MAX_KERNEL,
            rich_help_panel=LAYERS_SECTION,
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            help="Width of inputs and outputs; default: 64.",
            min=1,
            max=MAX_LAYER_WIDTH,
            rich_help_panel=LAYERS_SECTION,
        ),
    ] = None,
    save: ImageOption = None,
    json: JsonOption = False,
    *,
    columns: dict[str, str],
) -> None:
    r"""Compare models, or values of one setting, on the same data; or kinds of layers.

    \b
    saccade compare translate --data dates --models seq2seq,bahdanau,transformer --minutes 2
    saccade compare optimizers --data forecast --only sgd,momentum,adam,lbfgs --steps 300
    saccade compare activations --data table --steps 300
    saccade compare inits --data table --only own,xavier,kaiming,zero --steps 300
    saccade compare control --world CartPole-v1 --models dqn --ablate replay,target --seeds 5
    saccade compare layers --kernel 9 --save layers.png

    Every model is trained with every seed on the same data, tokenizer and budget, one after
    another. After Ctrl-C the same command resumes. A difference is stated only if both the test
    set (paired bootstrap) and the seeds support it; otherwise the pair is undecided.
    """
    data = data_or_file(data, file, world)
    given = {"max_length": max_length, "kernel": kernel, "width": width}
    sizes = {name: value for name, value in given.items() if value is not None}
    if what == "layers":
        options: dict[str, Any] = {"data": data, "models": models, "only": only, "ablate": ablate}
        options |= {"minutes": minutes, "steps": steps, "set": set or None, "out": out, **columns}
        if refused := [f"--{name}" for name, value in options.items() if value is not None]:
            raise ConfigError(
                f"compare layers trains nothing and takes no {', '.join(refused)}; "
                "it takes --max-length, --kernel, --width, --save and --json."
            )
        _compare_layers(sizes, save, json)
        return
    if sizes:
        raise ConfigError(
            f"--{next(iter(sizes)).replace('_', '-')} is an option of compare layers only."
        )
    overrides = parse_overrides(set) | column_settings(what, columns)
    names = _split_names(models)
    _check_names(what, data, names, overrides)
    load_torch()
    from saccade.runs.train import TrainOptions
    from saccade.workflows import compare_models

    console = stderr_console()
    comparison = compare_models(
        what,
        data=data,
        models=names,
        only=_split_names(only),
        ablate=_split_names(ablate),
        minutes=minutes,
        steps=steps,
        seeds=seeds,
        set=overrides,
        out=out,
        save=save,
        options=TrainOptions(console=console, log=console.print),
    )
    if json:
        print_json(comparison.to_dict())
    else:
        _print_comparison(comparison)


def _check_names(
    what: str, data: str | None, models: list[str] | None, overrides: dict[str, str]
) -> None:
    """Raise the errors of a recipe, a model or a setting before torch is loaded."""
    from saccade.recipes.resolve import resolve_recipe
    from saccade.recipes.sweeps import SWEEPS

    what, data = (data or "", None) if what in SWEEPS else (what, data)
    if what:
        chosen: list[str | None] = [*models] if models else [None]
        for model in chosen:
            recipe = resolve_recipe(what, data=data, model=model, changes=dict(overrides)).recipe
            check_file(getattr(recipe.data, "path", None))


def _split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _print_comparison(comparison: "Comparison") -> None:
    console = stdout_console()
    rows = comparison.rows
    console.print(comparison_table(rows, comparison.metric, comparison.compared), "")
    best = rows[0].model
    for difference in comparison.differences:
        if len(rows) <= MAX_ROWS_WITH_ALL_PAIRS or best in (difference.better, difference.worse):
            console.print(difference.summary)
    if len(rows) > MAX_ROWS_WITH_ALL_PAIRS:
        console.print(f"Only pairs with {best} are listed; --json has all.")
    for note in comparison.notes:
        console.print(note)
    for row in rows:
        early = [str(result.seed) for result in row.runs if result.stop_reason == "patience"]
        if early:
            console.print(
                f"{row.model} stopped improving before its budget was used up, with seed "
                f"{', '.join(early)}."
            )
    if comparison.metric.by_seeds:
        console.print(SEEDS_LEGEND)
    else:
        console.print(MEANS_LEGEND)
    console.print(f"The curves are plotted in {shlex.quote(str(comparison.plot))}.")


def comparison_table(
    rows: "list[ModelResults]", metric: "ComparisonMetric", compared: str
) -> "Table":
    """Return a row per model: means over the seeds, and the range of the test score."""
    rate = f"{rows[0].runs[0].unit}/s"
    table = make_table(compared, "parameters", rate, "dev", "test", "seeds", "seconds", "ms")
    if metric.by_seeds:
        return _table_of_seeds(rows, metric, compared)
    for row in rows:
        tests = row.values("test")
        table.add_row(
            row.model,
            f"{row.runs[0].parameters:,}",
            _mean(row, "tokens_per_second", ",.0f"),
            _mean(row, "dev", ".4g"),
            _mean(row, "test", ".4g"),
            f"{min(tests):.3g}–{max(tests):.3g}",
            _mean(row, "seconds", ".1f"),
            _mean(row, "milliseconds", ".3g"),
        )
    table.title, table.title_style, table.title_justify = metric.label, "bold", "left"
    return table


def _table_of_seeds(
    rows: "list[ModelResults]", metric: "ComparisonMetric", compared: str
) -> "Table":
    """Return a row per agent: statistics of the test score over the seeds."""
    table = make_table(compared, "parameters", "mean", "IQM", "95 % interval", "range", "seconds")
    for row in rows:
        tests, found = row.values("test"), row.seed_interval()
        table.add_row(
            row.model,
            f"{row.runs[0].parameters:,}",
            _mean(row, "test", ".4g"),
            f"{found.iqm:.4g}",
            f"{found.low:.4g} to {found.high:.4g}",
            f"{min(tests):.4g} to {max(tests):.4g}",
            _mean(row, "seconds", ".1f"),
        )
    table.title, table.title_style, table.title_justify = metric.label, "bold", "left"
    return table


def _mean(row: "ModelResults", name: str, number_format: str) -> str:
    mean = row.mean(name)
    return "" if mean is None else format(mean, number_format)


def _compare_layers(sizes: dict[str, int], save: Path | None, json: bool) -> None:
    from saccade.plots.comparison import save_layer_benchmark
    from saccade.plots.style import image_format
    from saccade.training.progress import show_progress
    from saccade.workflows import compare_layers

    console = stderr_console()
    try:
        if save is not None:
            image_format(save)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    with show_progress(console, "measuring") as bar:
        comparison = compare_layers(
            sizes.pop("max_length", DEFAULT_MAX_LENGTH), **sizes, on_progress=bar.update
        )
    if save is not None:
        save_layer_benchmark(comparison.panels(), save)
        console.print(f"Wrote the plot to {shlex.quote(str(save))}.")
    if json:
        print_json(comparison.to_dict())
    else:
        _print_layers(comparison)


def _print_layers(comparison: "LayerComparison") -> None:
    console = stdout_console()
    table = make_table("layer", "n", "ms", "MB", "sequential", "path", "operations", "counted")
    for row in comparison.rows:
        table.add_row(
            row.layer,
            str(row.length),
            f"{row.milliseconds:.3g}",
            f"{row.megabytes:.3g}",
            f"{row.sequential_products:,}",
            f"{row.path:,}",
            f"{row.operations:,}",
            f"{row.counted_operations:,}",
        )
    console.print(table, "")
    growth_table = make_table("layer", "operations", "sequential", "path", "time", "memory")
    for growth in comparison.growth:
        growth_table.add_row(
            growth.layer,
            growth.operations,
            growth.sequential_products,
            growth.path,
            f"n^{growth.time_exponent:.2f} (n^{growth.theory_exponent})",
            f"n^{growth.memory_exponent:.2f}",
        )
    console.print(growth_table, "")
    console.print(
        f"Width d = {comparison.width}, kernel k = {comparison.kernel}, one sequence, one thread. "
        "ms: forward and backward pass, best of several; MB: tensors saved for the backward pass; "
        "sequential: longest chain of matrix products; path: layers (of the recurrence: steps) "
        "until the last position depends on the first; operations: by the formula; counted: "
        "multiply-adds of the matrix products of a forward pass. The second "
        "table has the formulas and the measured growth, fitted to the three longest lengths (in "
        "brackets: by the formula)."
    )
