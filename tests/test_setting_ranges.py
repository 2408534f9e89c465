"""Every number among the settings has a finite range, and extreme values are refused in words."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from saccade.config import Config, flatten, override_settings
from saccade.decoding.config import GenerationConfig
from saccade.errors import ConfigError
from saccade.io import memory
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.registry import TASKS
from saccade.tasks.setting_reference import default_recipe

EXTREMES = [
    10**30,
    -(10**30),
    "9" * 5000,
    "-" + "9" * 5000,
    "1e308",
    "-1e308",
    "1e400",
    "nan",
    "inf",
    "-inf",
    math.nan,
    math.inf,
    "[" * 5000,
    "0x" + "f" * 5000,
    "",
    "\0",
    None,
    {},
    [[]],
]


def configs() -> Iterator[tuple[str, Config]]:
    """Yield the settings of every model of every task, and those of a search."""
    for task, spec in TASKS.items():
        for name in spec.models:
            yield f"{task}-{name}", default_recipe(task, name)
    yield "search", GenerationConfig()


CONFIGS = dict(configs())


def numbers(annotation: Any) -> list[Any]:
    """Return the numeric types of an annotation, with their limits."""
    if annotation in (int, float):
        return [annotation]
    if get_origin(annotation) is Annotated:
        return [annotation] if get_args(annotation)[0] in (int, float) else []
    if str in get_args(annotation):  # a name or a number: a column
        return []
    return [found for part in get_args(annotation) for found in numbers(part)]


def is_bounded(field: FieldInfo) -> bool:
    """Return True if a setting has no number, or one with a smallest and a largest value."""
    found = numbers(field.annotation)
    metadata = [*field.metadata]
    for annotation in found:
        for part in getattr(annotation, "__metadata__", ()):
            metadata += part.metadata if isinstance(part, FieldInfo) else [part]
    has_list = get_origin(field.annotation) in (tuple, list, dict)
    is_low = has_list or any(isinstance(part, Ge | Gt) for part in metadata)
    return not found or (is_low and any(isinstance(part, Le | Lt) for part in metadata))


def field_of(config: Config, path: str) -> FieldInfo:
    *parents, name = path.split(".")
    for parent in parents:
        config = getattr(config, parent)
    return type(config).model_fields[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_number_has_a_finite_range(name: str) -> None:
    config = CONFIGS[name]
    open_ended = [path for path in flatten(config) if not is_bounded(field_of(config, path))]
    assert not open_ended


@pytest.mark.parametrize("name", CONFIGS)
def test_extreme_values_are_refused_in_words(name: str) -> None:
    """A value is taken, and is then finite, or a short ConfigError names the setting."""
    config = CONFIGS[name]
    for path in flatten(config):
        for value in EXTREMES:
            try:
                changed = flatten(override_settings(config, {path: value}))
            except ConfigError as error:
                assert len(str(error)) < 5000
                assert path.rpartition(".")[2] in str(error) or path.rpartition(".")[0] in str(
                    error
                )
            else:
                found = changed[path]
                assert not isinstance(found, float) or math.isfinite(found)


def test_model_larger_than_memory_is_refused_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.io.memory.available_memory", lambda: 200_000_000)
    monkeypatch.setattr("saccade.runs.memory.available_memory", lambda: 200_000_000)
    recipe = resolve_recipe("reverse").recipe
    recipe = override_settings(recipe, {"model.width": 32768, "train.steps": 1})
    message = (
        r"model\.width=32768.*needs about \d.* [GT]B.*the 200 MB.*try --set model\.width=\d+\."
    )
    with pytest.raises(ConfigError, match=message):
        train_recipe(recipe, tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_advised_width_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.io.memory.available_memory", lambda: 200_000_000)
    monkeypatch.setattr("saccade.runs.memory.available_memory", lambda: 200_000_000)
    recipe = override_settings(resolve_recipe("reverse").recipe, {"train.steps": 1})
    with pytest.raises(ConfigError) as refused:
        train_recipe(
            override_settings(recipe, {"model.width": 65536}), tmp_path / "run", TrainOptions()
        )
    width = int(str(refused.value).rpartition("model.width=")[2].rstrip("."))
    assert 65536 > width >= 256  # not far below what fits: 5 copies of about 30 width² weights


def test_memory_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller one of the machine's memory and the container's limit counts."""
    for name, text in {
        "MEMINFO": "MemTotal: 9000 kB\nMemAvailable:   5000 kB\n",
        "CGROUP_LIMIT": "4096000\n",
        "CGROUP_USED": "96000\n",
    }.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(memory, name, tmp_path / name)
    assert memory.available_memory() == 4_000_000
    (tmp_path / "CGROUP_LIMIT").write_text("max\n")
    assert memory.available_memory() == 5_120_000
    (tmp_path / "MEMINFO").write_text("")
    assert memory.available_memory() is None
