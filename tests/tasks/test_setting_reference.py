"""The settings reference: complete, as the settings classes have it, and found by other names."""

from collections.abc import Iterator
from typing import Any

import pytest

from saccade.config import flatten, override_setting
from saccade.errors import ConfigError
from saccade.registry import SETTING_SYNONYMS
from saccade.tasks.registry import TASKS
from saccade.tasks.setting_reference import (
    Setting,
    default_recipe,
    find_settings,
    recipe_settings,
    setting_named,
)

MODELS = [(task, model) for task in TASKS for model in sorted(TASKS[task].models)]


def settings_of(task: str, model: str) -> list[Setting]:
    return recipe_settings(default_recipe(task, model))


@pytest.mark.parametrize(("task", "model"), MODELS)
def test_every_setting_has_a_description_and_a_type(task: str, model: str) -> None:
    recipe = default_recipe(task, model)
    found = {setting.path: setting for setting in recipe_settings(recipe)}
    assert found.keys() == flatten(recipe).keys() - {"task"}
    for setting in found.values():
        assert len(setting.description) > 8 and setting.description.endswith("."), setting
        assert setting.type and "typing" not in setting.type and "<" not in setting.type


def typed(default: Any) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


@pytest.mark.parametrize(("task", "model"), MODELS)
def test_default_can_be_typed_back(task: str, model: str) -> None:
    recipe = default_recipe(task, model)
    flat = flatten(recipe)
    for setting in recipe_settings(recipe):
        if setting.type != "table" and setting.default not in ("", {}):
            changed = override_setting(recipe, setting.path, typed(setting.default))
            assert flatten(changed)[setting.path] == flat[setting.path], setting


def outside(setting: Setting) -> Iterator[str]:
    """Yield values just outside the limits."""
    for limit in filter(None, setting.limits.split(", ")):
        sign, number = limit.split()
        at = int(number) if number.lstrip("-").isdecimal() else float(number)
        yield repr({">": at, "<": at, "≥": at - 1, "≤": at + 1}[sign])


def test_limits_are_those_that_are_enforced() -> None:
    checked = 0
    for task, model in MODELS:
        recipe = default_recipe(task, model)
        for setting in recipe_settings(recipe):
            for value in outside(setting):
                with pytest.raises(ConfigError, match=rf"{setting.path} is "):
                    override_setting(recipe, setting.path, value)
                checked += 1
    assert checked > 100


def test_choices_are_those_that_are_accepted() -> None:
    recipe = default_recipe("translate", "transformer")
    settings = {setting.path: setting for setting in recipe_settings(recipe)}
    for path in ("model.positions", "train.optimizer", "train.schedule", "data.tokenizer.kind"):
        assert len(settings[path].choices) > 2
        for choice in settings[path].choices:
            assert flatten(override_setting(recipe, path, choice))[path] == choice
        with pytest.raises(ConfigError, match="Did you mean"):
            override_setting(recipe, path, settings[path].choices[0] + "x")


@pytest.mark.parametrize(
    ("task", "model", "word", "path"),
    [
        ("translate", "bahdanau", "lr", "train.learning_rate"),
        ("translate", "bahdanau", "epochs", "train.steps"),
        ("vectors", "skipgram", "lr", "model.learning_rate"),
        ("vectors", "skipgram", "epochs", "model.epochs"),
        ("translate", "bahdanau", "batch-size", "train.batch_tokens"),
        ("translate", "transformer", "num_layers", "model.depth"),
        ("translate", "transformer", "vocab_size", "data.tokenizer.size"),
        ("table", "mlp", "hidden_size", "model.hidden"),
        ("language", "gru", "seed", "train.seed"),
    ],
)
def test_setting_is_found_by_the_name_of_other_tools(
    task: str, model: str, word: str, path: str
) -> None:
    settings = settings_of(task, model)
    named = setting_named(settings, word)
    assert named is not None and named.path == path
    assert find_settings(settings, word)[0].path == path


def test_setting_is_found_by_a_word_of_its_description() -> None:
    settings = settings_of("translate", "bahdanau")
    assert "train.accumulate_steps" in [s.path for s in find_settings(settings, "accumulated")]
    assert find_settings(settings, "zzz") == [] and setting_named(settings, "zzz") is None


def test_synonyms_name_settings_that_exist() -> None:
    names = {setting.name for task, model in MODELS for setting in settings_of(task, model)}
    assert {name for meant in SETTING_SYNONYMS.values() for name in meant} <= names


def test_unknown_setting_is_answered_with_the_one_that_was_meant() -> None:
    recipe = default_recipe("translate", "transformer")
    for path, meant in {
        "train.lr": "train.learning_rate",
        "train.width": "model.width",
        "model.num_layers": "model.depth",
        "train.learning_rat": "train.learning_rate",
    }.items():
        with pytest.raises(ConfigError, match=rf"Did you mean '{meant}'\?") as caught:
            override_setting(recipe, path, "3")
        assert "saccade settings translate lists all" in str(caught.value)
    with pytest.raises(ConfigError, match="no setting 'data.zzz'. There are: data.") as caught:
        override_setting(recipe, "data.zzz", "3")
    assert "model.width" not in str(caught.value)
