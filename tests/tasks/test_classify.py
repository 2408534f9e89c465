"""Text classification: reading, training, prediction, metrics, baselines, rejected data."""

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import fasttext
import numpy as np
import pandas
import pytest

from saccade.cli.main import run as main
from saccade.data.parallel.pairs import assign_split
from saccade.data.text.labelled import (
    LabelledText,
    describe_several_labels,
    generate_dates_by_language,
    read_labelled_texts,
)
from saccade.errors import ConfigError, DataError
from saccade.inspection.figures import ConfusionMatrix
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.data import prepare_labelled_texts
from saccade.tasks.text_classification.evaluate import (
    LabelEvaluator,
    label_confusion,
    score_texts,
)
from saccade.tasks.text_classification.inspect import LabelInspector
from saccade.tasks.text_classification.scorer import Calibration, LabelScorer
from saccade.tasks.text_classification.texts import LabelVocabulary, TextSplit, WordEncoder
from saccade.types.arrays import FloatArray
from saccade.types.bags import make_bags
from saccade.types.results import ComparisonMetric, Prediction

LOSSES = ("softmax", "hierarchical_softmax", "one_vs_all")


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train without drawing the figures of the report."""
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)


def write_texts(path: Path, rows: list[LabelledText], fasttext_format: bool = False) -> Path:
    """Write texts as a table, or in fastText's format."""
    form = (
        (lambda row: " ".join(f"__label__{label}" for label in row.labels) + f" {row.text}")
        if fasttext_format
        else (lambda row: f"{','.join(row.labels)}\t{row.text}")
    )
    path.write_text("".join(f"{form(row)}\n" for row in rows), encoding="utf-8")
    return path


def topics(count: int = 600) -> list[LabelledText]:
    """Sentences of two topics that differ in one word."""
    random = np.random.default_rng(1)
    words = {"food": ("soup", "bread", "cheese"), "sky": ("star", "moon", "cloud")}
    rows = []
    for _ in range(count):
        label = ("food", "sky")[int(random.integers(2))]
        own = words[label][int(random.integers(3))]
        rows.append(LabelledText((label,), f"I saw {own} number {int(random.integers(50))} today"))
    return rows


def train_classifier(data: Path, folder: Path, **changes: object) -> Run:
    """Train fastText with one thread."""
    fixed = {"model.epochs": 10, "model.word_ngrams": 1, "model.learning_rate": 0.1}
    settings = {"train.threads": 1, **fixed, **changes}
    recipe = resolve_recipe("classify", data=str(data), model="fasttext", changes=settings).recipe
    return train_recipe(recipe, folder, TrainOptions()).run


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ngrams", [1, 2])
def test_classifier_separates_topics_and_predicts_after_reload(
    loss: str, ngrams: int, tmp_path: Path
) -> None:
    path = write_texts(tmp_path / "topics.tsv", topics())
    changes = {"model.loss": loss, "model.word_ngrams": ngrams}
    trained = train_classifier(path, tmp_path / "run", **changes)
    scores = trained.evaluate()
    assert scores["accuracy"] == scores["macro_f1"] == 1
    run = load_run(tmp_path / "run")
    first, second = run.predict(["the MOON today", "cheese and soup"], n_best=2)
    assert first.text == "sky" and second.text == "food" and first.score > 0.5
    assert {first.text, first.alternatives[0].text} == {"sky", "food"}
    assert all(result.passed for result in run.check() if result.num_inputs)
    assert (tmp_path / "run" / "report" / "confusion.png").exists()
    confusion = label_confusion(score_texts(trained.evaluator.scorer, trained.split("test")))
    assert np.array_equal(confusion, np.diag(np.diag(confusion)))


def test_rare_word_ngrams_have_no_row(tmp_path: Path) -> None:
    rows = topics()
    path = write_texts(tmp_path / "topics.tsv", rows)
    runs = {}
    for min_count in (1, 2, 20):
        changes = {"model.word_ngrams": 2, "model.min_count": min_count, "data.test_share": 0}
        runs[min_count] = train_classifier(path, tmp_path / str(min_count), **changes)
        train = runs[min_count].split("train")
        words = [text.lower().split() for text in train.texts_at(np.arange(len(train)))]
        counts = Counter(pair for text in words for pair in itertools.pairwise(text))
        frequent = sum(count >= min_count for count in counts.values())
        assert len(runs[min_count].model.used) == frequent
    used = [len(run.model.used) for run in runs.values()]
    assert used == sorted(used, reverse=True) and used[-1] < used[0] / 4
    again = load_run(tmp_path / "20")
    assert again.predict("the MOON today").text == "sky"
    texts = ["I saw soup number 3 today", "moon cloud"]
    for run in (runs[20], again):
        assert [p.score for p in run.predict(texts)] == [p.score for p in runs[20].predict(texts)]


