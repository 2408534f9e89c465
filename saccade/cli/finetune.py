"""`saccade finetune`: train a finished run on new data, as a new run."""

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.opening import load_torch_for
from saccade.cli.options import (
    DataArgument,
    JsonOption,
    OverwriteOption,
    RunArgument,
    SetOption,
    data_or_file,
    parse_overrides,
)
from saccade.cli.roles import run_role_settings, with_role_options
from saccade.cli.training_output import (
    preview_run_data,
    report_training,
    resume_hint,
    training_options,
)
from saccade.errors import ConfigError


@with_role_options
def finetune_command(
    run: RunArgument,
    file: DataArgument = None,
    data: Annotated[
        str | None, typer.Option(help="New data; any format with the columns of the run.")
    ] = None,
    online: Annotated[
        bool,
        typer.Option("--online", help="Tables: predict each row in order, then train on it."),
    ] = False,
    set: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the new run; default: runs/NAME-finetuned or NAME-online."),
    ] = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
    *,
    columns: dict[str, str],
) -> None:
    r"""Fine-tune a finished run on new data, as a new run.

    \b
    saccade finetune runs/mine new.tsv
    saccade finetune runs/mine --data new.tsv --set train.steps=300 --out runs/newer
    saccade finetune runs/table --data live.csv --online

    The old run stays unchanged. The scores before and after are reported on the held-out part of
    the new data and on the old test split, which shows what was forgotten.
    """
    data = data_or_file(data, file)
    if data is None:
        raise ConfigError(f"finetune needs data: saccade finetune {run} --data FILE.")
    changes = parse_overrides(set) | run_role_settings(run, columns)
    from saccade.recipes.resolve import resolve_finetune_recipe

    _, _, changes, printed = preview_run_data(run, data, changes)
    load_torch_for(resolve_finetune_recipe(run, data, changes=changes, online=online))
    from saccade.workflows.finetune import default_finetune_folder, finetune_run

    options = training_options(printed)._replace(overwrite=overwrite)
    folder = out or default_finetune_folder(run, online)
    with resume_hint(folder, is_new=True):
        report_training(
            finetune_run(run, data, folder, options, changes=changes, online=online), json
        )
