"""Recipes for published sets, and data that is named on the command line."""

from pathlib import Path

import pytest

from saccade.config import flatten
from saccade.data.datasets import DATASETS
from saccade.errors import ConfigError
from saccade.models import ENCODER_DECODERS
from saccade.recipes.resolve import RECIPES, resolve_recipe

MULTI30K = [name for name in RECIPES if name.startswith("multi30k-")]


def test_there_is_one_for_each_kind_of_translator() -> None:
    names = ("bahdanau", "luong", "seq2seq", "transformer")
    assert MULTI30K == [f"multi30k-{name}" for name in names]
    for name in MULTI30K:
        assert resolve_recipe(name).recipe.model.name == name.removeprefix("multi30k-")


def test_all_of_them_have_one_corpus_and_one_joint_vocabulary() -> None:
    recipes = [resolve_recipe(name).recipe for name in MULTI30K]
    assert len({recipe.data.model_dump_json() for recipe in recipes}) == 1
    data = recipes[0].data
    assert (data.dataset, data.direction) == ("multi30k", "en-de")
    assert (data.tokenizer.kind, data.tokenizer.size) == ("bpe", 8000)
    assert all(resolve_recipe(name).recipe.data.tokenizer.shared for name in [*MULTI30K, "fra-eng"])


def test_the_transformer_is_the_published_tiny_one() -> None:
    model, train = (
        resolve_recipe("multi30k-transformer").recipe.model,
        resolve_recipe("multi30k-transformer").recipe.train,
    )
    assert (model.depth, model.width, model.hidden, model.heads) == (4, 128, 256, 4)
    assert (model.dropout, train.label_smoothing, train.batch_tokens) == (0.3, 0.1, 4096)
    assert train.steps == 8000


@pytest.mark.parametrize("name", [*MULTI30K, "fra-eng"])
@pytest.mark.parametrize("model", ENCODER_DECODERS)
def test_another_model_can_be_asked_for(name: str, model: str) -> None:
    assert resolve_recipe(name, model=model).recipe.model.name == model


@pytest.mark.parametrize("name", [*MULTI30K, "fra-eng"])
def test_the_other_direction_is_one_setting_away(name: str) -> None:
    recipe = resolve_recipe(name).recipe
    dataset = DATASETS[recipe.data.dataset]
    assert recipe.data.direction == "-".join(dataset.languages)
    back = "-".join(dataset.languages[::-1])
    turned = resolve_recipe(name, changes={"data.direction": back}).recipe
    assert flatten(turned) == {**flatten(recipe), "data.direction": back}


# --- data that is named -------------------------------------------------------------------------


def places(what: str, data: str, **changes: str) -> tuple[str | None, ...]:
    settings = {f"data.{name}": value for name, value in changes.items()}
    found = resolve_recipe(what, data=data, changes=settings).recipe.data
    return found.synthetic, found.dataset, found.path, found.direction


def test_a_published_set_goes_where_a_file_goes() -> None:
    assert places("translate", "multi30k") == (None, "multi30k", None, None)
    assert places("translate", "fra-eng", direction="fr-en") == (None, "fra-eng", None, "fr-en")
    assert places("dates", "multi30k") == (None, "multi30k", None, None)
    assert resolve_recipe("dates", data="multi30k").recipe.data.size is None


def test_other_data_takes_the_place_of_the_published(tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("a\tb\n")
    assert places("multi30k-luong", str(file)) == (None, None, str(file), None)
    assert places("multi30k-luong", "reverse") == ("reverse", None, None, None)
    assert places("multi30k-luong", "fra-eng") == (None, "fra-eng", None, None)
    assert places("multi30k-luong", "multi30k") == (None, "multi30k", None, "en-de")


def test_a_file_that_is_called_like_a_set_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("multi30k").write_text("a\tb\n")
    assert places("translate", "multi30k") == (None, None, "multi30k", None)


def test_a_set_of_pairs_is_no_text_for_a_language_model() -> None:
    found = resolve_recipe("language", data="multi30k").recipe.data
    assert (found.synthetic, found.path) == (
        None,
        "multi30k",
    )  # which is no file, as training will say


def test_translate_still_asks_for_data() -> None:
    with pytest.raises(ConfigError, match="translate needs data: --data pairs.tsv"):
        resolve_recipe("translate")
