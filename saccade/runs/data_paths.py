"""Where the data of a run is: remembered as an absolute path, and relative to the run folder.

A run may be opened from another working folder, and may be moved together with its data. Of a run
that was not made on this machine (`saccade.io.machine`), files outside of its folder are used only
if their content is that of the training data.
"""

import os
from pathlib import Path
from typing import Any

from saccade.errors import DataError
from saccade.io.byte_source import STANDARD_INPUT, missing_file
from saccade.io.file_kinds import special_kind
from saccade.io.machine import PATH_SETTINGS
from saccade.tasks.base import Recipe

RememberedPaths = dict[str, dict[str, list[str]]]  # by setting: absolute and relative paths


def remember_paths(recipe: Recipe, folder: Path) -> RememberedPaths:
    """Return the absolute paths of the data files, and their paths from the run folder."""
    remembered: RememberedPaths = {}
    for name, parts in _given_paths(recipe).items():
        absolute = [str(Path(part).resolve()) for part in parts]
        try:
            relative = [os.path.relpath(path, folder.resolve()) for path in absolute]
        except ValueError:  # another drive on Windows
            relative = []
        remembered[name] = {"absolute": absolute, "relative": relative}
    return remembered


def check_files_exist(recipe: Recipe) -> None:
    """Raise a DataError for a data file that is not there, before anything is loaded."""
    for parts in _given_paths(recipe).values():
        for part in parts:
            check_file_exists(part)


def check_file_exists(path: str) -> None:
    """Raise a DataError if there is no file or folder at a path."""
    if not os.path.exists(path):
        raise DataError(missing_file(Path(path)))


def locate_paths(recipe: Recipe, folder: Path, remembered: RememberedPaths) -> Recipe:
    """Return the recipe with the paths at which its data files are found now.

    They are sought where they were at training, then where they were in relation to the run folder,
    then as the settings have them, in the working folder.
    """
    found: dict[str, str] = {}
    for name, given in _given_paths(recipe).items():
        saved = remembered.get(name, {})
        next_to_run = [str((folder / part).resolve()) for part in saved.get("relative", [])]
        candidates = [saved.get("absolute", []), next_to_run, given]
        existing = [paths for paths in candidates if paths and all(map(os.path.exists, paths))]
        if not existing:
            absent = [
                path for path in dict.fromkeys(sum(candidates, [])) if not os.path.exists(path)
            ]
            raise DataError(
                f"the data of {folder} is gone: got data.{name}={','.join(given)!r}, and there is "
                f"no {' and no '.join(absent)}; expected the file that the run was trained on; "
                "try --data FILE with other data in the same format."
            )
        for path in existing[0]:
            if special_kind(path) not in (None, "a folder"):
                raise DataError(
                    f"{path}: got {special_kind(path)} as data.{name} of {folder}; expected a "
                    "file; try --data FILE with other data in the same format."
                )
        found[name] = ",".join(existing[0])
    if not found:
        return recipe
    return recipe.with_values(data=recipe.data.model_dump(exclude_unset=True) | found)


def check_foreign_sources(recipe: Recipe, folder: Path) -> None:
    """Raise a DataError if a run of another machine reads an address or runs an environment."""
    values: dict[str, Any] = recipe.data.model_dump()
    world = values.get("world")
    if isinstance(world, str) and ":" in world:
        raise DataError(
            f"{folder} was not made on this machine, and its environment {world!r:.200} is code of "
            "a module, which is therefore not run; expected an environment of Gymnasium; if you "
            "trust it, try --data with the same value."
        )
    for name in PATH_SETTINGS:
        value = values.get(name)
        if isinstance(value, str) and ("://" in value or value == STANDARD_INPUT):
            raise DataError(
                f"{folder} was not made on this machine, and its data.{name} is {value!r:.200}, "
                "which is therefore not read; expected a file in its folder; if you trust it, try "
                "--data with the same value."
            )


def is_outside(recipe: Recipe, folder: Path) -> bool:
    """Return True if a located recipe reads files that are not in the run folder."""
    root = folder.resolve()
    values: dict[str, Any] = recipe.data.model_dump()
    given = [values.get(name) for name in PATH_SETTINGS]
    parts = [part for value in given if isinstance(value, str) for part in value.split(",")]
    return any(root not in Path(part).resolve().parents for part in parts)


def _given_paths(recipe: Recipe) -> dict[str, list[str]]:
    """Return the data settings that are plain paths of files; two files have a comma between."""
    values: dict[str, Any] = recipe.data.model_dump()
    given = {name: values.get(name) for name in PATH_SETTINGS}
    return {
        name: [value] if os.path.exists(value) else value.split(",")
        for name, value in given.items()
        if isinstance(value, str) and is_plain_path(value)
    }


def is_plain_path(text: str) -> bool:
    """Return True if a text names files: not standard input, an address, a pattern or a table."""
    return text != STANDARD_INPUT and "://" not in text and not set(text) & set("*?[#")
