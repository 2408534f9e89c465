"""Hints for options that users of other tools type by habit: what to type here instead."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.tasks.base import Recipe

TRAINING_COMMANDS = ("compare", "finetune", "train")
COMMAND_HINTS = {
    "--on": "saccade finetune RUN --data FILE",
    "--online": "saccade finetune RUN --data FILE --online",
}
SEARCH_OPTIONS = (  # settings of `saccade.decoding` that predict takes as --search NAME=VALUE
    "coverage",
    "length_penalty",
    "no_repeat_ngram_size",
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
)


def option_hint(arguments: Sequence[str], option: str) -> str | None:
    """Return what to type instead of an option that does not exist; None: there is no hint."""
    command, *rest = arguments
    name = option.lstrip("-").replace("-", "_")
    value = _value_of(option, rest)
    if command == "predict":
        return f"--search {name}={value}" if name in SEARCH_OPTIONS else None
    if command not in TRAINING_COMMANDS:
        return None
    if option in COMMAND_HINTS:
        return COMMAND_HINTS[option]
    from saccade.tasks.setting_reference import has_same_unit, recipe_settings, setting_named

    setting = setting_named(recipe_settings(_recipe_of(command, rest)), name)
    if setting is None:
        return None
    return f"--set {setting.path}={value if has_same_unit(setting, name) else '…'}"


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """Return the value given to an option, or an ellipsis."""
    for position, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
        if argument == option and position + 1 < len(arguments):
            following = arguments[position + 1]
            return "…" if following.startswith("-") else following
    return "…"


def _recipe_of(command: str, arguments: Sequence[str]) -> "Recipe":
    """Return the recipe that the arguments name; that of translation if it cannot be found."""
    from saccade.io.run_folder import read_run_settings
    from saccade.recipes.resolve import named_recipe
    from saccade.tasks.registry import read_recipe

    what = next((argument for argument in arguments if not argument.startswith("-")), "translate")
    given = {
        option: arguments[position + 1]
        for position, option in enumerate(arguments[:-1])
        if option.startswith("--")
    }
    try:
        if command == "finetune":
            return read_recipe(read_run_settings(Path(what))["recipe"], what)
        return named_recipe(what, given.get("--model"))
    except SaccadeError:  # a data file, or another mistake
        return named_recipe("table" if "--target" in given else "translate")
