"""Taggers through the run folder: training, reload, checks, figures, resume and bad input."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.datasets import TAGGED_DATASETS, is_local
from saccade.data.tagging.synthetic import generate_tagged_sentences
from saccade.data.wordpiece import CLS, SEP, WordPieceTokenizer
from saccade.errors import ConfigError, DataError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.tagging.data import prepare_tagged
from saccade.tasks.tagging.evaluate import majority_tags
from saccade.tasks.tagging.probing import fit_probe, layer_vectors, probe_layers
from saccade.tasks.tagging.sentences import TagVocabulary

SMALL = {
    "model.word_width": 12,
    "model.character_filters": 12,
    "model.hidden": 16,
    "model.dropout": 0.1,
    "train.threads": 1,
    "train.learning_rate": 0.01,
    "train.batch_tokens": 256,
    "train.steps": 200,
    "train.evaluate_every": 50,
}
TEXT = "Olga Wesings paid 8,702 yen for a ticket to Upper Penworth."
VERBS, NOUNS = ("runs", "sings", "jumps"), ("cat", "dog", "bird")


def train(folder: Path, data: str | None = None, model: str = "bilstm_tagger", **more: Any) -> Run:
    changes = SMALL | {name.replace("__", "."): value for name, value in more.items()}
    recipe = resolve_recipe("tag", data=data, model=model, changes=changes).recipe
    train_recipe(recipe, folder, TrainOptions())
    return load_run(folder)


@pytest.fixture(scope="module")
def spans_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with a CRF, trained on the generated sentences."""
    return train(tmp_path_factory.mktemp("runs") / "spans").folder


