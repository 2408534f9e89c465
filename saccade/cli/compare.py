"""compare."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.console import make_table, print_json, stderr_console
from saccade.cli.train import parse_overrides
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from saccade.workflows import Comparison, LayerComparison
    from saccade.workflows.compare_measure import ComparisonMetric, ModelResults


MAX_ROWS_WITH_ALL_PAIRS = 5  # rows, of which not all pairs are spoken of


def compare_command(
    what: Annotated[
        str,
        typer.Argument(
            help="A recipe, a .toml, a file of pairs; activations, inits, optimizers; or layers."
        ),
    ],
    data: Annotated[
        str | None, typer.Option(help="As in saccade train; of settings: what is trained.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(help="Names with commas; otherwise all that the task has.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="activations, inits, optimizers: names with commas; or all.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="For each training; 2 if --steps is not given.", min=0)
    ] = None,
    steps: Annotated[int | None, typer.Option(help="For each training.", min=1)] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of each model.", min=1)] = 3,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, for all models."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The runs' folder; otherwise runs/compare_command-NAME.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="layers: the longest sequence; otherwise 2048.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="The picture: .png, .svg or .pdf.")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""Compare models, or the values of one setting, on the same data; or kinds of layers.

    \b
    saccade compare translate --data dates --models seq2seq,bahdanau,transformer --minutes 2
    saccade compare optimizers --data forecast --only sgd,momentum,adam,lbfgs --steps 300
    saccade compare activations --data table --steps 300
    saccade compare inits --data table --only own,xavier,kaiming,zero --steps 300
    saccade compare layers --save layers.png

    Every model is trained with every seed, with the same data, tokenizer and budget, one after
    another. Stopped with Ctrl-C, the same command goes on. A difference is stated if it is seen
    in the test set (paired bootstrap) and over the seeds; otherwise it is said to be none.
    """
    if what == "layers":
        given: dict[str, Any] = {"data": data, "models": models, "only": only}
        given |= {"minutes": minutes, "steps": steps, "set": set or None, "out": out}
        if strange := [f"--{name}" for name, value in given.items() if value is not None]:
            raise ConfigError(
                f"compare layers trains nothing, so it takes no {', '.join(strange)}; "
                "it takes --max-length, --save and --json."
            )
        _layers(max_length, save, json)
        return
    if max_length is not None:
        raise ConfigError("--max-length is for compare layers.")
    from saccade.runs.run import TrainOptions
    from saccade.workflows import compare as compare_models

    console = stderr_console()
    found = compare_models(
        what,
        data=data,
        models=_names(models),
        only=_names(only),
        minutes=minutes,
        steps=steps,
        seeds=seeds,
        set=parse_overrides(set or []),
        out=out,
        save=save,
        options=TrainOptions(console=console, log=console.print),
    )
    if json:
        print_json(found.to_dict())
    else:
        _show(found)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _show(found: "Comparison") -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    console.print(comparison_table(found.rows, found.metric, found.compared), "")
    best = found.rows[0].model
    for difference in found.differences:
        if len(found.rows) <= MAX_ROWS_WITH_ALL_PAIRS or best in (
            difference.better,
            difference.worse,
        ):
            console.print(difference.summary)
    if len(found.rows) > MAX_ROWS_WITH_ALL_PAIRS:
        console.print(f"These are the pairs with {best}; --json has all.")
    for note in found.notes:
        console.print(note)
    for row in found.rows:
        early = [str(one.seed) for one in row.runs if one.stop_reason == "patience"]
        if early:
            console.print(
                f"{row.model} stopped getting better before its budget was used up, with seed "
                f"{', '.join(early)}."
            )
    console.print(
        "dev: the best while training; test: with those weights; seeds: the least and the "
        "greatest test score; seconds: of training until 90 % of the best on dev; ms: to answer "
        "one input (of pairs: of the test set, all asked together). All but seeds are means over "
        "the seeds."
    )
    console.print(f"The curves are drawn in {shlex.quote(str(found.plot))}.")


def comparison_table(
    rows: "list[ModelResults]", metric: "ComparisonMetric", compared: str
) -> "Table":
    """A line for each model: means over the seeds, and the range of what is compared."""
    shown = make_table(compared, "parameters", "tokens/s", "dev", "test", "seeds", "seconds", "ms")
    for row in rows:
        tests = row.values("test")
        shown.add_row(
            row.model,
            f"{row.runs[0].parameters:,}",
            _mean(row, "tokens_per_second", ",.0f"),
            _mean(row, "dev", ".4g"),
            _mean(row, "test", ".4g"),
            f"{min(tests):.3g}–{max(tests):.3g}",
            _mean(row, "seconds", ".1f"),
            _mean(row, "milliseconds", ".3g"),
        )
    shown.title, shown.title_style, shown.title_justify = metric.label, "bold", "left"
    return shown


def _mean(row: "ModelResults", name: str, form: str) -> str:
    mean = row.mean(name)
    return "" if mean is None else format(mean, form)


def _layers(max_length: int | None, save: Path | None, json: bool) -> None:
    from saccade.plots.attention import image_format
    from saccade.plots.comparison import save_layer_benchmark
    from saccade.training.progress import show_progress
    from saccade.workflows import compare_layers

    console = stderr_console()
    try:
        if save is not None:
            image_format(save)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    with show_progress(console, "measuring") as bar:
        found = compare_layers(2048 if max_length is None else max_length, on_progress=bar.update)
    if save is not None:
        save_layer_benchmark(found.panels(), save)
        console.print(f"The picture is in {shlex.quote(str(save))}.")
    if json:
        print_json(found.to_dict())
    else:
        _show_layers(found)


def _show_layers(found: "LayerComparison") -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    shown = make_table("layer", "n", "ms", "MB", "in turn", "path", "operations")
    for row in found.rows:
        shown.add_row(
            row.layer,
            str(row.length),
            f"{row.milliseconds:.3g}",
            f"{row.megabytes:.3g}",
            f"{row.sequential_products:,}",
            f"{row.path:,}",
            f"{row.operations:,}",
        )
    console.print(shown, "")
    grown = make_table("layer", "operations", "in turn", "path", "time grows as", "memory as")
    for layer in found.growth:
        grown.add_row(
            layer.layer,
            layer.operations,
            layer.sequential_products,
            layer.path,
            f"n^{layer.time_exponent:.2f} (n^{layer.theory_exponent})",
            f"n^{layer.memory_exponent:.2f}",
        )
    console.print(grown, "")
    console.print(
        f"Width d = {found.width}, kernel k = {found.kernel}, one sequence, one thread. "
        "ms: forward and backward, the best of several; MB: the tensors kept for the backward "
        "pass; in turn: matrix products of which each waits for the one before; path: layers (of "
        "the recurrence: steps) until the last place depends on the first; operations: by the "
        "formula. The second table has the formulas; growth is fitted to the three longest lengths "
        "(in brackets: by the formula)."
    )
