"""Folders of exports: written whole, with a checksum of each file; an older export is replaced."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from saccade import __version__
from saccade.errors import RunError
from saccade.io.atomic import write_checksummed_json
from saccade.io.file_kinds import format_path
from saccade.io.staging import check_output_folder, replace_folder, staging_folder

EXPORT_FORMAT = 1
EXPORT_INFO_FILE = "saccade.json"  # next to the files of the other tool
PARITY_FILE = "parity.json"  # comparison with the predictions of the run


def check_export_folder(folder: Path, names: frozenset[str]) -> Path:
    """Return the absolute path of a folder that is new, empty or a previous export.

    Args:
        folder: the folder.
        names: the files that an export may have; with others, nothing is replaced.
    """
    found = check_output_folder(folder)
    inside = {path.name for path in found.iterdir()} if found.exists() else set()
    own = names | {EXPORT_INFO_FILE, PARITY_FILE} if EXPORT_INFO_FILE in inside else frozenset()
    if foreign := sorted(inside - own):
        listed = ", ".join(foreign[:3])
        raise RunError(
            f"{format_path(folder)} holds files that are not an export ({listed}); expected an "
            "empty or a new folder; try another one (--out)."
        )
    return found


def write_export(
    folder: Path,
    names: frozenset[str],
    write: Callable[[Path], None],
    info: Mapping[str, Any] | None = None,
) -> None:
    """Write an export into a folder that is new, empty or a previous export.

    Args:
        folder: the output folder.
        names: the files that an export may have.
        write: writes the files into the folder that it is given.
        info: what is stored about the export, next to the checksums of its files.
    """
    target = check_export_folder(folder, names)
    with staging_folder(target) as staging:
        staging.mkdir(parents=True)
        write(staging)
        files = {path.name: sha256(path.read_bytes()).hexdigest() for path in staging.iterdir()}
        values = {"format": EXPORT_FORMAT, "saccade": __version__, **(info or {}), "files": files}
        write_checksummed_json(staging / EXPORT_INFO_FILE, values)
        replace_folder(staging, target)