@pytest.fixture(scope="module")
def words_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run without spans and without a CRF."""
    folder = tmp_path_factory.mktemp("runs")
    rows = [f"the DET\n{a} NOUN\n{b} VERB\n\n" for a in NOUNS for b in VERBS for _ in range(3)]
    (folder / "pos.conll").write_text("".join(rows))
    settings: dict[str, Any] = {"data.scheme": "plain", "model.output": "linear"}
    settings |= {"data.dev_share": 0.0, "data.test_share": 0.0, "train.steps": 30}
    more = {name.replace(".", "__"): value for name, value in settings.items()}
    return train(folder / "run", str(folder / "pos.conll"), "cnn_tagger", **more).folder


def test_tagger_is_above_its_floor_on_new_names(spans_run: Path) -> None:
    run = load_run(spans_run)
    found = run.evaluate()
    floor = found.floors["most frequent tag of the word"]
    assert found["f1"] > 0.9 > floor["f1"] + 0.2
    assert found["accuracy"] > floor["accuracy"]
    rows = {row["label"]: row for row in found.tables["classes"]}
    assert {*rows} == {"amount", "date", "person", "location", "time"}
    assert sum(row["true"] for row in rows.values()) > 0
    seqeval = pytest.importorskip("seqeval.metrics")
    split = run.split("test")
    predicted = [[*tags] for tags in (p.tags for p in run.predict(run.evaluator.inputs(split)))]
    true = [[*sentence.tags] for sentence in split.sentences]
    assert found["f1"] == pytest.approx(seqeval.f1_score(true, predicted))
    assert found["accuracy"] == pytest.approx(seqeval.accuracy_score(true, predicted))


def test_prediction_has_spans_at_their_positions(spans_run: Path) -> None:
    run = load_run(spans_run)
    found = run.predict(TEXT)
    assert found.spans is not None and found.tokens is not None and found.tags is not None
    assert [(s["label"], s["text"]) for s in found.spans] == [
        ("person", "Olga Wesings"),
        ("amount", "8,702 yen"),
        ("location", "Upper Penworth"),
    ]
    for span in found.spans:
        assert TEXT[span["start"] : span["end"]] == span["text"] and 0 < span["score"] <= 1
    assert found.text.startswith("[Olga Wesings](person) paid [8,702 yen](amount) for")
    assert len(found.tags) == len(found.tokens)
    [same] = run.predict([found.tokens])
    assert same.tags == found.tags
    empty = run.predict("  ")
    assert (empty.text, empty.tags, empty.spans) == ("  ", (), ())
    with pytest.raises(ConfigError, match=r"got a tuple; expected a text, or a tuple of words"):
        run.predict([("a", 1)])


def test_checks_pass(spans_run: Path, words_run: Path) -> None:
    for folder in (spans_run, words_run):
        results = {r.invariant: r for r in load_run(folder).check(inputs=5)}
        assert all(r.passed for r in results.values() if r.num_inputs), results


def test_plain_tags_are_labels_of_their_own(words_run: Path) -> None:
    run = load_run(words_run)
    found = run.evaluate()
    assert found["accuracy"] == 1 and "f1" not in found
    assert {row["label"] for row in found.tables["classes"]} == {"DET", "NOUN", "VERB"}
    prediction = run.predict("the dog sings")
    assert prediction.text == "the/DET dog/NOUN sings/VERB" and prediction.spans is None
    scores = run.evaluator.score_each(
        run.split("test"), run.predict(run.evaluator.inputs(run.split("test")))
    )
    assert scores is not None and (scores == 100).all()


def test_maps_show_probabilities_words_and_moves(spans_run: Path, words_run: Path) -> None:
    run = load_run(spans_run)
    maps = run.look(TEXT).maps
    assert [*maps] == [("tags", 1), ("saliency", 1), ("transitions", 1)]
    tags = maps["tags", 1]
    assert np.allclose(tags.values.sum(0), 1, atol=1e-4)
    best = [tags.rows[row] for row in tags.values.argmax(0)]
    assert best == [*(run.predict(TEXT).tags or ())]
    moves = maps["transitions", 1]
    names = moves.columns
    for row, before in enumerate(moves.rows):
        for column, tag in enumerate(names):
            valid = not tag.startswith("I-") or before in (f"B-{tag[2:]}", tag)
            assert np.isnan(moves.values[row, column]) == (not valid)
    assert {*load_run(words_run).inspector.heat_map_kinds} == {"tags", "saliency"}
    with pytest.raises(ConfigError, match="without words"):
        run.look("   ")


def test_maps_are_drawn(spans_run: Path, tmp_path: Path) -> None:
    run = load_run(spans_run)
    assert {*run.inspector.figures(run.data().splits)} == {"confusion.png", "transitions.png"}
    run.look(TEXT).save(tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000
    json.dumps(run.look(TEXT).to_dict())


def test_saliency_is_the_derivative_of_the_score(spans_run: Path) -> None:
    """Σ_d g_d x_d of a word is the derivative of the score by the scale of its vector."""
    run = load_run(spans_run)
    inspector: Any = run.inspector
    given = inspector.predictor.parse("Ada Berg sang in Elmford", 1)
    model = run.model.double().requires_grad_(False)
    inputs = inspector._inputs(given)
    values = inspector._saliency_map(given).values
    x = model.embed(inputs).detach()
    best = model.decode(model.emissions(x, inputs).float(), inputs.lengths)[0]

    def score(position: int, word: int, scale: float) -> float:
        changed = x.clone()
        changed[0, word] *= scale
        emissions = model.emissions(changed, inputs)[0, position]
        return float(emissions[best[position]] - emissions.mean())

    for position, word in ((0, 0), (1, 0), (4, 3)):
        slope = (score(position, word, 1 + 1e-4) - score(position, word, 1 - 1e-4)) / 2e-4
        assert values[position, word] == pytest.approx(slope, abs=1e-4, rel=1e-3)


def test_resumed_training_has_the_same_bits(
    tmp_path: Path, outcome_of: Callable[[Path], dict[str, Any]]
) -> None:
    settings = {"train__steps": 12, "train__evaluate_every": 6, "train__checkpoint_seconds": 0}
    train(tmp_path / "whole", **settings)

    class Interrupted(Exception):
        """Ends a training as a kill would."""

    def interrupt(event: Any) -> None:
        if event.step == 7:
            raise Interrupted

    changes = SMALL | {name.replace("__", "."): value for name, value in settings.items()}
    recipe = resolve_recipe("tag", changes=changes).recipe
    with pytest.raises(Interrupted):
        train_recipe(recipe, tmp_path / "part", TrainOptions(on_event=interrupt))
    resume(tmp_path / "part", {}, TrainOptions())
    assert outcome_of(tmp_path / "part") == outcome_of(tmp_path / "whole")


def test_word_vectors_are_the_start(tmp_path: Path) -> None:
    vectors = {"ada": (1.0, 2.0), "unseen": (3.0, 4.0), "Paris": (5.0, 6.0)}
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items()]
    (tmp_path / "vectors.txt").write_text("".join(lines))
    settings = {"model__vectors": str(tmp_path / "vectors.txt"), "train__steps": 1}
    changes = {k: v for k, v in SMALL.items() if k != "model.word_width"}
    recipe = resolve_recipe(
        "tag",
        changes=changes
        | {k.replace("__", "."): v for k, v in settings.items()}
        | {"model.frozen_vectors": True},
    ).recipe
    train_recipe(recipe, tmp_path / "run", TrainOptions())
    run = load_run(tmp_path / "run")
    ids = {word: number + 2 for number, word in enumerate(run.preprocessor.words)}
    table = run.model.words.weight
    for word, row in vectors.items():
        assert table[ids[word.lower()]].tolist() == [*row]
    assert run.recipe.model.word_width == 2 and not table.requires_grad
    assert run.metadata["from"] == str(tmp_path / "vectors.txt")


# --- data -----------------------------------------------------------------------------------------


def prepare(**changes: Any) -> Any:
    settings = {name.replace("__", "."): value for name, value in changes.items()}
    recipe = resolve_recipe("tag", changes=settings).recipe
    return prepare_tagged(recipe, PrepareContext())


def test_splits_share_no_sentence(tmp_path: Path) -> None:
    data = prepare()
    rows = {name: {s.tokens for s in split.sentences} for name, split in data.splits.items()}
    assert not rows["train"] & (rows["dev"] | rows["test"]) and not rows["dev"] & rows["test"]
    path = tmp_path / "test.conll"
    path.write_text(
        "\n".join(map(" ".join, zip(*data.splits["train"].sentences[0][:2], strict=True)))
    )
    again = prepare(data__test=str(path))
    assert len(again.splits["test"]) == 1
    held_out = again.splits["test"].sentences[0].tokens
    assert held_out not in {s.tokens for s in again.splits["train"].sentences}
    assert any("held out in another split" in note for note in again.notes)


def test_floor_is_the_most_frequent_tag_of_a_word(words_run: Path) -> None:
    split = load_run(words_run).split("train")
    expected = [list(sentence.tags) for sentence in split.sentences]
    assert majority_tags(split, split) == expected


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("".join(f"a O\nb{n} O\n\n" for n in range(40)), "got the same tag .O. for all"),
        ("".join(f"w{n} B-t{n}\n\n" for n in range(80)), "expected tags that repeat"),
    ],
)
def test_tags_that_cannot_be_learned_are_refused(tmp_path: Path, rows: str, message: str) -> None:
    (tmp_path / "a.conll").write_text(rows)
    with pytest.raises(DataError, match=message):
        prepare(data__path=str(tmp_path / "a.conll"), data__synthetic=None)


def test_data_with_other_tags_is_named(spans_run: Path, tmp_path: Path) -> None:
    run = load_run(spans_run)
    path = tmp_path / "other.conll"
    path.write_text("Ada B-person\nin O\nRome B-city\n")
    found = run.evaluate(str(path))
    assert "1 tokens have tags that the run does not know (B-city)" in found.notes[0]
    path.write_text("Ada B-name\n")
    with pytest.raises(DataError, match="all unknown to the run"):
        run.evaluate(str(path))


@pytest.mark.skipif(not is_local(TAGGED_DATASETS["wnut17"]), reason="WNUT-17 is not here")
def test_published_set_has_its_splits() -> None:
    data = prepare(data__dataset="wnut17", data__synthetic=None)
    assert {name: len(split) for name, split in data.splits.items()} == {
        "train": 3394,
        "dev": 1009,
        "test": 1287,
    }
    assert len(data.preprocessor.tags) == 13


# --- encoders -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def elmo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tagger that starts from a small ELMo."""
    folder = tmp_path_factory.mktemp("runs")
    text = folder / "text.txt"
    sentences = generate_tagged_sentences()[:300]
    text.write_text("\n".join(" ".join(sentence.tokens) for sentence in sentences))
    changes = {
        "model.width": 16,
        "model.filters": 6,
        "train.learning_rate": 0.02,
        "train.steps": 30,
        "train.report_every": 5,
        "train.batch_tokens": 512,
        "train.evaluate_every": 30,
        "train.threads": 1,
        "data.segment_length": 16,
    }
    recipe = resolve_recipe("language", data=str(text), model="elmo", changes=changes).recipe
    train_recipe(recipe, folder / "elmo", TrainOptions())
    tagging = {k: v for k, v in SMALL.items() if k != "model.dropout"}
    tagging |= {"train.steps": 60, "model.word_width": 8}
    start = folder / "elmo"
    recipe = resolve_recipe("tag", changes=tagging, init_from=start).recipe
    train_recipe(recipe, folder / "tag", TrainOptions(init_from=start))
    return folder


