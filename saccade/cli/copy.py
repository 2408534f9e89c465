"""`saccade copy`: write a recipe to a TOML file."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from saccade.errors import ConfigError


def copy_command(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe; see saccade list recipes.")],
    file: Annotated[Path, typer.Argument(help="The .toml file to write.")],
) -> None:
    r"""Write a recipe to a TOML file that you can edit and train.

    \b
    saccade copy dates mine.toml && saccade train mine.toml
    """
    from saccade.config import flatten, to_toml
    from saccade.io.atomic import write_atomically
    from saccade.recipes.resolve import RECIPES
    from saccade.registry import lookup

    function = lookup(RECIPES, recipe, "recipe")
    config = function()
    if file.exists():
        raise ConfigError(f"{file} already exists; choose another name.")
    if file.suffix != ".toml":
        raise ConfigError(
            f"got {file}; expected a name ending in .toml, by which train recognises a recipe."
        )
    explicit, settings = flatten(config, exclude_unset=True), flatten(config)
    lines = [
        f"# {recipe}: {function.__doc__ or ''}".rstrip(),
        "",
        to_toml(config, exclude_unset=True),
        "",
        "# Unset settings with their defaults; some are chosen from the data instead:",
    ]
    lines += [f"# {path} = {value}" for path, value in settings.items() if path not in explicit]
    write_atomically(file, ("\n".join(lines) + "\n").encode())
    print(f"Wrote {file}. Edit it, then: saccade train {shlex.quote(str(file))}")
