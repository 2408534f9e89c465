"""A run's folder, as far as it can be read without torch: its settings, and the weights' seal."""

import json
import tomllib
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from saccade import __version__
from saccade.errors import RunError
from saccade.io.atomic import CHECKSUM_KEY, corrupt_file_error, read_checksummed_text
from saccade.io.run_upgrade import upgrade_recipe

RUN_FORMAT = 3  # of the folder; a run of a higher one was made by a newer version
RUN_FILES = ("run.toml", "tokenizer.json", "model.safetensors", "metrics.jsonl", "checks.json")
RUN_FOLDERS = ("checkpoint", "exports", "report", "tokens")


def read_run_settings(folder: Path) -> dict[str, Any]:
    """What run.toml holds, as plain values."""
    if not (folder / "run.toml").exists():
        raise RunError(f"{folder} is not a run: there is no run.toml in it.{_runs_near(folder)}")
    values = tomllib.loads(read_checksummed_text(folder / "run.toml"))
    if values["format"] > RUN_FORMAT:
        raise RunError(
            f"{folder} is in format {values['format']}, written by saccade "
            f"{values['made']['saccade']}; this is saccade {__version__}, which reads formats up "
            f"to {RUN_FORMAT}. Install a newer saccade."
        )
    if values["format"] < 3:
        values["recipe"] = upgrade_recipe(values["recipe"])
    return values


def _runs_near(folder: Path) -> str:
    beside = sorted(path.parent for path in folder.parent.glob("*/run.toml"))
    return f" Beside it are: {', '.join(map(str, beside[:5]))}." if beside else ""


def weights_checksum(folder: Path) -> str:
    """The seal that the weights were written with, without reading them: other weights, another."""
    path = folder / "model.safetensors"
    if not path.exists():
        raise RunError(f"{path} is missing. Is {folder} a finished run?")
    try:
        with safe_open(path, framework="numpy") as file:
            notes = file.metadata() or {}
        if "sealed" in notes:  # in format 1 it stood by itself
            notes = json.loads(notes["sealed"])
        return str(notes[CHECKSUM_KEY])
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise corrupt_file_error(
            path, f"it is cut short or is not the file that was written ({error})"
        ) from None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file; a last one that was cut short is left out."""
    lines = []
    if path.exists():
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and "step" in line:
                lines.append(line)
    return lines