@pytest.mark.parametrize("ngrams", [1, 2])
def test_classifier_resumed_after_kill_has_same_bits(
    ngrams: int,
    tmp_path: Path,
    killed_once_saved: Callable[[Callable[[], object]], int],
    no_report: None,
) -> None:
    path = write_texts(tmp_path / "topics.tsv", topics(3000))
    changes = {"model.word_ngrams": ngrams, "model.epochs": 200}
    whole = train_classifier(path, tmp_path / "whole", **changes)
    folder = tmp_path / "killed"
    assert killed_once_saved(lambda: train_classifier(path, folder, **changes)) > 0
    assert not (folder / "model.safetensors").exists()
    resumed = resume(folder, {}, TrainOptions()).run
    for name, array in whole.model.state_dict().items():
        assert np.array_equal(array, resumed.model.state_dict()[name]), name


def test_labelled_texts_are_same_in_both_formats(tmp_path: Path) -> None:
    rows = [LabelledText(("a", "b"), "one two"), LabelledText(("c",), "three")]
    table = write_texts(tmp_path / "table.tsv", rows)
    prefixed = write_texts(tmp_path / "prefixed.txt", rows, fasttext_format=True)
    assert (
        list(read_labelled_texts(table, multi_label=True))
        == list(read_labelled_texts(prefixed))
        == rows
    )
    assert next(read_labelled_texts(table)).labels == ("a,b",)


def test_fasttext_labels_are_read_only_before_the_text(tmp_path: Path) -> None:
    path = tmp_path / "prefixed.txt"
    path.write_text(
        "__label__a \t __label__b  one  __label__c \n__label__d\n__label__a __label__a x"
    )
    assert list(read_labelled_texts(path)) == [
        LabelledText(("a", "b"), "one  __label__c"),
        LabelledText(("d",), ""),
        LabelledText(("a",), "x"),
    ]


def test_prepared_texts_keep_held_out_words_out_of_the_vocabulary(tmp_path: Path) -> None:
    rows = [LabelledText((f"{number % 3}",), f"word{number} same") for number in range(400)]
    path = write_texts(tmp_path / "rows.tsv", rows)
    changes = {"data.test_share": 0.2, "model.epochs": 1, "model.word_ngrams": 1}
    recipe = resolve_recipe("classify", data=str(path), model="fasttext", changes=changes).recipe
    prepared = prepare_labelled_texts(recipe, PrepareContext())
    splits, words = prepared.splits, prepared.preprocessor.words
    assert {assign_split(row.text, 0.05, 0.2) for row in rows} == set(splits)
    for name, split in splits.items():
        own = [row for row in rows if assign_split(row.text, 0.05, 0.2) == name]
        assert list(split.texts) == [row.text for row in own]
        labels = [prepared.preprocessor.labels[number] for number in split.labels.rows]
        assert labels == [row.labels[0] for row in own]
        known = [word for row in own for word in row.text.split() if word in words]
        assert [words[number] for number in split.words.rows] == known
        assert split.is_held_out == (name != "train")
    learned = {row.text.split()[0] for row in rows if assign_split(row.text, 0.05, 0.2) == "train"}
    assert set(words) == learned | {"same"}
    again = prepare_labelled_texts(recipe, PrepareContext(preprocessor=prepared.preprocessor))
    assert again.fingerprint() == prepared.fingerprint()


