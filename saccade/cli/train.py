"""`saccade train`: train a model, resume an interrupted training, or extend a finished one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.completion import complete_training
from saccade.cli.opening import load_torch_for, read_run_recipe
from saccade.cli.options import (
    DataArgument,
    JsonOption,
    ModelOption,
    OverwriteOption,
    SetOption,
    WorldOption,
    data_or_file,
    parse_overrides,
)
from saccade.cli.roles import with_role_options
from saccade.cli.training_output import (
    preview_command,
    report_training,
    resume_hint,
    training_options,
)
from saccade.errors import ConfigError
from saccade.types.limits import MAX_MINUTES

DATA_SOURCE_SETTINGS = ("synthetic", "path", "dataset", "world")


@with_role_options
def train_command(
    what: Annotated[
        str | None,
        typer.Argument(
            help="A task or recipe (see saccade list), a .toml file or a data file.",
            autocompletion=complete_training,
        ),
    ] = None,
    file: DataArgument = None,
    data: Annotated[
        str | None,
        typer.Option(help="A file, two parallel files (a.en,a.de), or the name of a dataset."),
    ] = None,
    world: WorldOption = None,
    model: ModelOption = None,
    set: SetOption = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/NAME.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Time budget; the same as --set train.minutes=N.", min=0, max=MAX_MINUTES
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Resume the run in this folder; with more steps or minutes, extend it.",
        ),
    ] = None,
    init_from: Annotated[
        Path | None,
        typer.Option("--init-from", help="Start from this run's weights and vocabulary."),
    ] = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
    *,
    columns: dict[str, str],
) -> None:
    r"""Train a model, resume an interrupted training, or extend a finished one.

    \b
    saccade train dates
    saccade train translate pairs.tsv
    saccade train translate --data pairs.tsv --set model.width=128 --out runs/mine
    saccade train table --data table.csv --target price
    saccade train classify --data reviews.parquet --text review --label stars
    saccade train reviews.csv
    saccade train control --world CartPole-v1 --model dqn
    saccade train dates --set train.steps=300 --set train.learning_rate=0.001
    saccade train translate --data pairs.tsv --minutes 10
    saccade train --resume runs/mine
    saccade train --resume runs/mine --set train.steps=3000

    To train a finished run on new data, use saccade finetune.
    """
    overrides: dict[str, Any] = dict(parse_overrides(set))
    data = data_or_file(data, file, world)
    if minutes is not None:
        overrides["train.minutes"] = minutes
    if resume is not None:
        overrides |= {f"data.{role}": column for role, column in columns.items()}
        expected = _expected_settings(what, data, model, overrides)
        load_torch_for(read_run_recipe(resume))
        from saccade.runs.train import resume as resume_run

        with resume_hint(resume, is_new=False):
            report_training(resume_run(resume, expected, training_options()), json)
    elif what is None:
        raise ConfigError(
            "train needs a task, a recipe, a .toml file or a data file; saccade list shows the "
            "tasks and recipes."
        )
    else:
        folder = out or Path("runs") / Path(what.split(",")[0]).name.split(".")[0]
        task, data, overrides, printed = preview_command(what, data, overrides, columns)
        from saccade.recipes.resolve import resolve_recipe

        resolved = resolve_recipe(
            task, data=data, model=model, changes=overrides, init_from=init_from
        )
        load_torch_for(resolved.recipe)
        from saccade.runs.train import train_recipe

        options = training_options(printed)._replace(
            auto_model=resolved.auto_model, overwrite=overwrite, init_from=init_from
        )
        with resume_hint(folder, is_new=True):
            report_training(train_recipe(resolved.recipe, folder, options), json)


def _expected_settings(
    what: str | None, data: str | None, model: str | None, overrides: dict[str, Any]
) -> dict[str, Any]:
    """Return the settings given with --resume: those of the run, or of a longer training."""
    from saccade.recipes.resolve import resolve_recipe

    expected = dict(overrides)
    if what is not None or data is not None:
        recipe = resolve_recipe(
            what or "translate", data=data, model=model, changes=overrides
        ).recipe
        expected |= {
            f"data.{name}": getattr(recipe.data, name)
            for name in DATA_SOURCE_SETTINGS
            if hasattr(recipe.data, name)
        }
    if model is not None:
        expected["model.name"] = model
    return expected
