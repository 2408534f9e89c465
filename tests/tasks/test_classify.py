"""Labels for texts as a task: read, learned, asked, judged, refused."""

from collections.abc import Callable
from pathlib import Path

import fasttext
import numpy as np
import pytest

from saccade.data.parallel.pairs import assign_split
from saccade.data.text.labelled import LabelledText, generate_dates_by_language, read_labelled_texts
from saccade.errors import ConfigError, DataError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import TrainOptions, load_run, resume, train_recipe
from saccade.tasks.classify import TextClassificationTask
from saccade.tasks.registry import task_spec_for

LOSSES = ("softmax", "hierarchical_softmax", "one_vs_all")


def written(path: Path, rows: list[LabelledText], marked: bool = False) -> Path:
    """As a table, or as fastText has it."""
    form = (
        (lambda row: " ".join(f"__label__{label}" for label in row.labels) + f" {row.text}")
        if marked
        else (lambda row: f"{','.join(row.labels)}\t{row.text}")
    )
    path.write_text("".join(f"{form(row)}\n" for row in rows), encoding="utf-8")
    return path


def topics(count: int = 600) -> list[LabelledText]:
    """Two kinds of sentences that words tell apart, with other words among them."""
    random = np.random.default_rng(1)
    words = {"food": ("soup", "bread", "cheese"), "sky": ("star", "moon", "cloud")}
    rows = []
    for _ in range(count):
        label = ("food", "sky")[int(random.integers(2))]
        own = words[label][int(random.integers(3))]
        rows.append(LabelledText((label,), f"I saw {own} number {int(random.integers(50))} today"))
    return rows


def trained(data: Path, folder: Path, **changes: object) -> TextClassificationTask:
    """A run of one thread."""
    settings = {"train.threads": 1, "model.epochs": 10, **changes}
    recipe = resolve_recipe("classify", data=str(data), changes=settings).recipe
    task: TextClassificationTask = train_recipe(recipe, folder, TrainOptions()).run.task
    return task


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ngrams", [1, 2])
def test_it_learns_is_kept_and_answers(loss: str, ngrams: int, tmp_path: Path) -> None:
    path = written(tmp_path / "topics.tsv", topics())
    task = trained(path, tmp_path / "run", **{"model.loss": loss, "model.word_ngrams": ngrams})
    assert task.evaluate("test")["precision_at_1"] == 1
    run = load_run(tmp_path / "run")
    answer, other = run.predict(["the MOON today", "cheese and soup"], n_best=2)
    assert answer.text == "sky" and other.text == "food" and answer.score > 0.5
    assert {answer.text, answer.alternatives[0].text} == {"sky", "food"}
    assert all(finding.passed for finding in run.check() if finding.num_inputs)
    assert (tmp_path / "run" / "report" / "confusion.png").exists()
    assert np.array_equal(task.confusion("test"), np.diag(np.diag(task.confusion("test"))))


@pytest.mark.parametrize("ngrams", [1, 2])
def test_stopped_and_gone_on_with_is_the_same_bits(
    ngrams: int, tmp_path: Path, killed_once_saved: Callable[[Callable[[], object]], int]
) -> None:
    path = written(tmp_path / "topics.tsv", topics(3000))
    changes = {"model.word_ngrams": ngrams, "model.epochs": 200}
    whole = trained(path, tmp_path / "whole", **changes)
    place = tmp_path / "killed"
    assert killed_once_saved(lambda: trained(path, place, **changes)) > 0
    assert not (place / "model.safetensors").exists()
    gone_on = resume(place, {}, TrainOptions()).run.task
    for name, array in whole.weights().items():
        assert np.array_equal(array, gone_on.weights()[name]), name


def test_both_forms_of_a_file_are_the_same(tmp_path: Path) -> None:
    rows = [LabelledText(("a", "b"), "one two"), LabelledText(("c",), "three")]
    table = written(tmp_path / "table.tsv", rows)
    marked = written(tmp_path / "marked.txt", rows, marked=True)
    assert (
        list(read_labelled_texts(table, multi_label=True))
        == list(read_labelled_texts(marked))
        == rows
    )
    assert next(read_labelled_texts(table)).labels == ("a,b",)


