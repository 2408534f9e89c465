"""Pretraining of BERT through the run folder, and what a user does with it."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.text.masking import mask_rows
from saccade.errors import ConfigError, DataError, SaccadeError
from saccade.recipes.resolve import resolve_finetune_recipe, resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.masked_language_modeling.data import prepare_pretraining
from saccade.tasks.masked_language_modeling.objective import MaskedBatch

TOPICS = [
    "cat fish milk mouse",
    "bread oven flour bake",
    "rain cloud storm wind",
    "goal ball team match",
    "king crown throne castle",
    "train rail station ticket",
]
SMALL = {
    "model.width": 64,
    "model.depth": 1,
    "model.heads": 2,
    "data.sequence_length": 24,
    "data.tokenizer.size": 160,
    "train.batch_tokens": 768,
    "train.threads": 1,
}


def documents(count: int) -> list[str]:
    """Return documents of three lines with words of one topic each."""
    draw = np.random.default_rng(0)
    chosen = [TOPICS[topic].split() for topic in draw.integers(len(TOPICS), size=count)]
    return ["\n".join(" ".join(draw.choice(words, 8)) for _ in range(3)) for words in chosen]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "topics.txt"
    path.write_text("\n\n".join(documents(200)) + "\n")
    return path


def recipe_for(text: Path, name: str = "bert", **changes: Any) -> Any:
    settings = SMALL | {key.replace("__", "."): value for key, value in changes.items()}
    return resolve_recipe(name, data=str(text), changes=settings).recipe


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "bert"
    recipe = recipe_for(text, train__steps=160, train__learning_rate=1e-2)
    train_recipe(recipe, folder, TrainOptions())
    return folder


@pytest.fixture
def run(trained: Path) -> Run:
    return load_run(trained)


def test_a_tiny_model_learns_the_topics_of_a_text(run: Run) -> None:
    found = run.evaluate()
    unigram = found.floors["token frequencies"]
    assert 20 < unigram["perplexity"] < 30  # of 24 words
    assert found["perplexity"] < 6  # of the 4 of a topic
    assert 0.2 < found["mask_accuracy"] and unigram["mask_accuracy"] < 0.2
    assert {*found.floors} == {"token frequencies", "majority class"}
    for topic in TOPICS:
        one, two, three, _ = topic.split()
        best = run.predict(f"{one} {two} [MASK] {three}", n_best=4)
        words = [answer.text.split()[2] for answer in (best, *best.alternatives)]
        assert {*words} == {*topic.split()}


def test_n_best_has_the_probabilities_of_the_tokens(run: Run) -> None:
    found = run.predict("cat fish [MASK] milk", n_best=5)
    every = (found, *found.alternatives)
    filler = run.predictor
    ids = filler.encode("cat fish [MASK] milk")  # type: ignore[attr-defined]
    with torch.no_grad():
        logits = run.model.eval()(torch.tensor([ids]))[0, ids.index(4)]
    logits[:5] = -torch.inf
    best = logits.log_softmax(0).topk(5)
    for one, id in zip(every, best.indices.tolist(), strict=True):
        token = run.preprocessor.token_of(id)
        joined = f"cat fish{token[2:]}" if token.startswith("##") else f"cat fish {token}"
        assert one.text == f"{joined} milk"
    expected = best.values.tolist()
    assert [one.log_probability for one in every] == pytest.approx(expected, rel=1e-5)
    assert json.loads(json.dumps(found.to_dict()))["alternatives"][0]["score"] == every[1].score


def test_several_masks_are_filled_together(run: Run) -> None:
    found = run.predict("rain [MASK] [MASK] wind", n_best=3)
    assert {*found.text.split()} <= {*TOPICS[2].split()} and len(found.alternatives) == 2
    scores = [one.score for one in (found, *found.alternatives)]
    assert scores == sorted(scores, reverse=True)
    # the score is the chain rule over the masks, each given those before it
    filler = run.predictor
    ids = filler.encode("rain [MASK] [MASK] wind")  # type: ignore[attr-defined]
    best = filler.fill(ids, 3)[0]  # type: ignore[attr-defined]
    total, at = 0.0, [place for place, id in enumerate(ids) if id == 4]
    for place, token in zip(at, best.tokens, strict=True):
        with torch.no_grad():
            logits = run.model.eval()(torch.tensor([ids]))[0, place]
        logits[:5] = -torch.inf
        total += float(logits.log_softmax(0)[token])
        ids[place] = token
    assert best.log_probability == pytest.approx(total, rel=1e-5)
    many = run.predict("[MASK]", n_best=1000)
    assert len(many.alternatives) == run.preprocessor.vocab_size - 5 - 1


@pytest.mark.parametrize(
    ("raw", "options", "message"),
    [
        ("The cat", {}, r"got a text without \[MASK\]; expected one or more"),
        ("[MASK] " + "cat " * 40, {}, "input 1: got 43 tokens; expected 24 at most"),
        ("[MASK]", {"beam": 3}, "got beam; expected n_best alone"),
    ],
)
def test_wrong_inputs_of_predict(run: Run, raw: Any, options: Any, message: str) -> None:
    with pytest.raises(SaccadeError, match=message):
        run.predict([raw], **options)


def test_attention_of_texts_with_and_without_masks(run: Run) -> None:
    for text in ("the [MASK] mouse", "the cat mouse"):
        found = run.look(text, layer=1, head=2)
        (map_,) = found.maps.values()  # type: ignore[union-attr]
        assert map_.rows[0] == "[CLS]" and map_.rows[-1] == "[SEP]" == map_.columns[-1]
        np.testing.assert_allclose(map_.weights.sum(1), 1, atol=1e-6)
    assert found.title == "bert: the cat mouse"  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="no self attention with layer 2"):
        run.look("The cat", layer=2)
    with pytest.raises(DataError, match="got 42 tokens; expected 24 at most"):
        run.look("cat " * 40)


def test_checks_pass_and_find_a_fault(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    run = load_run(tmp_path / "run")
    verdicts = {result.invariant: result.verdict for result in run.check(inputs=5)}
    names = ("batch invariance", "padding invariance", "targets alone equal all positions")
    assert all(verdicts[name] == "passed" for name in (*names, "reload consistency"))
    encode = run.model.encoder.encode
    monkeypatch.setattr(run.model.encoder, "encode", lambda x, lengths=None: encode(x, None))
    verdicts = {result.invariant: result.verdict for result in run.check(inputs=5)}
    assert verdicts["batch invariance"] == verdicts["padding invariance"] == "FAILED"


def objective_of(text: Path, **changes: Any) -> Any:
    recipe = recipe_for(text, **changes)
    data = prepare_pretraining(recipe, PrepareContext())
    from saccade.tasks.masked_language_modeling.components import BERT

    model = BERT.build_model(data.recipe, data.preprocessor)
    assert BERT.objective is not None
    return BERT.objective(data.recipe, model, data.preprocessor, data.splits)


def equal(one: MaskedBatch, two: MaskedBatch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one[:5], two[:5], strict=True) if a is not None)


def test_batches_are_functions_of_seed_and_step(text: Path) -> None:
    objective = objective_of(text)
    first = list(itertools.islice(objective.batches("train", 0), 30))
    later = list(itertools.islice(objective.batches("train", 25), 5))
    assert objective.batches_in_epoch() < 25
    assert all(map(equal, first[25:], later))
    assert not equal(first[0], first[1])


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_static_masks_are_those_of_the_first_epoch(text: Path, masking: str) -> None:
    objective = objective_of(text, data__masking=masking)
    maker = objective.makers["train"]
    windows = np.arange(8)
    one, two = (maker.batch(windows, 1, epoch) for epoch in (0, 1))
    assert equal(one, two) == (masking == "static")


def test_whole_words_are_masked_together(text: Path) -> None:
    objective = objective_of(text, data__whole_words=True, data__tokenizer__size=60)
    maker = objective.makers["train"]
    rows = maker.packing.rows(np.arange(0, 4000, 20), 3)
    chosen = mask_rows(rows, 0.15, maker.vocab_size, 3, whole_words=True).is_target
    inner = ~rows.starts_word[:, 1:]
    assert inner.any() and (chosen[:, 1:][inner] == chosen[:, :-1][inner]).all()


def test_resumed_training_has_the_same_bits(
    text: Path, tmp_path: Path, no_report: None, outcome_of: Callable[[Path], dict[str, Any]]
) -> None:
    recipe = recipe_for(
        text,
        train__steps=6,
        train__evaluate_every=2,
        train__checkpoint_seconds=0,
        model__dropout=0.1,
        data__whole_words=True,
    )
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def interrupt(event: Any) -> None:
        if getattr(event, "step", 0) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=interrupt))
    assert resume(tmp_path / "resumed", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")


def test_one_segment_and_bfloat16(text: Path, tmp_path: Path, no_report: None) -> None:
    recipe = recipe_for(
        text, "bert-small", train__steps=60, train__dtype="bfloat16", train__learning_rate=1e-2
    )
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    assert run.recipe.model.model_dump()["segments"] == 1
    assert run.model.next_sentence is None
    found = run.evaluate()
    assert "next_sentence_accuracy" not in found and "one segment" in str(found.omitted)
    assert found["loss"] < found.floors["token frequencies"]["loss"]


def test_fine_tuning_on_another_text(trained: Path, tmp_path: Path, no_report: None) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for number, document in enumerate(documents(30)):
        (other / f"{number:02}.txt").write_text(document)
    recipe = resolve_finetune_recipe(trained, str(other), changes={"train.steps": 3})
    run = train_recipe(recipe, tmp_path / "tuned", TrainOptions(init_from=trained)).run
    base = load_run(trained)
    assert run.preprocessor.to_json() == base.preprocessor.to_json()
    assert run.data().splits["train"].document_starts.size > 20  # one for each file
    assert run.metadata["from"] == str(trained)
    assert set(run.evaluate(str(other / "00.txt")).metrics) >= {"loss", "mask_accuracy"}


def test_documents_are_the_cells_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "topics.csv"
    rows = [json.dumps(document).replace("\\n", "\n") for document in documents(80)]
    path.write_text("number,review\n" + "\n".join(f"{n},{row}" for n, row in enumerate(rows)))
    data = prepare_pretraining(recipe_for(path), PrepareContext())
    count = sum(len(split.document_starts) for split in data.splits.values())
    kept = len(set(documents(80)))
    assert kept <= count <= 80
    assert any("'review'" in choice.reason or choice.value == "review" for choice in data.choices)


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        ("", {}, "got no text"),
        ("cat", {}, "got "),
        ("The cat eats.\n" * 50, {"model__max_length": 8}, "expected sequences that fit"),
        ("The cat eats.\n" * 50, {"model__pooler": False}, "try data.pairs=false"),
    ],
)
def test_unusable_texts_and_settings(
    tmp_path: Path, content: str, changes: dict[str, Any], message: str
) -> None:
    path = tmp_path / "text.txt"
    path.write_text(content)
    with pytest.raises(SaccadeError, match=message):
        prepare_pretraining(recipe_for(path, **changes), PrepareContext())


def test_a_text_in_another_script_is_refused(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "greek.txt"
    path.write_text("Η γάτα τρώει ψάρι\n\n" * 60)
    recipe = resolve_finetune_recipe(trained, str(path))
    with pytest.raises(DataError, match="unknown tokens; expected a text in the script"):
        train_recipe(recipe, tmp_path / "tuned", TrainOptions(init_from=trained))
