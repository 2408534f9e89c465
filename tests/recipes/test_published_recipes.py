"""Recipes for published sets, and data that is named on the command line."""

from pathlib import Path

import pytest

from saccade.config import flatten
from saccade.data.sources import PUBLISHED
from saccade.errors import ConfigError
from saccade.models import TRANSLATORS
from saccade.recipes.finding import RECIPES, find

MULTI30K = [name for name in RECIPES if name.startswith("multi30k-")]


def test_there_is_one_for_each_kind_of_translator() -> None:
    names = ("bahdanau", "luong", "seq2seq", "transformer")
    assert MULTI30K == [f"multi30k-{name}" for name in names]
    for name in MULTI30K:
        assert find(name).recipe.model.name == name.removeprefix("multi30k-")


def test_all_of_them_have_one_corpus_and_one_joint_vocabulary() -> None:
    recipes = [find(name).recipe for name in MULTI30K]
    assert len({recipe.data.model_dump_json() for recipe in recipes}) == 1
    data = recipes[0].data
    assert (data.published, data.direction) == ("multi30k", "en-de")
    assert (data.tokenizer.kind, data.tokenizer.size) == ("bytepair", 8000)
    assert all(find(name).recipe.data.tokenizer.shared for name in [*MULTI30K, "fra-eng"])


def test_the_transformer_is_the_published_tiny_one() -> None:
    model, train = (
        find("multi30k-transformer").recipe.model,
        find("multi30k-transformer").recipe.train,
    )
    assert (model.depth, model.width, model.hidden, model.heads) == (4, 128, 256, 4)
    assert (model.dropout, train.smoothing, train.batch_tokens) == (0.3, 0.1, 4096)
    assert train.steps == 8000


@pytest.mark.parametrize("name", [*MULTI30K, "fra-eng"])
@pytest.mark.parametrize("model", TRANSLATORS)
def test_another_model_can_be_asked_for(name: str, model: str) -> None:
    assert find(name, model=model).recipe.model.name == model


@pytest.mark.parametrize("name", [*MULTI30K, "fra-eng"])
def test_the_other_direction_is_one_setting_away(name: str) -> None:
    recipe = find(name).recipe
    published = PUBLISHED[recipe.data.published]
    assert recipe.data.direction == "-".join(published.languages)
    back = "-".join(published.languages[::-1])
    turned = find(name, changes={"data.direction": back}).recipe
    assert flatten(turned) == {**flatten(recipe), "data.direction": back}


# --- data that is named -------------------------------------------------------------------------


def places(what: str, data: str, **changes: str) -> tuple[str | None, ...]:
    settings = {f"data.{name}": value for name, value in changes.items()}
    found = find(what, data=data, changes=settings).recipe.data
    return found.made, found.published, found.path, found.direction


def test_a_published_set_goes_where_a_file_goes() -> None:
    assert places("translate", "multi30k") == (None, "multi30k", None, None)
    assert places("translate", "fra-eng", direction="fr-en") == (None, "fra-eng", None, "fr-en")
    assert places("dates", "multi30k") == (None, "multi30k", None, None)
    assert find("dates", data="multi30k").recipe.data.size is None


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
    found = find("language", data="multi30k").recipe.data
    assert (found.made, found.path) == (None, "multi30k")  # which is no file, as training will say


def test_translate_still_asks_for_data() -> None:
    with pytest.raises(ConfigError, match="translate needs data: --data pairs.tsv"):
        find("translate")
