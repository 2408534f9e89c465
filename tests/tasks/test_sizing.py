from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.config import flatten
from saccade.data.parallel.pairs import SentencePairs
from saccade.recipes.translation import translate_recipe
from saccade.tasks.sizing import PairStats, auto_configure, choose_model, pair_stats

MODELS = ("bahdanau", "seq2seq", "transformer")
LETTERS = PairStats(3600, 8.0, 4.0, 1.0, 0.0)
SENTENCES = PairStats(29_000, 60.0, 65.0, 11.0, 0.8)


def chosen(facts: PairStats, model: str = "transformer", **given: object) -> dict[str, object]:
    recipe = translate_recipe(model)
    if given:
        recipe = recipe.with_values(**given)
    return flatten(auto_configure(recipe, facts)[0])


@given(
    st.sampled_from(MODELS),
    st.integers(1, 20_000_000),
    st.floats(1, 400),
    st.floats(1, 400),
    st.floats(1, 80),
    st.floats(0, 1),
)
def test_whatever_the_data_the_settings_fit_each_other(
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
def test_what_was_set_is_left_alone(
    model: str, pairs: int, sizes: dict[str, float], train: dict[str, float], kind: str | None
) -> None:
    tokenizer = {} if kind is None else {"kind": kind}
    asked = translate_recipe(model).with_values(
        model={"name": model, **sizes}, train=train, data={"tokenizer": tokenizer}
    )
    recipe, choices = auto_configure(asked, PairStats(pairs, 30.0, 30.0, 6.0, 0.5))
    set_before = flatten(asked, exclude_unset=True)
    flat = flatten(recipe)
    assert {path: flat[path] for path in set_before} == set_before
    assert not {choice.path for choice in choices} & set_before.keys()


def test_single_words_are_cut_into_letters_and_sentences_into_pieces() -> None:
    assert chosen(LETTERS)["data.tokenizer.kind"] == "character"
    assert chosen(SENTENCES)["data.tokenizer.kind"] == "bpe"
    assert chosen(SENTENCES)["data.tokenizer.shared"] is True
    apart = PairStats(29_000, 60.0, 65.0, 11.0, 0.1)
    assert chosen(apart)["data.tokenizer.shared"] is False


def test_the_model_follows_the_answers() -> None:
    assert choose_model(LETTERS) == "bahdanau"
    assert choose_model(SENTENCES) == "transformer"


def test_more_pairs_never_give_a_smaller_model_or_vocabulary() -> None:
    grown = [
        chosen(PairStats(pairs, 60.0, 65.0, 11.0, 0.8)) for pairs in (500, 10_000, 100_000, 10**6)
    ]
    for name in ("model.width", "model.depth", "data.tokenizer.size"):
        values = [settings[name] for settings in grown]
        assert values == sorted(values)  # type: ignore[type-var]
        assert values[0] != values[-1]


def test_the_steps_say_how_often_they_go_through_the_pairs() -> None:
    recipe, choices = auto_configure(translate_recipe("bahdanau"), LETTERS)
    [steps] = [choice for choice in choices if choice.path == "train.steps"]
    assert "times through 3,600 pairs" in steps.reason
    times = recipe.train.steps * recipe.train.batch_tokens / (LETTERS.pairs * 9)
    assert float(steps.reason.split()[0]) == pytest.approx(times, abs=0.06)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pairs", [29_000, 100_000, 1_000_000])
def test_sentences_take_about_an_hour_and_say_so(model: str, pairs: int) -> None:
    recipe, choices = auto_configure(
        translate_recipe(model), PairStats(pairs, 62.0, 69.0, 11.0, 0.8)
    )
    assert recipe.train.batch_tokens == 4096
    assert recipe.data.tokenizer.size == 8000
    assert recipe.model.dropout == (0.3 if pairs == 29_000 else 0.1)
    [steps] = [choice for choice in choices if choice.path == "train.steps"]
    minutes = int(steps.reason.partition(", about ")[2].split()[0])
    assert 50 <= minutes <= 60
    # warm-up, twenty evaluations, and no stop before two fifths of them brought nothing
    assert 1000 <= recipe.train.steps <= 10_000
    assert recipe.train.patience * recipe.train.evaluate_every >= 0.35 * recipe.train.steps


def test_a_small_corpus_of_sentences_gets_the_published_tiny_transformer() -> None:
    # Wu et al. 2021 for Multi30k's 29,000 pairs: 4 + 4 layers, 128, 256, 4 heads, dropout 0.3
    sizes = chosen(SENTENCES)
    named = ("depth", "width", "hidden", "heads", "dropout")
    assert [sizes[f"model.{name}"] for name in named] == [4, 128, 256, 4, 0.3]
    steps = sizes["train.steps"]
    assert isinstance(steps, int)
    assert 5000 <= steps <= 8000


def test_a_few_sentences_are_not_gone_through_for_an_hour() -> None:
    _, choices = auto_configure(
        translate_recipe("transformer"), PairStats(2000, 62.0, 69.0, 11.0, 0.8)
    )
    [steps] = [choice for choice in choices if choice.path == "train.steps"]
    assert steps.reason.startswith("60.0 times through 2,000 pairs, about ")
    assert int(steps.reason.partition(", about ")[2].split()[0]) < 15


def with_sizes(facts: PairStats, **sizes: int) -> dict[str, object]:
    asked = translate_recipe("transformer").with_values(model={"name": "transformer", **sizes})
    return flatten(auto_configure(asked, facts)[0])


def test_a_model_made_larger_gets_fewer_steps_for_the_same_hour() -> None:
    def steps(**sizes: int) -> int:
        found = with_sizes(PairStats(100_000, 62.0, 69.0, 11.0, 0.8), **sizes)["train.steps"]
        assert isinstance(found, int)
        return found

    assert steps(width=512) < 0.5 * steps() < steps()
    assert steps(depth=8) < steps() < steps(depth=2)
    assert steps(hidden=4096) < steps()


@pytest.mark.parametrize("width", [3, 48, 100, 128, 250])
def test_heads_divide_the_width_that_was_set(width: int) -> None:
    heads = with_sizes(SENTENCES, width=width)["model.heads"]
    assert isinstance(heads, int)
    assert width % heads == 0


def test_letters_are_learned_by_passes_and_not_by_the_hour() -> None:
    # 3,600 numerals: 41.7 → at most 40 passes in batches of 72 rows
    settings = chosen(LETTERS, "bahdanau")
    assert settings["train.batch_tokens"] == 648
    assert settings["train.steps"] == 2000
    assert settings["train.patience"] == 5


def test_a_set_tokenizer_decides_what_follows_from_it() -> None:
    data = {"tokenizer": {"kind": "bpe"}}
    settings = chosen(LETTERS, data=data)
    assert settings["data.tokenizer.size"] == 2000
    assert settings["train.label_smoothing"] == 0.1
    letters = chosen(SENTENCES, data={"tokenizer": {"kind": "character"}})
    assert letters["data.tokenizer.size"] is None
    assert letters["train.label_smoothing"] == 0.0


def test_the_facts_are_counted_on_the_pairs(tmp_path: Path) -> None:
    pairs = SentencePairs.from_strings([("ab", "B c"), ("abcd", "x y z b"), ("a", "x")], "three")
    facts = pair_stats(pairs)
    assert (facts.pairs, facts.source_chars) == (3, pytest.approx(7 / 3))
    assert facts.target_chars == pytest.approx((3 + 7 + 1) / 3)
    assert facts.target_words == pytest.approx((2 + 4 + 1) / 3)
    # a b c d on one side; b c x y z and the space on the other, capitals or not
    assert facts.shared_chars == pytest.approx(2 / 8)


def test_a_large_file_is_judged_by_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tasks.sizing.STATS_SAMPLE_PAIRS", 10)
    pairs = SentencePairs.from_strings([("a" * (1 + n % 2), "b") for n in range(1000)], "many")
    seen: list[int] = []
    original = SentencePairs.sources

    def sources(self: SentencePairs, indices: object = None) -> object:
        seen.extend(indices)  # type: ignore[arg-type]
        return original(self, indices)  # type: ignore[arg-type]

    monkeypatch.setattr(SentencePairs, "sources", sources)
    assert pair_stats(pairs).pairs == 1000
    assert len(seen) == 10
    assert (min(seen), max(seen)) == (0, 999)