def test_multi_label_classifier_predicts_every_true_label(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    rows = []
    for _ in range(800):
        some = [name for name in ("red", "green", "blue") if random.random() < 0.5] or ["red"]
        rows.append(LabelledText(tuple(some), " ".join(f"it is {name}ish" for name in some)))
    path = write_texts(tmp_path / "colours.tsv", rows)
    changes = {"data.multi_label": True, "model.loss": "one_vs_all"}
    run = train_classifier(path, tmp_path / "run", **changes)
    [best] = run.predict(["it is redish it is blueish"], n_best=3)
    scores = {one.text: one.score for one in (best, *best.alternatives)}
    assert scores["red"] > 0.5 and scores["blue"] > 0.5 and scores["green"] < 0.5
    assert run.predict("it is redish it is blueish").text in ("red,blue", "blue,red")
    assert run.predict("it is greenish").text == "green"
    evaluation = run.evaluate()
    assert evaluation["micro_f1"] > 0.95 > evaluation.floors["majority label"]["micro_f1"]
    assert evaluation["exact"] > 0.9 and "accuracy" not in evaluation
    assert run.comparison_metric == ComparisonMetric("micro_f1", True, 100.0)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (["wheat", "grain,wheat", "grain", "corn, grain", "corn"], "'grain,wheat' joins labels"),
        (['["wheat"]', '["grain", "wheat"]', '["grain"]'], "joins labels that occur in other rows"),
        (["Lyon, France", "Nice, France", "Bonn, Germany", "Ulm, Germany"], ""),
        (["good", "bad", "good, but"], ""),
        (["good", "bad"], ""),
        ([], ""),
    ],
)
def test_several_labels_of_a_cell_are_recognised(labels: list[str], reason: str) -> None:
    found = describe_several_labels([LabelledText((label,), "x") for label in labels])
    assert reason in found and bool(found) == bool(reason)


def test_several_labels_are_inferred_unless_they_are_set(tmp_path: Path) -> None:
    names = ("red", "green", "blue")
    rows = [
        LabelledText((f"{a},{b}" if a != b else a,), f"{a} and {b} number {n}")
        for n in range(12)
        for a in names
        for b in names
    ]
    path = write_texts(tmp_path / "colours.tsv", rows)
    fixed = {"model.word_ngrams": 1, "model.char_ngrams": 0, "model.penalty": 0.1}
    recipe = resolve_recipe("classify", data=str(path), changes=fixed).recipe
    prepared = prepare_labelled_texts(recipe, PrepareContext())
    assert prepared.recipe.data.multi_label and set(prepared.preprocessor.labels) == set(names)
    [choice] = [choice for choice in prepared.choices if choice.path == "data.multi_label"]
    assert choice.value is True and "joins labels" in choice.reason
    fixed["data.multi_label"] = False
    recipe = resolve_recipe("classify", data=str(path), changes=fixed).recipe
    single = prepare_labelled_texts(recipe, PrepareContext())
    assert "red,blue" in single.preprocessor.labels and not single.recipe.data.multi_label
    prefixed = [LabelledText(("red", "blue"), "red blue"), *rows[:20]]
    path = write_texts(tmp_path / "prefixed.txt", prefixed, fasttext_format=True)
    assert "texts have several labels" in describe_several_labels(list(read_labelled_texts(path)))


