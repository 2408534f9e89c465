"""Run folders on disk: which files belong to a run, and making room for a new one."""

import shutil
from contextlib import suppress
from pathlib import Path

from saccade.errors import RunError
from saccade.io.atomic import read_checksummed_json
from saccade.io.run_folder import RUN_FILES, RUN_FOLDERS
from saccade.io.staging import check_output_path


def check_folder_is_free(folder: Path, overwrite: bool) -> None:
    """Raise an error unless `folder` can take a new run."""
    check_output_path(folder)
    if folder.is_file():
        raise RunError(f"got {folder}, which is a file; expected a folder for the run (--out).")
    if (folder / "run.toml").exists() and not overwrite:
        raise RunError(
            f"{folder} already holds a run; try --resume {folder} to resume it, --overwrite to "
            "replace it, or another folder (--out)."
        )
    own = run_files(folder) if (folder / "run.toml").exists() else _partial_run_files(folder)
    other = sorted(path.name for path in folder.glob("*") if path not in own)
    if other:
        raise RunError(
            f"{folder} holds other files ({', '.join(other[:3])}); expected an empty or a new "
            "folder; try another one (--out)."
        )


def run_files(folder: Path) -> list[Path]:
    """Return the files of a run, run.toml last: while it is there, the rest belongs to a run."""
    return [*_temp_files(folder), *(folder / name for name in (*RUN_FOLDERS, *reversed(RUN_FILES)))]


def _partial_run_files(folder: Path) -> list[Path]:
    """Return the files of a run that was killed before it wrote its run.toml."""
    try:
        read_checksummed_json(folder / "tokenizer.json")
    except RunError:
        return _temp_files(folder)
    return [*_temp_files(folder), *(folder / name for name in (*RUN_FOLDERS, "tokenizer.json"))]


def _temp_files(folder: Path) -> list[Path]:
    return [path for name in RUN_FILES for path in folder.glob(f".{name}.*.part")]


def remove_run(folder: Path) -> None:
    """Remove the run in a folder, and nothing else."""
    for path in run_files(folder):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove the run in a folder, and the folder if nothing else is in it."""
    remove_run(folder)
    with suppress(OSError):
        folder.rmdir()


def remove_temp_files(folder: Path) -> None:
    """Remove files that a killed session left half written."""
    for path in folder.rglob(".*.part"):
        path.unlink(missing_ok=True)
