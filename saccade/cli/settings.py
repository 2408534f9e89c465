"""`saccade settings`: the settings of a task, with meaning, type, limits and default."""

from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.completion import complete_models, complete_recipes
from saccade.cli.console import make_table, print_json, stdout_console
from saccade.cli.options import JsonOption

if TYPE_CHECKING:
    from rich.table import Table

    from saccade.tasks.setting_reference import Setting

GROUP_TITLES = {
    "data": "data: source, splits, preprocessing",
    "model": "model: {name}",
    "train": "train: training",
}


def settings_command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASK]",
            help="A task or a recipe; without it the tasks are listed.",
            autocompletion=complete_recipes,
        ),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Only settings that match, e.g. lr or dropout."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model of the task; default: its own.", autocompletion=complete_models),
    ] = None,
    json: JsonOption = False,
) -> None:
    r"""List the settings of a task that --set can change: meaning, type, limits, default.

    \b
    saccade settings
    saccade settings translate
    saccade settings translate --model transformer
    saccade settings translate lr
    saccade settings dates --json
    """
    if what is None:
        _print_tasks(json)
        return
    from saccade.recipes.resolve import named_recipe
    from saccade.tasks.registry import TASKS
    from saccade.tasks.setting_reference import find_settings, recipe_settings

    recipe = named_recipe(what, model)
    settings = recipe_settings(recipe)
    if words:
        matches = [setting for word in words for setting in find_settings(settings, word)]
        settings = list(dict.fromkeys(matches))
    if json:
        print_json([setting._asdict() for setting in settings])
        return
    console = stdout_console()
    if not settings:
        console.print(f"No setting of {what} matches {' '.join(words or [])}.")
        return
    for group in dict.fromkeys(setting.group for setting in settings):
        console.print(GROUP_TITLES[group].format(name=recipe.model_name), style="bold")
        console.print(_settings_table([s for s in settings if s.group == group]), "")
    if not words:
        others = sorted(name for name in TASKS[recipe.task].models if name != recipe.model_name)
        if others:
            console.print(
                f"Other models, with settings of their own (--model): {', '.join(others)}"
            )
        console.print(
            f"Example: saccade train {what} --set train.seed=2. Defaults may be replaced by values "
            "chosen from the data; saccade train prints them with the reason.",
        )


def _settings_table(settings: "list[Setting]") -> "Table":
    table = make_table("setting", "default", "meaning")
    table.columns[0].no_wrap = True
    for setting in settings:
        kind = ", ".join(part for part in (setting.type, setting.limits) if part)
        table.add_row(
            setting.path, format_value(setting.default), f"{setting.description} ({kind})"
        )
    return table


def format_value(value: object) -> str:
    """Return a setting's value as it is typed after --set."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_tasks(json: bool) -> None:
    from saccade.tasks.registry import TASKS

    specs = [TASKS[name] for name in TASKS]
    if json:
        print_json(
            [
                {"task": spec.name, "summary": spec.summary, "models": sorted(spec.models)}
                for spec in specs
            ]
        )
        return
    table = make_table("task", "summary", "models")
    for spec in specs:
        table.add_row(spec.name, spec.summary, ", ".join(sorted(spec.models)))
    stdout_console().print(table, "\nSettings of one of them: saccade settings TASK [--model NAME]")