def test_classifier_is_as_precise_as_fasttext(
    tmp_path: Path, learned_by_fasttext: Callable[..., Path], no_report: None
) -> None:
    rows = list(generate_dates_by_language(6000))
    path = write_texts(tmp_path / "days.txt", rows[:5000], fasttext_format=True)
    test = write_texts(tmp_path / "test.txt", rows[5000:], fasttext_format=True)
    changes = {"data.split": "whitespace", "data.dev_share": 0, "data.test_share": 0}
    run = train_classifier(path, tmp_path / "run", **changes)
    ours = run.evaluate(test)["accuracy"]
    theirs = fasttext.load_model(
        str(learned_by_fasttext("train_supervised", path, epoch=10, thread=1))
    )
    assert ours >= theirs.test(str(test))[1] - 0.02


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "got an empty file"),
        ("\n\n", "got an empty file"),
        ("a label without a tab\n", "line 1: got"),
        ("a\tx\n\ttext\n", "line 2: got"),
        ("a\tx y\na\tz\n", r"got the same value \('a'\) in all 2 rows of 'column 1', the label"),
        ("a\t\nb\t\n", "expected two classes or more"),
        ("__label__a x\n__label__ y\n", "line 2: got '__label__ y'"),
    ],
)
def test_classifier_rejects_unusable_files(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        train_classifier(path, tmp_path / "run")


def test_classifier_predicts_for_texts_of_unknown_words(tmp_path: Path, no_report: None) -> None:
    run = train_classifier(write_texts(tmp_path / "topics.tsv", topics(100)), tmp_path / "run")
    predictions = run.predict(["", "xqzw", "\t \n"], n_best=2)
    assert all(len((one, *one.alternatives)) == 2 for one in predictions)


def test_classifier_needs_a_data_source() -> None:
    with pytest.raises(ConfigError, match="got no data source"):
        prepare_labelled_texts(ClassifyRecipe(), PrepareContext())


# --- metrics and baselines ----------------------------------------------------------------------


class FixedScorer(LabelScorer):
    """A model whose logits are given."""

    calibration = Calibration()

    def logits(self, texts: object) -> FloatArray:
        found: FloatArray = self.model
        return found


def encode(rows: list[list[int]], unknown: dict[str, int] | None = None) -> TextSplit:
    """Texts with these labels."""
    texts = [f"text {number}" for number in range(len(rows))]
    return TextSplit(texts, make_bags(rows), WordEncoder([], "words"), unknown or {})


def make_evaluator(predicted: list[int], multi_label: bool = False) -> LabelEvaluator:
    """Evaluator of a model that predicts these of three labels with probability 0.6."""
    recipe = ClassifyRecipe.model_validate({"data": {"multi_label": multi_label}})
    vocabulary = LabelVocabulary([], ["a", "b", "c"], [3, 2, 1])
    probabilities = 0.2 + 0.4 * np.eye(3)[predicted]
    logits = np.log(probabilities / (1 - probabilities)) if multi_label else np.log(probabilities)
    return LabelEvaluator(FixedScorer(recipe, logits, vocabulary))


def test_single_label_evaluator_reports_accuracy_and_macro_f1() -> None:
    evaluator = make_evaluator([0, 1, 0, 2, 0])
    scores = evaluator.evaluate(encode([[0], [1], [1], [2], [-1]], {"new": 1}))
    assert scores["accuracy"] == pytest.approx(3 / 5)
    f1 = (2 / 4, 2 / 3, 1)  # 2 TP / (2 TP + FP + FN)
    assert scores["macro_f1"] == pytest.approx(np.mean(f1))
    assert scores["loss"] == pytest.approx(-(3 * np.log(0.6) + np.log(0.2)) / 4)
    assert scores["ece"] == pytest.approx(0)  # 3 of 5 are correct with confidence 0.6
    assert set(scores.conventions) == set(scores) - {"examples"}
    convention = scores.conventions["accuracy"]
    assert "1 texts with labels that the run does not know ('new') count as errors" in convention
    assert scores.tables["unknown_labels"] == {"new": 1}
    assert evaluator.metric == ComparisonMetric("accuracy", True, 100.0)
    assert evaluator.headline == ("accuracy", "macro_f1")


def test_evaluation_has_report_by_label_confusion_and_mistakes() -> None:
    scores = make_evaluator([0, 1, 0, 2]).evaluate(encode([[0], [1], [1], [2]]))
    report = {row.pop("label"): row for row in scores.tables["classes"]}
    assert report["a"] == {"precision": 0.5, "recall": 1.0, "f1": 0.6667, "support": 1}
    assert report["b"] == {"precision": 1.0, "recall": 0.5, "f1": 0.6667, "support": 2}
    assert scores.tables["confusion"]["counts"] == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert scores.tables["mistakes"] == [
        {"text": "text 2", "true": "b", "predicted": "a", "probability": 0.6}
    ]
    assert scores.tables["reliability"] == [{"confidence": 0.6, "accuracy": 0.75, "texts": 4}]


def test_evaluation_of_unknown_labels_only_has_no_nan() -> None:
    scores = make_evaluator([0, 1]).evaluate(encode([[-1], [-1]], {"x": 1, "y": 1}))
    assert scores["accuracy"] == scores["macro_f1"] == 0
    assert all(np.isfinite(value) for value in scores.values())
    assert scores.omitted == {"loss": "the run knows none of the labels"}
    assert scores.tables["mistakes"] == []


def test_report_and_confusion_of_many_labels_are_bounded() -> None:
    count = 500
    recipe = ClassifyRecipe()
    vocabulary = LabelVocabulary([], [f"label {n}" for n in range(count)], [2] * count)
    scorer = FixedScorer(recipe, np.eye(count), vocabulary)
    scores = LabelEvaluator(scorer).evaluate(encode([[n] for n in range(count)]))
    assert len(scores.tables["classes"]) == 100 and "confusion" not in scores.tables
    assert scores["recall_at_5"] == scores["accuracy"] == 1


def test_confusion_figure_counts_predictions_of_every_label() -> None:
    count = 45
    vocabulary = LabelVocabulary([], [f"label {n}" for n in range(count)], [2] * count)
    logits = np.eye(count)
    logits[0] = np.eye(count)[44]  # a rare label is predicted for a text of the first one
    split = encode([[n] for n in range(count)])
    inspector = LabelInspector(FixedScorer(ClassifyRecipe(), logits, vocabulary))
    figure = inspector.figures({"test": split})["confusion.png"]
    assert isinstance(figure, ConfusionMatrix) and len(figure.classes) == count
    assert figure.counts.sum() == count and figure.counts[0, 44] == 1


def test_macro_f1_is_reported_only_for_texts_of_one_label() -> None:
    split = encode([[0, 1], [1], [2]])
    scores = make_evaluator([1, 1, 0]).evaluate(split)
    assert scores["accuracy"] == pytest.approx(2 / 3) and "macro_f1" not in scores


def test_multi_label_evaluator_reports_f1_and_exact_matches() -> None:
    split = encode([[0, 1], [1], [2]])
    multi = make_evaluator([1, 1, 0], multi_label=True)
    scores = multi.evaluate(split)
    assert scores["micro_f1"] == pytest.approx(2 * 2 / (4 + 3))
    assert scores["macro_f1"] == pytest.approx(np.mean([0, 1, 0]))
    assert scores["exact"] == pytest.approx(1 / 3)
    assert "accuracy" not in scores and "confusion" not in scores.tables
    assert multi.metric == ComparisonMetric("micro_f1", True, 100.0)


def test_floor_is_a_model_that_predicts_the_majority_label() -> None:
    train = encode([[1], [0], [1], [-1], [-1], [-1]])  # unknown labels are not counted
    split = encode([[0], [1], [1], [2], [-1]])
    evaluator = make_evaluator([1] * 5)
    scores = evaluator.evaluate(split)
    floors = evaluator.floors(train, split)
    assert floors["majority label"] == {
        name: pytest.approx(scores[name], rel=1e-15) for name in ("accuracy", "macro_f1")
    }
    assert scores["accuracy"] == pytest.approx(2 / 5)


def test_multi_label_floor_has_f1_of_the_majority_label() -> None:
    split = encode([[0, 1], [1, 2], [2], [0, 1, 2]])
    evaluator = make_evaluator([1] * 4, multi_label=True)
    scores = evaluator.evaluate(split)
    floor = evaluator.floors(encode([[1, 0], [1]]), split)["majority label"]
    assert floor == pytest.approx({name: scores[name] for name in floor})


def test_paired_scores_are_those_of_single_texts() -> None:
    evaluator = make_evaluator([0, 1, 2])
    split = encode([[0], [2], [-1]])
    predictions = [Prediction("a"), Prediction("b"), Prediction("c")]
    scores = evaluator.score_each(split, predictions)
    assert scores is not None and scores.tolist() == [100, 0, 0]
    assert evaluator.inputs(split) == list(split.texts)


def test_scores_on_the_training_data_are_not_called_held_out(
    tmp_path: Path, no_report: None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_texts(tmp_path / "topics.tsv", topics(60))
    fixed = ["model.word_ngrams=1", "model.char_ngrams=0", "model.penalty=0.1", "train.threads=1"]
    settings = [part for each in fixed for part in ("--set", each)]
    command = ["train", "classify", "--data", str(path), *settings, "--out"]
    assert main([*command, str(tmp_path / "part")]) == 0
    assert "On held-out data:" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "all"), "--set", "data.test_share=0"]) == 0
    assert "On the training data:" in capsys.readouterr().err