def test_elmo_is_pretrained_on_text(elmo_run: Path) -> None:
    run = load_run(elmo_run / "elmo")
    losses = [row["loss"] for row in run.metrics() if "loss" in row]
    assert losses[-1] < losses[0]
    found = run.evaluate()
    assert "mean of both models" in found.conventions["loss"] and 0 < found["accuracy"] < 1
    assert "___" not in run.predict("Olga Wesings ___ 8,702 yen").text
    assert all(result.passed for result in run.check(inputs=3) if result.num_inputs)


def test_tagger_starts_from_the_layers_of_an_elmo(elmo_run: Path) -> None:
    elmo, run = load_run(elmo_run / "elmo"), load_run(elmo_run / "tag")
    assert run.recipe.model_name == "elmo" and run.recipe.model.width == 16
    assert run.metadata["from"] == str(elmo_run / "elmo")
    weights = elmo.model.state_dict()
    for name, value in run.model.elmo.state_dict().items():
        assert torch.equal(value, weights[name])
    assert all(result.passed for result in run.check(inputs=3) if result.num_inputs)
    shares = run.look(TEXT, kind="layers").maps["layers", 1]
    assert shares.columns == ["characters", "LSTM 1", "LSTM 2"]
    assert shares.values.sum() == pytest.approx(1.0)
    assert not np.allclose(shares.values, 1 / 3, atol=1e-4)


