"""`saccade list` is generated from the registries."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade import metrics
from saccade.cli.list import GROUPS, catalogue
from saccade.data.datasets import DATASETS
from saccade.inference.engine import DECODER_ENGINES
from saccade.interop.registry import ENGINES, EXPORTS, IMPORTS
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.attention_scores import ATTENTION_SCORES
from saccade.nn.init import INITS
from saccade.nn.norm import NORMS
from saccade.nn.rnn_cells import CELLS
from saccade.optim import OPTIMIZERS, SCHEDULES
from saccade.recipes.resolve import RECIPES
from saccade.tasks.registry import TASKS

Command = Callable[..., Any]
REGISTRIES = {
    "tasks": set(TASKS),
    "models": {name for spec in TASKS.values() for name in spec.models},
    "recipes": set(RECIPES),
    "data": {name for spec in TASKS.values() for name in spec.synthetic} | set(DATASETS),
    "optimizers": set(OPTIMIZERS),
    "schedules": set(SCHEDULES),
    "activations": set(ACTIVATIONS),
    "inits": set(INITS),
    "scores": set(ATTENTION_SCORES),
    "norms": set(NORMS),
    "cells": set(CELLS),
    "metrics": {name for name in metrics.__all__ if name[0].islower()},
    "exports": set(EXPORTS),
    "imports": set(IMPORTS),
    "engines": set(ENGINES) | set(DECODER_ENGINES),
}


@pytest.mark.parametrize("group", GROUPS)
def test_list_has_every_registry_name_with_a_description(group: str) -> None:
    entries = catalogue([group])
    assert {entry.name for entry in entries} == REGISTRIES[group]
    assert all(entry.description for entry in entries)


def test_list_has_the_models_of_every_task() -> None:
    for task, spec in TASKS.items():
        listed = {entry.name for entry in catalogue(["models"]) if entry.task == task}
        assert listed == set(spec.models)


def test_list_prints_every_entry_as_a_table_and_as_json(saccade: Command) -> None:
    entries = json.loads(saccade("list", "--json").out)
    assert len(entries) == len(catalogue())
    table = saccade("list").out
    assert all(entry["name"] in table for entry in entries)


def test_list_of_one_group(saccade: Command) -> None:
    entries = json.loads(saccade("list", "optimizers", "--json").out)
    assert {entry["group"] for entry in entries} == {"optimizers"}
    result = saccade("list", "optimisers")
    assert result.code == 2 and "no group 'optimisers'. Did you mean 'optimizers'?" in result.err


def test_list_stars_datasets_to_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saccade: Command
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    (tmp_path / "fra-eng").mkdir()
    (tmp_path / "fra-eng" / "fra.txt").touch()
    table = "".join(saccade("list", group).out for group in ("recipes", "data"))
    starred = {line.split()[0] for line in table.splitlines() if line.rstrip().endswith(" *")}
    multi30k = {name for name in RECIPES if name.startswith("multi30k-")}
    missing = set(DATASETS) - {"fra-eng"}
    assert starred == multi30k | missing
    assert "* not on this machine: downloaded when needed" in table
    entries = json.loads(saccade("list", "--json").out)
    assert {entry["name"] for entry in entries if not entry["is_local"]} == starred


def test_list_has_no_stars_if_all_datasets_are_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saccade: Command
) -> None:
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    for name, dataset in DATASETS.items():
        (tmp_path / name).mkdir()
        for file in dataset.files:
            (tmp_path / name / f"{file.name}.xz").touch()
    assert "*" not in saccade("list", "data").out
