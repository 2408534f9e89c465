"""Settings of text classification that follow from the texts: reasons, scores, given settings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saccade.recipes.resolve import resolve_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.text_classification.auto_config import HeldOutScore, held_out_score
from saccade.tasks.text_classification.data import PreparedTexts, prepare_labelled_texts


def write(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    return path


def prepare(path: Path, model: str | None = None, **changes: Any) -> PreparedTexts:
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    changes = {"train.threads": 1, **changes}
    resolved = resolve_recipe("classify", data=str(path), model=model, changes=changes)
    context = PrepareContext[Any](auto_model=resolved.auto_model)
    return prepare_labelled_texts(resolved.recipe, context)  # type: ignore[arg-type]


def word_order(count: int = 200) -> list[tuple[str, str]]:
    """Texts whose label follows from the order of two words alone."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(count):
        is_first = bool(random.integers(2))
        pair = "man bites dog" if is_first else "dog bites man"
        rows.append(("news" if is_first else "usual", f"today {pair} again {number}"))
    return rows


def chosen(prepared: PreparedTexts) -> dict[str, Any]:
    return {choice.path: choice for choice in prepared.choices}


def test_longer_ngrams_are_chosen_where_the_order_of_words_matters(tmp_path: Path) -> None:
    prepared = prepare(write(tmp_path / "order.tsv", word_order()), model__char_ngrams=0)
    found = chosen(prepared)
    assert found["model.name"].value == "ngrams"
    assert found["model.word_ngrams"].value == 2
    assert (
        "smallest loss on 3 folds of the training texts (1: 0." in found["model.word_ngrams"].reason
    )
    assert "accuracy 100.0%" in found["model.penalty"].reason
    assert "model.char_ngrams" not in found  # given
    settings = prepared.recipe.model.model_dump()
    assert settings["word_ngrams"] == 2 and settings["char_ngrams"] == 0
    assert settings["penalty"] == found["model.penalty"].value


def test_characters_are_chosen_where_words_do_not_repeat(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = []
    for _ in range(240):
        label = ("ab", "xy")[int(random.integers(2))]
        letters = [label[int(i)] for i in random.integers(2, size=9)]
        rows.append((label, "".join(letters) + str(int(random.integers(10**6)))))
    found = chosen(prepare(write(tmp_path / "letters.tsv", rows)))
    assert found["model.char_ngrams"].value == 4
    assert "without 0." in found["model.char_ngrams"].reason


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("这家店很好吃", "这家店太难吃了"),
        ("อาหารอร่อยมาก", "อาหารแย่มาก"),
        ("とても良い", "とても悪い"),
    ],
)
def test_text_without_spaces_is_classified_by_characters(
    good: str, bad: str, tmp_path: Path
) -> None:
    rows = [(label, f"{text}{n}") for n in range(60) for label, text in (("1", good), ("0", bad))]
    prepared = prepare(write(tmp_path / "unspaced.tsv", rows))
    found = chosen(prepared)
    assert "each character counts as a word" in found["data.split"].reason
    assert found["model.char_ngrams"].value == 0
    assert found["model.word_ngrams"].value in (2, 3)


def test_given_settings_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "order.tsv", word_order(100))
    given = {"model__word_ngrams": 1, "model__char_ngrams": 0, "model__penalty": 3.0}
    prepared = prepare(path, model="ngrams", **given)
    assert not prepared.choices
    assert prepared.recipe.model.model_dump()["penalty"] == 3.0


def test_few_texts_get_defaults_with_the_reason(tmp_path: Path) -> None:
    rows = [(str(n % 2), f"word{n} {n % 2}") for n in range(12)]
    found = chosen(prepare(write(tmp_path / "few.tsv", rows)))
    assert "too few to choose by score" in found["model.word_ngrams"].reason


def test_fasttext_epochs_and_ngrams_are_chosen_by_score(tmp_path: Path) -> None:
    prepared = prepare(write(tmp_path / "order.tsv", word_order(120)), model="fasttext")
    found = chosen(prepared)
    assert found["model.word_ngrams"].value == 2
    assert found["model.epochs"].value == 25 and "5: 0." in found["model.epochs"].reason


def test_network_steps_follow_the_texts_and_long_texts_are_noted(tmp_path: Path) -> None:
    rows = [(str(n % 2), f"{n} " + "word " * 30) for n in range(200)]
    path = write(tmp_path / "long.tsv", rows)
    prepared = prepare(path, model="cnn", model__max_length=20)
    found = chosen(prepared)
    assert "30 epochs of" in found["train.steps"].reason
    assert {"train.warmup", "train.evaluate_every"} <= set(found)
    assert found["train.learning_rate"].value == prepared.recipe.train.model_dump()["learning_rate"]
    assert any("longer than 20 words and are truncated" in note for note in prepared.notes)
    settings = prepared.recipe.model.model_dump()
    assert settings["vocab_size"] == len(prepared.preprocessor.words) + 1
    assert settings["outputs"] == 2
    given = prepare(path, model="cnn", train__learning_rate=0.5)
    assert given.recipe.train.model_dump()["learning_rate"] == 0.5
    timed = chosen(prepare(path, model="cnn", train__minutes=1))
    assert "train.steps" not in timed


def test_score_is_that_of_the_best_temperature() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 1.5]] * 30)
    truths = np.array([[1, 0], [0, 1], [0, 1], [0, 1]] * 30, bool)
    score = held_out_score(logits, truths, multi_label=False)
    assert score.accuracy == 0.75
    again = held_out_score(7 * logits, truths, multi_label=False)
    assert again.loss == pytest.approx(score.loss, rel=1e-6)  # a factor makes no difference
    assert held_out_score(logits, np.zeros_like(truths), False).loss == float("inf")
    assert HeldOutScore(0.5, 1.0).is_better(HeldOutScore(0.51, 1.0)) and not HeldOutScore(
        0.5, 1.0
    ).is_better(HeldOutScore(0.502, 1.0))