def test_probe_is_a_ridge_regression_on_each_layer(elmo_run: Path) -> None:
    run = load_run(elmo_run / "tag")
    scorer = run.inspector.scorer  # type: ignore[attr-defined]
    train_split, test_split = run.split("train"), run.split("test")
    found = probe_layers(scorer, train_split, test_split)
    assert len(found.metrics) == 3 and found.name == "f1"
    random = np.random.default_rng(0)
    x, tags = random.standard_normal((50, 4)), np.eye(3)[random.integers(3, size=50)]
    probe = fit_probe(x, tags)
    z = np.c_[(x - x.mean(0)) / (x.std(0) + 1e-6), np.ones(50)]
    gradient = z.T @ (z @ probe.weights - tags) + probe.weights
    assert np.abs(gradient).max() < 1e-9
    assert {"probe.png", "layers.png"} <= {*run.inspector.figures(run.data().splits)}


def test_layers_are_those_of_each_sentence_by_itself(elmo_run: Path) -> None:
    run = load_run(elmo_run / "tag")
    scorer, split = run.inspector.scorer, run.split("test").take(6)  # type: ignore[attr-defined]
    together = layer_vectors(scorer, split)
    first = replace(split, sentences=split.sentences[:1])
    for layer, alone in zip(together, layer_vectors(scorer, first), strict=True):
        assert np.allclose(layer[: len(alone)], alone, atol=1e-5)


def test_bert_tags_the_first_piece_of_each_word(tmp_path: Path) -> None:
    changes = {
        "model.width": 16,
        "model.depth": 1,
        "train.steps": 2,
        "train.threads": 1,
    }
    recipe = resolve_recipe("tag", model="bert", changes=changes).recipe
    train_recipe(recipe, tmp_path / "run", TrainOptions())
    run = load_run(tmp_path / "run")
    scorer = run.inspector.scorer  # type: ignore[attr-defined]
    words = ["Upper", "Penworth", "zzyzx", "."]
    table = scorer.encode([words, ["Ada"]])
    tokenizer = scorer.encoder.tokenizer
    pieces = tokenizer.encode_words(words)
    ids = table.ids.rows[: table.ids.starts[1]].tolist()
    assert ids == [CLS, *(piece for word in pieces for piece in word), SEP]
    firsts = table.rows.rows[:4].tolist()
    assert firsts == [1 + sum(map(len, pieces[:at])) for at in range(4)]
    inputs = scorer.inputs(table, np.arange(2))
    hidden = run.model.eval().encoder(inputs.ids, lengths=inputs.id_lengths)
    expected = run.model.output(hidden[0, firsts])
    torch.testing.assert_close(run.model(inputs)[0, :4], expected)
    assert inputs.words_of_positions()[firsts[2]] == 2 and inputs.words_of_positions()[0] == -1
    assert all(result.passed for result in run.check(inputs=3) if result.num_inputs)
    long = scorer.encode([["Ada"] * 600])
    assert len(long.ids.rows) == 512 and max(long.rows.rows) == 511
    assert len(run.predict(" ".join(["Ada"] * 600)).tags or ()) == 600


def test_encoder_of_another_language_is_refused(tmp_path: Path) -> None:
    pieces = WordPieceTokenizer.fit(["дом кот лес"] * 5)
    vocabulary = TagVocabulary.from_tokenizer(pieces)
    recipe = resolve_recipe("tag", model="bert", changes={"model.width": 4}).recipe
    with pytest.raises(DataError, match="pieces are not in the vocabulary of the encoder"):
        prepare_tagged(recipe, PrepareContext(preprocessor=vocabulary))