def test_labels_of_a_frame_that_the_run_does_not_know_are_named(
    tmp_path: Path, no_report: None
) -> None:
    run = train_classifier(write_texts(tmp_path / "topics.tsv", topics(100)), tmp_path / "run")
    frame = pandas.DataFrame({"text": ["the moon"] * 50, "label": ["x", "y"] * 25})
    message = r"got the labels 'x', 'y'; expected those of the classifier: '(food|sky)'"
    with pytest.raises(DataError, match=message) as caught:
        run.evaluate(frame, columns={"text": "text", "label": "label"})
    assert "the moon" not in str(caught.value)


# --- rejected labels ------------------------------------------------------------------------------


def test_labels_that_do_not_repeat_are_refused(tmp_path: Path) -> None:
    rows = [LabelledText((f"own{n}",), f"class {n % 2} text") for n in range(60)]
    path = write_texts(tmp_path / "unique.txt", rows, fasttext_format=True)
    message = r"different labels .* expected labels that repeat.* --text COLUMN --label COLUMN"
    with pytest.raises(DataError, match=message):
        train_classifier(path, tmp_path / "run", **{"data.dev_share": 0, "data.test_share": 0})
    rows = [LabelledText((f"own{n % 2}",), "good") for n in range(60)]
    same = write_texts(tmp_path / "same.txt", rows, fasttext_format=True)
    with pytest.raises(DataError, match=r"got 60 texts, which are all held out"):
        train_classifier(same, tmp_path / "run")
    assert not (tmp_path / "run").exists()
