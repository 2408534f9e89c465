"""A run folder in facts: settings, provenance, figures, size, state. Does not import torch."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from saccade.config import flatten
from saccade.errors import RunError
from saccade.io.atomic import read_checksummed_json
from saccade.io.run_folder import read_metrics, read_run_settings, read_weights_info
from saccade.tasks.base import Recipe
from saccade.tasks.registry import read_recipe
from saccade.tasks.setting_reference import default_recipe

TEST_SCORES_FILE = "scores.json"  # written by an evaluation on the test split
STATES = {
    "steps": "finished: all steps done",
    "minutes": "finished: time budget used up",
    "patience": "finished: stopped early, no improvement on dev",
    "fitted": "finished: the fit is complete",
}


@dataclass(frozen=True)
class SettingValue:
    """A setting of a run, and its default for the same model."""

    path: str
    value: Any
    default: Any


@dataclass(frozen=True)
class RunSummary:
    """Facts about a run that are in its folder."""

    folder: str
    task: str
    model: str
    state: str
    finished: bool
    settings: list[SettingValue]
    provenance: dict[str, Any]
    dev: dict[str, float]  # metrics of the best weights, with the step
    test: dict[str, float]
    floors: dict[str, dict[str, float]]  # baseline → metrics, on the test split
    parameters: int | None
    files: dict[str, int]  # bytes
    commands: list[str] = field(default_factory=list)

    @property
    def changed_settings(self) -> list[SettingValue]:
        """The settings that differ from their defaults."""
        return [setting for setting in self.settings if setting.value != setting.default]

    @property
    def bytes(self) -> int:
        """Size of the folder."""
        return sum(self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {**asdict(self), "bytes": self.bytes}


def summarise_run(folder: str | Path) -> RunSummary:
    """Read the facts of a run from its folder."""
    folder = Path(folder)
    values = read_run_settings(folder)
    recipe = read_recipe(values["recipe"], str(folder / "run.toml"))
    metadata = values["made"]
    records = read_metrics(folder / "metrics.jsonl")
    weights, checksum, parameters = _weights(folder)
    state, finished = _state(folder, weights, recipe, records)
    scores = _test_scores(folder, checksum)
    return RunSummary(
        folder=str(folder),
        task=recipe.task,
        model=recipe.model_name,
        state=state,
        finished=finished,
        settings=_settings(recipe),
        provenance=_provenance(folder, recipe, values["format"], metadata),
        dev=_best_metrics(records),
        test=scores.get("metrics", {}),
        floors=scores.get("floors", {}),
        parameters=metadata.get("parameters", parameters),
        files=_files(folder),
        commands=_commands(folder, finished, weights is not None),
    )


def _weights(folder: Path) -> tuple[dict[str, Any] | None, str, int | None]:
    """Return metadata, checksum and number of values of the weights; none if there are none yet."""
    if not (folder / "model.safetensors").exists():
        return None, "", None
    info = read_weights_info(folder)
    return info.metadata, info.checksum, info.values


def _state(
    folder: Path, weights: dict[str, Any] | None, recipe: Recipe, records: list[dict[str, Any]]
) -> tuple[str, bool]:
    """Return the state of the training in words, and whether it has finished."""
    ended = (weights or {}).get("ended")
    if ended in STATES:
        return STATES[ended], True
    if weights is not None and not records:
        return "finished: imported from another tool", True
    checkpoints = sorted((folder / "checkpoint").glob("[0-9]*.safetensors"))
    if not checkpoints:
        return "interrupted before the first checkpoint", False
    steps = getattr(recipe.train, "steps", None)
    of = f" of {steps:,}" if steps else ""
    return f"interrupted at step {int(checkpoints[-1].stem):,}{of}", False


def _settings(recipe: Recipe) -> list[SettingValue]:
    defaults = flatten(default_recipe(recipe.task, recipe.model_name))
    return [
        SettingValue(path, value, defaults.get(path))
        for path, value in flatten(recipe).items()
        if path != "task"
    ]


def _provenance(
    folder: Path, recipe: Recipe, run_format: int, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    paths = metadata.get("paths", {}).get("path", {}).get("absolute", [])
    known = {
        "data": recipe.data_name,
        "data path": ", ".join(paths) or None,
        "data fingerprint": metadata.get("data") or None,
        "written": _file_date(folder / "run.toml"),
        "initial weights": metadata.get("from"),
        "saccade": metadata.get("saccade"),
        "torch": metadata.get("torch"),
        "python": metadata.get("python"),
        "threads": metadata.get("threads"),
        "format": run_format,
    }
    return {name: value for name, value in known.items() if value is not None}


def _file_date(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M")


def _best_metrics(records: list[dict[str, Any]]) -> dict[str, float]:
    """Return the dev metrics of the evaluation whose weights were kept."""
    best: dict[str, Any] = next((r for r in reversed(records) if r.get("best") is True), {})
    found = {name.removeprefix("dev_"): v for name, v in best.items() if name.startswith("dev_")}
    return {"step": best["step"], **found} if found else {}


def _test_scores(folder: Path, checksum: str) -> dict[str, Any]:
    """Return the saved scores on the test split, if they are those of these weights."""
    try:
        saved = read_checksummed_json(folder / TEST_SCORES_FILE)
    except RunError:
        return {}
    return saved if saved.get("weights") == checksum else {}


def _files(folder: Path) -> dict[str, int]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}


def _commands(folder: Path, finished: bool, has_weights: bool) -> list[str]:
    where = shlex.quote(str(folder))
    commands = [] if finished else [f"saccade train --resume {where}"]
    if has_weights:
        commands += [
            f"saccade predict {where} …",
            f"saccade evaluate {where}",
            f"saccade check {where}",
            f"saccade finetune {where} --data FILE",
        ]
    return commands
