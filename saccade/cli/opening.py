"""Opening of runs and data files: errors about arguments come before torch is loaded."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.cli.console import load_torch

if TYPE_CHECKING:
    from saccade.runs.run import Run
    from saccade.tasks.base import Recipe


def open_run(folder: Path, data: str | Path | None = None) -> "Run":
    """Open a run; a missing run or a missing `data` file is an error before torch is loaded."""
    recipe = read_run_recipe(folder)
    check_data(recipe, data)
    load_torch_for(recipe)
    from saccade.runs.run import load_run

    return load_run(folder)


def check_data(recipe: "Recipe", data: str | Path | None) -> None:
    """Raise a DataError if data is neither a file nor a dataset or environment of the task."""
    from saccade.tasks.registry import task_spec_for

    spec = task_spec_for(recipe)
    is_dataset = spec.evaluates_datasets and str(data) in spec.datasets
    if not is_dataset and not hasattr(recipe.data, "world"):
        check_file(data)


def read_run_recipe(folder: Path) -> "Recipe":
    """Return the recipe of a run; imports little, so that a wrong folder is reported quickly."""
    from saccade.io.run_folder import read_run_settings

    values = read_run_settings(folder)
    from saccade.tasks.registry import read_recipe

    return read_recipe(values["recipe"], str(folder / "run.toml"))


def check_file(data: str | Path | None) -> None:
    """Raise a DataError if data is a plain path at which there is nothing."""
    from saccade.runs.data_paths import check_file_exists, is_plain_path

    if data is not None and is_plain_path(str(data)) and not os.path.exists(data):
        for part in str(data).split(","):
            check_file_exists(part)


def load_torch_for(recipe: "Recipe") -> None:
    """Import torch if the model of a recipe needs it, with a line in the terminal meanwhile."""
    from saccade.tasks.registry import task_spec_for

    if not task_spec_for(recipe).torch_free(recipe):
        load_torch()