def test_marks_stand_before_the_text_and_are_labels_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "marked.txt"
    path.write_text(
        "__label__a \t __label__b  one  __label__c \n__label__d\n__label__a __label__a x"
    )
    assert list(read_labelled_texts(path)) == [
        LabelledText(("a", "b"), "one  __label__c"),
        LabelledText(("d",), ""),
        LabelledText(("a",), "x"),
    ]


def test_what_is_held_out_is_not_learned_from(tmp_path: Path) -> None:
    rows = [LabelledText((f"{number % 3}",), f"word{number} same") for number in range(400)]
    path = written(tmp_path / "rows.tsv", rows)
    recipe = resolve_recipe("classify", data=str(path), changes={"data.test_share": 0.2}).recipe
    prepared = task_spec_for(recipe).prepare(recipe, lambda *what: None)
    texts, words = prepared.texts, prepared.vocabulary.words
    assert {assign_split(row.text, 0.05, 0.2) for row in rows} == set(texts)
    for name, side in texts.items():
        own = [row for row in rows if assign_split(row.text, 0.05, 0.2) == name]
        assert len(side.words.starts) - 1 == len(own)
        labels = [prepared.vocabulary.labels[number] for number in side.labels.rows]
        assert labels == [row.labels[0] for row in own]
        known = [word for row in own for word in row.text.split() if word in words]
        assert [words[number] for number in side.words.rows] == known
    learned = {row.text.split()[0] for row in rows if assign_split(row.text, 0.05, 0.2) == "train"}
    assert set(words) == learned | {"same"}
    again = task_spec_for(recipe).prepare(recipe, lambda *what: None, prepared.vocabulary)
    assert again.fingerprint() == prepared.fingerprint()


def test_texts_with_several_labels_are_told_all_of_them(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    rows = []
    for _ in range(800):
        some = [name for name in ("red", "green", "blue") if random.random() < 0.5] or ["red"]
        rows.append(LabelledText(tuple(some), " ".join(f"it is {name}ish" for name in some)))
    path = written(tmp_path / "colours.tsv", rows)
    task = trained(path, tmp_path / "run", **{"data.multi_label": True, "model.loss": "one_vs_all"})
    [answer] = task.predict(["it is redish it is blueish"], n_best=3)
    chances = {one.text: one.score for one in (answer, *answer.alternatives)}
    assert chances["red"] > 0.5 and chances["blue"] > 0.5 and chances["green"] < 0.5


def test_it_is_no_worse_than_fasttexts_own(
    tmp_path: Path, learned_by_fasttext: Callable[..., Path]
) -> None:
    rows = list(generate_dates_by_language(6000))
    path = written(tmp_path / "days.txt", rows[:5000], marked=True)
    test = written(tmp_path / "test.txt", rows[5000:], marked=True)
    changes = {"data.split": "whitespace", "data.dev_share": 0, "data.test_share": 0}
    task = trained(path, tmp_path / "run", **changes)
    ours = task.evaluate(task.load_split(test))["precision_at_1"]
    theirs = fasttext.load_model(
        str(learned_by_fasttext("train_supervised", path, epoch=10, thread=1))
    )
    assert ours >= theirs.test(str(test))[1] - 0.02


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "holds nothing"),
        ("\n\n", "holds nothing"),
        ("a label without a tab\n", "line 1: got"),
        ("a\tx\n\ttext\n", "line 2: got"),
        ("a\tx y\na\tz\n", "all 2 texts have the same label"),
        ("a\t\nb\t\n", "0 words"),
        ("__label__a x\n__label__ y\n", "line 2: got '__label__ y'"),
    ],
)
def test_files_that_teach_nothing_are_refused(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(content)
    with pytest.raises(DataError, match=said):
        trained(path, tmp_path / "run")


def test_a_text_of_unknown_words_has_an_answer(tmp_path: Path) -> None:
    task = trained(written(tmp_path / "topics.tsv", topics(100)), tmp_path / "run")
    answers = task.predict(["", "xqzw", "\t \n"], n_best=2)
    assert all(len((one, *one.alternatives)) == 2 for one in answers)


def test_what_it_is_to_learn_from_must_be_said() -> None:
    with pytest.raises(ConfigError, match="texts are wanted"):
        from saccade.tasks.classify import ClassifyRecipe, prepare_labelled_texts

        prepare_labelled_texts(ClassifyRecipe(), lambda *what: None)
