"""`ModelChoice`: a settings field that accepts the config of any model of a registry."""

from typing import Annotated, Literal

import pytest
from pydantic import Field
from torch import nn

from saccade.config import Config, build_config, flatten, override_settings, to_toml
from saccade.errors import ConfigError
from saccade.models import (
    FORECASTING_MODELS,
    LANGUAGE_MODELS,
    TABULAR_MODELS,
    TRANSLATION_MODELS,
    BahdanauConfig,
    LanguageModelConfig,
    ModelChoice,
    ModelEntry,
    TransformerConfig,
    TranslatorConfig,
)


class NetConfig(Config):
    name: str
    width: int = Field(8, ge=1)


class ShallowConfig(NetConfig):
    name: Literal["shallow"] = "shallow"


class DeepConfig(NetConfig):
    name: Literal["deep", "deeper"] = "deep"
    depth: int = 3


class Net(nn.Module):
    pass


REGISTRY = {
    "shallow": ModelEntry(ShallowConfig, Net),
    "deep": ModelEntry(DeepConfig, Net),
    "deeper": ModelEntry(DeepConfig, Net),
}


class ToyRecipe(Config):
    model: Annotated[NetConfig, ModelChoice(REGISTRY)] = ShallowConfig()
    steps: int = 10


def test_choice_selects_the_config_class_by_name() -> None:
    assert ToyRecipe().model == ShallowConfig()
    assert build_config(ToyRecipe, {"model": {"name": "deeper", "depth": 2}}).model == DeepConfig(
        name="deeper", depth=2
    )
    assert ToyRecipe(model=DeepConfig(width=4)).model.width == 4


def test_choice_refuses_an_unknown_name_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"model.name is 'deeq': expected one of deep, .*mean 'd"):
        build_config(ToyRecipe, {"model": {"name": "deeq"}})


def test_choice_refuses_an_unknown_setting_with_those_of_the_config() -> None:
    with pytest.raises(ConfigError, match=r"no setting 'widht'. Did you mean 'width'\?"):
        build_config(ToyRecipe, {"model": {"name": "shallow", "widht": 3}})
    with pytest.raises(ConfigError, match="depth"):
        build_config(ToyRecipe, {"model": {"name": "shallow", "depth": 3}})


def test_choice_refuses_an_invalid_value_with_its_path() -> None:
    with pytest.raises(ConfigError, match="model.width is 0: expected a value of at least 1"):
        build_config(ToyRecipe, {"model": {"name": "deep", "width": 0}})


@pytest.mark.parametrize("model", [ShallowConfig(), DeepConfig(name="deeper", width=3, depth=9)])
def test_choice_dumps_and_reloads(model: NetConfig) -> None:
    import tomllib

    recipe = ToyRecipe(model=model)
    assert ToyRecipe.model_validate(recipe.model_dump()) == recipe
    assert ToyRecipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert build_config(ToyRecipe, tomllib.loads(to_toml(recipe))) == recipe
    assert recipe.with_values(steps=3).model == model


def test_choice_works_with_dotted_paths() -> None:
    recipe = ToyRecipe(model=DeepConfig())
    assert override_settings(recipe, {"model.depth": "5"}).model == DeepConfig(depth=5)
    assert flatten(recipe) == {
        "model.name": "deep",
        "model.width": 8,
        "model.depth": 3,
        "steps": 10,
    }
    with pytest.raises(ConfigError, match="Did you mean 'model.depth'"):
        override_settings(recipe, {"model.dept": 5})


def test_choice_needs_configs_of_the_annotated_class() -> None:
    with pytest.raises(TypeError, match="got ShallowConfig .* of type TranslatorConfig"):

        class Wrong(Config):
            model: Annotated[TranslatorConfig, ModelChoice(REGISTRY)]

    with pytest.raises(TypeError, match="empty registry"):

        class Empty(Config):
            model: Annotated[NetConfig, ModelChoice({})]


def test_choice_accepts_the_registries_of_the_library() -> None:
    class Recipe(Config):
        translator: Annotated[TranslatorConfig, ModelChoice(TRANSLATION_MODELS)] = BahdanauConfig()
        language: Annotated[LanguageModelConfig, ModelChoice(LANGUAGE_MODELS)]
        forecaster: Annotated[Config, ModelChoice(FORECASTING_MODELS)]
        table: Annotated[Config, ModelChoice(TABULAR_MODELS)]

    values = {
        "language": {"name": "gpt3", "width": 16},
        "forecaster": {"name": "recurrent"},
        "table": {"name": "mlp", "hidden": "4,2"},
    }
    recipe = build_config(Recipe, values)
    assert recipe.language.name == "gpt3"
    changed = recipe.with_values(translator={"name": "transformer", "heads": 2})
    assert changed.translator == TransformerConfig(heads=2)
    assert Recipe.model_validate(changed.model_dump()) == changed
