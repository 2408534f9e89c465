"""Layout of a run folder, its settings and the checksum of its weights. Does not import torch."""

from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired

from pydantic import Field
from safetensors import SafetensorError
from typing_extensions import TypedDict

from saccade import __version__
from saccade.errors import RunError
from saccade.io.atomic import (
    CHECKSUM_KEY,
    HEADER_KEY,
    corrupt_file_error,
    read_checksummed_text,
)
from saccade.io.documents import parse_json, parse_structure, parse_toml
from saccade.io.file_kinds import check_regular_file
from saccade.io.run_upgrade import upgrade_recipe
from saccade.io.tensor_header import read_tensor_header
from saccade.types.limits import MAX_SEED, MAX_THREADS

RUN_FORMAT = 3  # version of the folder layout; a higher one comes from a newer saccade
RUN_FILES = (
    "run.toml",
    "tokenizer.json",
    "model.safetensors",
    "metrics.jsonl",
    "checks.json",
    "scores.json",
)
RUN_FOLDERS = ("checkpoint", "exports", "images", "index", "report", "tensorboard", "tokens")


# [made] of run.toml; the functional form, since "from" is a keyword
RunMetadata = TypedDict(
    "RunMetadata",
    {
        "threads": Annotated[int, Field(ge=1, le=MAX_THREADS)],
        "data": str,
        "saccade": NotRequired[str],
        "torch": NotRequired[str],
        "python": NotRequired[str],
        "paths": NotRequired[dict[str, dict[str, list[str]]]],
        "parameters": NotRequired[int],
        "from": NotRequired[str],
        "before": NotRequired[dict[str, float]],
        "resumed_with": NotRequired[list[str]],
        "pruned_from": NotRequired[str],
    },
)


def read_run_settings(folder: Path) -> dict[str, Any]:
    """Return the contents of run.toml as plain values, upgraded to the current format."""
    if not (folder / "run.toml").exists():
        raise RunError(f"{folder} is not a run: there is no run.toml in it.{_runs_near(folder)}")
    path = folder / "run.toml"
    try:
        values = parse_toml(read_checksummed_text(path))
    except ValueError as error:
        raise corrupt_file_error(path, f"it is not TOML ({error})") from None
    if type(values.get("format")) is not int:
        raise corrupt_file_error(path, "it has no format")
    if values["format"] > RUN_FORMAT:
        made = values.get("made")
        writer = made.get("saccade", "(unknown)") if isinstance(made, dict) else "(unknown)"
        raise RunError(
            f"{folder} is in format {values['format']}, written by saccade {writer}; this is "
            f"saccade {__version__}, which reads formats up to {RUN_FORMAT}. Install a newer "
            "saccade."
        )
    try:
        parse_structure(RunMetadata, values.get("made"))
    except ValueError as error:
        raise corrupt_file_error(path, f"its [made] has another structure ({error})") from None
    if not isinstance(values.get("recipe"), dict):  # a newer format may have none
        raise corrupt_file_error(path, "it has no recipe")
    if values["format"] < 3:
        try:
            values["recipe"] = upgrade_recipe(values["recipe"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise corrupt_file_error(
                path, f"its settings have another structure ({error})"
            ) from None
    return values


def _runs_near(folder: Path) -> str:
    runs = sorted(path.parent for path in folder.parent.glob("*/run.toml"))
    return f" Runs in {folder.parent}: {', '.join(map(str, runs[:5]))}." if runs else ""


class WeightsMetadata(TypedDict, total=False):
    """Metadata of a file of weights."""

    step: int
    goodness: float
    ended: str


class WeightsInfo(NamedTuple):
    """The header of a file of weights."""

    checksum: str
    metadata: dict[str, Any]  # step of the best weights, stop reason
    values: int  # number of stored values; a weight that is stored under two names counts twice


def weights_checksum(folder: Path) -> str:
    """Return the checksum stored with the weights, without reading the weights."""
    return read_weights_info(folder).checksum


def read_weights_info(folder: Path) -> WeightsInfo:
    """Return the header of a run's weights, without reading the weights."""
    path = folder / "model.safetensors"
    if not path.exists():
        raise RunError(f"{path} is missing. Is {folder} a finished run?")
    check_regular_file(path, RunError)
    try:
        tensors, header = read_tensor_header(path)
        if HEADER_KEY in header:  # format 1 stored the two as entries of their own
            header = parse_json(header[HEADER_KEY])
        metadata = parse_structure(WeightsMetadata, parse_json(header["facts"]))
        return WeightsInfo(
            str(header[CHECKSUM_KEY]),
            metadata,
            sum(prod(tensor.shape) for tensor in tensors.values()),
        )
    except (SafetensorError, KeyError, ValueError, OSError, TypeError) as error:
        raise corrupt_file_error(
            path, f"it is truncated or is not the file that was written ({error})"
        ) from None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the records of a metrics file; an incomplete last line is skipped."""
    lines = []
    if path.exists() and not path.is_file():  # a folder, or a device without an end
        raise RunError(f"{path} is not a file; remove it, and the run works without its log.")
    if path.exists():
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = parse_json(text)
            except ValueError:
                continue
            if isinstance(line, dict) and _is_record(line):
                lines.append(line)
    return lines


def _is_record(line: dict[str, Any]) -> bool:
    """Return True for a line with a step whose values are numbers, flags, texts or missing."""
    return type(line.get("step")) is int and all(map(_is_plain, line.values()))


def _is_plain(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) <= MAX_SEED
    return value is None or isinstance(value, str | float)
