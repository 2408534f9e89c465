"""`saccade evaluate`: score a run on held-out data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.console import (
    COUNT_NAMES,
    confusion_table,
    listed_tables,
    print_json,
    rows_table,
    scores_table,
    stderr_console,
    stdout_console,
)
from saccade.cli.opening import open_run, read_run_recipe
from saccade.cli.options import (
    BeamOption,
    DataArgument,
    DataSetOption,
    JsonOption,
    RunArgument,
    data_or_file,
    file_settings,
)
from saccade.cli.roles import run_role_settings, with_role_options
from saccade.cli.training_output import preview_run_data
from saccade.errors import ConfigError
from saccade.training.progress import show_progress
from saccade.types.limits import MAX_EPISODES

if TYPE_CHECKING:
    from saccade.runs.run import Run
    from saccade.types.progress import Progress
    from saccade.types.results import Evaluation


@with_role_options
def evaluate_command(
    run: RunArgument,
    file: DataArgument = None,
    data: Annotated[
        str | None, typer.Option(help="File with targets; default: the run's own data.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Split of the run's own data: train, dev or test.")
    ] = "test",
    set: DataSetOption = None,
    beam: BeamOption = 1,
    mix: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="Language models: mix with this run, weights fitted on dev; repeatable.",
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            help="Number of episodes (control); default: data.test_episodes.",
            min=1,
            max=MAX_EPISODES,
        ),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="All metrics, not only those that summarise the run.")
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save pictures: confusion matrix, reliability, mistakes, as the task has them.",
        ),
    ] = None,
    json: JsonOption = False,
    *,
    columns: dict[str, str],
) -> None:
    r"""Score a run on held-out data.

    \b
    saccade evaluate runs/dates
    saccade evaluate runs/dates --all
    saccade evaluate runs/mine test.tsv
    saccade evaluate runs/mine --data test.tsv --json
    saccade evaluate runs/mine --data test.csv --source english --target french
    saccade evaluate runs/nnlm --mix runs/ngram
    saccade evaluate runs/photos --data test/ --save pictures
    saccade evaluate runs/cart --episodes 100
    """
    data = data_or_file(data, file)
    if data is None and (set or episodes is not None):
        data = _world_of(run, episodes)
    if episodes is not None:
        set = [*(set or []), f"data.test_episodes={episodes}"]
    settings = file_settings(set, data)
    if data is not None:
        preview_run_data(run, data, settings | run_role_settings(run, columns))
    opened = open_run(run, data)
    with show_progress(stderr_console(), "evaluating") as bar:
        if mix:
            evaluation = _evaluate_mixture([opened, *map(open_run, mix)], data, split, bar.update)
        else:
            evaluation = opened.evaluate(
                data, split=split, columns=columns, set=settings, beam=beam, on_progress=bar.update
            )
    if save is not None:
        for message in opened.save_figures(save, data, split, columns, settings):
            stderr_console().print(message)
    if json:
        counts = {name: int(evaluation[name]) for name in COUNT_NAMES if name in evaluation}
        print_json({**evaluation.to_dict(), **counts})
        return
    console = stdout_console()
    headline = [name for name in opened.evaluator.headline if name in evaluation]
    console.print(scores_table(evaluation, None if all or not headline else headline))
    details = len(evaluation) - len({*headline, *COUNT_NAMES} & {*evaluation})
    if headline and details and not all:
        more = f"{details} more metric{'s' if details > 1 else ''}"
        tables = listed_tables(evaluation, True).keys() - listed_tables(evaluation, False).keys()
        also = f"; so are scores {' and '.join(sorted(map(_in_text, tables)))}" if tables else ""
        stderr_console().print(f"{more} with --all, and in --json{also}.")
    for note in evaluation.notes:
        stderr_console().print(note)
    if confusion := confusion_table(evaluation):
        console.print("", confusion)
    for title, rows in listed_tables(evaluation, all).items():
        console.print(f"\n{title}", rows_table(rows), sep="\n")


def _world_of(run: Path, episodes: int | None) -> str | None:
    """Return the environment of a run, None of another task; ConfigError if it has no episodes."""
    from saccade.io.machine import is_made_here
    from saccade.io.run_folder import read_run_settings
    from saccade.runs.data_paths import check_foreign_sources

    recipe = read_run_recipe(run)
    if hasattr(recipe.data, "world"):
        if not is_made_here(recipe.data.model_dump(), read_run_settings(run)["made"]):
            check_foreign_sources(recipe, run)
        return recipe.data_name
    if episodes is not None:
        raise ConfigError(
            f"got --episodes for a run of the task {recipe.task}; expected one of control; try "
            "without --episodes."
        )
    return None


def _in_text(title: str) -> str:
    return title.removesuffix(":").lower()


def _evaluate_mixture(
    runs: "list[Run]", data: str | None, split: str, on_progress: "Progress"
) -> "Evaluation":
    from saccade.workflows import evaluate_mixture

    return evaluate_mixture(runs, data, split=split, on_progress=on_progress)
