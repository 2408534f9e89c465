"""Recipes for published sets, and data that is named on the command line."""

from pathlib import Path

import pytest

from saccade.config import flatten
from saccade.data.datasets import DATASETS
from saccade.errors import ConfigError
from saccade.models.registry import TRANSLATION_MODELS
from saccade.recipes.resolve import RECIPES, resolve_recipe

MULTI30K = [name for name in RECIPES if name.startswith("multi30k-")]


def test_multi30k_recipe_for_each_model() -> None:
    names = ("bahdanau", "luong", "seq2seq", "transformer")
    assert MULTI30K == [f"multi30k-{name}" for name in names]
    for name in MULTI30K:
        assert resolve_recipe(name).recipe.model.name == name.removeprefix("multi30k-")


def test_multi30k_recipes_share_data() -> None:
    recipes = [resolve_recipe(name).recipe for name in MULTI30K]
    assert len({recipe.data.model_dump_json() for recipe in recipes}) == 1
    data = recipes[0].data
    assert (data.dataset, data.direction) == ("multi30k", "en-de")
    assert (data.tokenizer.kind, data.tokenizer.size) == ("bpe", 8000)
    assert all(resolve_recipe(name).recipe.data.tokenizer.shared for name in [*MULTI30K, "fra-eng"])


def test_multi30k_transformer_is_tiny() -> None:
    model, train = (
        resolve_recipe("multi30k-transformer").recipe.model,
        resolve_recipe("multi30k-transformer").recipe.train,
    )
    assert (model.depth, model.width, model.hidden, model.heads) == (4, 128, 256, 4)
    assert (model.dropout, train.label_smoothing, model.norm_first) == (0.3, 0.1, True)
    assert train.steps * train.batch_tokens < 8000 * 2 * 4096  # of the paper, on two devices


@pytest.mark.parametrize("name", [*MULTI30K, "fra-eng"])
@pytest.mark.parametrize("model", TRANSLATION_MODELS)
def test_recipe_with_another_model(name: str, model: str) -> None:
    assert resolve_recipe(name, model=model).recipe.model.name == model


@pytest.mark.parametrize("name", [*MULTI30K, "fra-eng"])
def test_recipe_direction_setting(name: str) -> None:
    recipe = resolve_recipe(name).recipe
    dataset = DATASETS[recipe.data.dataset]
    assert recipe.data.direction == "-".join(dataset.languages)
    back = "-".join(dataset.languages[::-1])
    turned = resolve_recipe(name, changes={"data.direction": back}).recipe
    assert flatten(turned) == {**flatten(recipe), "data.direction": back}


# --- data that is named -------------------------------------------------------------------------


def sources(what: str, data: str, **changes: str) -> tuple[str | None, ...]:
    settings = {f"data.{name}": value for name, value in changes.items()}
    found = resolve_recipe(what, data=data, changes=settings).recipe.data
    return found.synthetic, found.dataset, found.path, found.direction


def test_resolve_dataset_by_name() -> None:
    assert sources("translate", "multi30k") == (None, "multi30k", None, None)
    assert sources("translate", "fra-eng", direction="fr-en") == (None, "fra-eng", None, "fr-en")
    assert sources("dates", "multi30k") == (None, "multi30k", None, None)
    assert resolve_recipe("dates", data="multi30k").recipe.data.size is None


def test_resolve_other_data_replaces_dataset(tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("a\tb\n")
    assert sources("multi30k-luong", str(file)) == (None, None, str(file), None)
    assert sources("multi30k-luong", "reverse") == ("reverse", None, None, None)
    assert sources("multi30k-luong", "fra-eng") == (None, "fra-eng", None, None)
    assert sources("multi30k-luong", "multi30k") == (None, "multi30k", None, "en-de")


def test_resolve_prefers_existing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("multi30k").write_text("a\tb\n")
    assert sources("translate", "multi30k") == (None, None, "multi30k", None)


def test_language_refuses_pair_datasets() -> None:
    found = resolve_recipe("language", data="multi30k").recipe.data
    assert (found.synthetic, found.path) == (
        None,
        "multi30k",
    )  # which is no file, as training will report


def test_translate_needs_data() -> None:
    with pytest.raises(ConfigError, match="translate needs data: --data pairs.tsv"):
        resolve_recipe("translate")
