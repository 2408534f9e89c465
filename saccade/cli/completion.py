"""Shell completion of recipes, models, runs and settings. Does not import torch.

Typer calls these functions with what is typed so far; errors must not reach the shell, so a name
that cannot be resolved completes to nothing.
"""

import os
from collections.abc import Iterator
from glob import escape as glob_escape
from glob import glob
from pathlib import Path

import typer

from saccade.errors import SaccadeError

Completion = tuple[str, str]  # value and its description
RUN_FOLDERS_SEARCHED = (".", "runs")
MAX_COMPLETED_RUNS = 200
MAX_COMPLETED_FILES = 200


def complete_recipes(incomplete: str) -> Iterator[Completion]:
    """Complete the name of a recipe."""
    from saccade.recipes.resolve import RECIPES

    for name in RECIPES:
        if name.startswith(incomplete):
            summary = (RECIPES[name].__doc__ or "").split("\n")[0]
            yield name, summary


def complete_training(incomplete: str) -> Iterator[Completion]:
    """Complete what `train` takes first: a task or recipe, or a file."""
    yield from complete_recipes(incomplete)
    if not incomplete:  # every file of the folder would hide the names
        return
    for path in sorted(glob(f"{glob_escape(incomplete)}*"))[:MAX_COMPLETED_FILES]:
        yield f"{path}/" if os.path.isdir(path) else path, "file"


def complete_models(context: typer.Context, incomplete: str) -> Iterator[Completion]:
    """Complete the name of a model of the task that is typed before it."""
    from saccade.recipes.resolve import task_of
    from saccade.tasks.registry import TASKS

    what = context.params.get("what") or "translate"
    try:
        task = task_of(what)
    except SaccadeError:  # a data file
        task = "table" if context.params.get("target") else "translate"
    for name in sorted(TASKS[task].models):
        if name.startswith(incomplete):
            yield name, f"model of {task}"


def complete_runs(incomplete: str) -> Iterator[Completion]:
    """Complete the folder of a run, in the current folder, in runs/ and where is typed."""
    typed = Path(incomplete)
    parents = [
        typed if incomplete.endswith("/") else typed.parent,
        *map(Path, RUN_FOLDERS_SEARCHED),
    ]
    found = {
        str(file.parent)
        for parent in parents
        for file in sorted(parent.glob("*/run.toml"))[:MAX_COMPLETED_RUNS]
    }
    for name in sorted(found):
        if name.startswith(incomplete):
            yield name, "run"


def complete_settings(context: typer.Context, incomplete: str) -> Iterator[Completion]:
    """Complete `NAME=` of a setting, and after the equals sign the values it accepts."""
    from saccade.recipes.resolve import named_recipe
    from saccade.tasks.setting_reference import recipe_settings

    what, model = context.params.get("what") or "translate", context.params.get("model")
    try:
        settings = recipe_settings(named_recipe(what, model))
    except SaccadeError:
        settings = recipe_settings(named_recipe("translate", None))
    name, equals, value = incomplete.partition("=")
    for setting in settings:
        if not equals and setting.path.startswith(name):
            yield f"{setting.path}=", setting.description
        elif equals and setting.path == name:
            for choice in setting.choices:
                if choice.startswith(value):
                    yield f"{name}={choice}", setting.description
