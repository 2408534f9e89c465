"""Settings chosen from the data: they are consistent, and given ones are kept."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.config import flatten
from saccade.data.parallel.pairs import SentencePairs
from saccade.recipes.translation import translate_recipe
from saccade.tasks.translation.auto_config import (
    PairStats,
    auto_configure,
    choose_model,
    pair_stats,
)

MODELS = ("bahdanau", "seq2seq", "transformer")
LETTERS = PairStats(3600, 8.0, 4.0, 1.0, 0.0)
SENTENCES = PairStats(29_000, 60.0, 65.0, 11.0, 0.8)


def configured(stats: PairStats, model: str = "transformer", **given: object) -> dict[str, object]:
    recipe = translate_recipe(model)
    if given:
        recipe = recipe.with_values(**given)
    return flatten(auto_configure(recipe, stats)[0])


@given(
    st.sampled_from(MODELS),
    st.integers(1, 20_000_000),
    st.floats(1, 400),
    st.floats(1, 400),
    st.floats(1, 80),
    st.floats(0, 1),
)
def test_auto_configure_settings_are_consistent_for_any_data(
    model: str, pairs: int, source: float, target: float, words: float, shared_chars: float
) -> None:
    recipe, choices = auto_configure(
        translate_recipe(model), PairStats(pairs, source, target, words, shared_chars)
    )
    flat = flatten(recipe)
    assert all(flat[choice.path] == choice.value for choice in choices)
    assert all(choice.reason for choice in choices)
    assert len({choice.path for choice in choices}) == len(choices)
    assert flat["model.width"] % flat.get("model.heads", 1) == 0
    assert 256 <= flat["train.batch_tokens"] <= 4096
    assert flat["train.warmup"] <= flat["train.steps"]
    assert flat["train.evaluate_every"] <= flat["train.steps"]


@given(
    st.sampled_from(MODELS),
    st.integers(1, 10**7),
    st.fixed_dictionaries(
        {},
        optional={
            "width": st.just(48),
            "dropout": st.just(0.35),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "steps": st.just(777),
            "batch_tokens": st.just(999),
            "warmup": st.just(3),
            "learning_rate": st.just(0.123),
            "label_smoothing": st.just(0.05),
            "evaluate_every": st.just(11),
        },
    ),
    st.sampled_from([None, "character", "word", "bpe"]),
)
def test_auto_configure_keeps_given_settings(
    model: str, pairs: int, sizes: dict[str, float], train: dict[str, float], kind: str | None
) -> None:
    tokenizer = {} if kind is None else {"kind": kind}
    recipe_given = translate_recipe(model).with_values(
        model={"name": model, **sizes}, train=train, data={"tokenizer": tokenizer}
    )
    recipe, choices = auto_configure(recipe_given, PairStats(pairs, 30.0, 30.0, 6.0, 0.5))
    set_before = flatten(recipe_given, exclude_unset=True)
    flat = flatten(recipe)
    assert {path: flat[path] for path in set_before} == set_before
    assert not {choice.path for choice in choices} & set_before.keys()


def test_auto_configure_tokenizes_words_by_character_and_sentences_by_bpe() -> None:
    assert configured(LETTERS)["data.tokenizer.kind"] == "character"
    assert configured(SENTENCES)["data.tokenizer.kind"] == "bpe"
    assert configured(SENTENCES)["data.tokenizer.shared"] is True
    separate = PairStats(29_000, 60.0, 65.0, 11.0, 0.1)
    assert configured(separate)["data.tokenizer.shared"] is False


def test_choose_model_depends_on_target_length() -> None:
    assert choose_model(LETTERS) == "bahdanau"
    assert choose_model(SENTENCES) == "transformer"


def test_auto_configure_sizes_grow_with_the_number_of_pairs() -> None:
    configs = [
        configured(PairStats(pairs, 60.0, 65.0, 11.0, 0.8))
        for pairs in (500, 10_000, 100_000, 10**6)
    ]
    for name in ("model.width", "model.depth", "data.tokenizer.size"):
        values = [settings[name] for settings in configs]
        assert values == sorted(values)  # type: ignore[type-var]
        assert values[0] != values[-1]


def test_auto_configure_reason_of_steps_has_the_number_of_epochs() -> None:
    recipe, choices = auto_configure(translate_recipe("bahdanau"), LETTERS)
    [steps] = [choice for choice in choices if choice.path == "train.steps"]
    assert "times through 3,600 pairs" in steps.reason
    times = recipe.train.steps * recipe.train.batch_tokens / (LETTERS.pairs * 9)
    assert float(steps.reason.split()[0]) == pytest.approx(times, abs=0.06)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pairs", [29_000, 100_000, 1_000_000])
def test_auto_configure_sentences_train_for_about_an_hour(model: str, pairs: int) -> None:
    recipe, choices = auto_configure(
        translate_recipe(model), PairStats(pairs, 62.0, 69.0, 11.0, 0.8)
    )
    assert recipe.train.batch_tokens == 4096
    assert recipe.data.tokenizer.size == 8000
    assert recipe.model.dropout == (0.3 if pairs == 29_000 else 0.1)
    [steps] = [choice for choice in choices if choice.path == "train.steps"]
    minutes = int(steps.reason.partition(", about ")[2].split()[0])
    assert 50 <= minutes <= 60
    # warm-up, twenty evaluations, and a patience of two fifths of them
    assert 1000 <= recipe.train.steps <= 10_000
    assert recipe.train.patience * recipe.train.evaluate_every >= 0.35 * recipe.train.steps


def test_auto_configure_small_corpus_gets_the_published_tiny_transformer() -> None:
    # Wu et al. 2021 for Multi30k's 29,000 pairs: 4 + 4 layers, 128, 256, 4 heads, dropout 0.3
    sizes = configured(SENTENCES)
    named = ("depth", "width", "hidden", "heads", "dropout")
    assert [sizes[f"model.{name}"] for name in named] == [4, 128, 256, 4, 0.3]
    steps = sizes["train.steps"]
    assert isinstance(steps, int)
    assert 5000 <= steps <= 8000


def test_auto_configure_limits_the_epochs_of_small_corpora() -> None:
    _, choices = auto_configure(
        translate_recipe("transformer"), PairStats(2000, 62.0, 69.0, 11.0, 0.8)
    )
    [steps] = [choice for choice in choices if choice.path == "train.steps"]
    assert steps.reason.startswith("60.0 times through 2,000 pairs, about ")
    assert int(steps.reason.partition(", about ")[2].split()[0]) < 15


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stats", [LETTERS, SENTENCES, PairStats(10**6, 80.0, 90.0, 15.0, 0.6)])
def test_auto_configure_sizes_grow_with_the_time_budget(model: str, stats: PairStats) -> None:
    names = ("model.width", "data.tokenizer.size", "train.batch_tokens")
    names += ("model.depth",) if model == "transformer" else ()
    found = [configured(stats, model, train={"minutes": m}) for m in (1, 10, 30, 90)]
    for name in names:
        values = [settings[name] or 0 for settings in found]
        assert values == sorted(values), name  # type: ignore[type-var]
    hour = configured(stats, model)
    same = {name: hour[name] for name in (*names, "model.dropout", "train.learning_rate")}
    assert {name: found[-1][name] for name in same} == same
    smaller = {name for name in names if found[0][name] != hour[name]}
    assert bool(smaller) == (stats is not LETTERS)


@given(st.sampled_from(MODELS), st.integers(1, 10**7), st.floats(0.01, 1000), st.floats(1, 80))
def test_auto_configure_reasons_name_the_time_budget_where_it_decided(
    model: str, pairs: int, minutes: float, words: float
) -> None:
    stats = PairStats(pairs, 60.0, 65.0, words, 0.8)
    hour = {choice.path: choice for choice in auto_configure(translate_recipe(model), stats)[1]}
    recipe = translate_recipe(model).with_values(train={"minutes": minutes})
    _, choices = auto_configure(recipe, stats)
    by_time = f"{minutes:g} min"
    for choice in choices:
        if choice.path != "train.steps" and "width" not in choice.reason:  # follows from the width
            assert (by_time in choice.reason) == (choice.value != hour[choice.path].value), choice
        assert "on two cores" not in choice.reason


def configured_with_sizes(stats: PairStats, **sizes: int) -> dict[str, object]:
    recipe_given = translate_recipe("transformer").with_values(
        model={"name": "transformer", **sizes}
    )
    return flatten(auto_configure(recipe_given, stats)[0])


def test_auto_configure_larger_models_get_fewer_steps() -> None:
    def steps(**sizes: int) -> int:
        found = configured_with_sizes(PairStats(100_000, 62.0, 69.0, 11.0, 0.8), **sizes)[
            "train.steps"
        ]
        assert isinstance(found, int)
        return found

    assert steps(width=512) < 0.5 * steps() < steps()
    assert steps(depth=8) < steps() < steps(depth=2)
    assert steps(hidden=4096) < steps()


@pytest.mark.parametrize("width", [3, 48, 100, 128, 250])
def test_auto_configure_heads_divide_a_given_width(width: int) -> None:
    heads = configured_with_sizes(SENTENCES, width=width)["model.heads"]
    assert isinstance(heads, int)
    assert width % heads == 0


def test_auto_configure_characters_are_trained_by_epochs() -> None:
    # 3,600 numerals: 41.7 → at most 40 passes in batches of 72 rows
    settings = configured(LETTERS, "bahdanau")
    assert settings["train.batch_tokens"] == 648
    assert settings["train.steps"] == 2000
    assert settings["train.patience"] == 5


def test_auto_configure_follows_a_given_tokenizer() -> None:
    data = {"tokenizer": {"kind": "bpe"}}
    settings = configured(LETTERS, data=data)
    assert settings["data.tokenizer.size"] == 2000
    assert settings["train.label_smoothing"] == 0.1
    letters = configured(SENTENCES, data={"tokenizer": {"kind": "character"}})
    assert letters["data.tokenizer.size"] is None
    assert letters["train.label_smoothing"] == 0.0


def test_pair_stats_are_those_of_the_pairs(tmp_path: Path) -> None:
    pairs = SentencePairs.from_strings([("ab", "B c"), ("abcd", "x y z b"), ("a", "x")], "three")
    stats = pair_stats(pairs)
    assert (stats.pairs, stats.source_chars) == (3, pytest.approx(7 / 3))
    assert stats.target_chars == pytest.approx((3 + 7 + 1) / 3)
    assert stats.target_words == pytest.approx((2 + 4 + 1) / 3)
    # {a b c d} and {b c x y z space}, in lower case
    assert stats.shared_chars == pytest.approx(2 / 8)


def test_pair_stats_sample_large_files_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tasks.translation.auto_config.STATS_SAMPLE_PAIRS", 10)
    pairs = SentencePairs.from_strings([("a" * (1 + n % 2), "b") for n in range(1000)], "many")
    sampled: list[int] = []
    original = SentencePairs.sources

    def sources(self: SentencePairs, indices: object = None) -> object:
        sampled.extend(indices)  # type: ignore[arg-type]
        return original(self, indices)  # type: ignore[arg-type]

    monkeypatch.setattr(SentencePairs, "sources", sources)
    assert pair_stats(pairs).pairs == 1000
    assert len(sampled) == 10
    assert (min(sampled), max(sampled)) == (0, 999)
