import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from saccade.config import override_settings
from saccade.data.vocabulary import BOS, EOS
from saccade.errors import ConfigError, DataError
from saccade.recipes.resolve import resolve_recipe
from saccade.recipes.translation import reverse_recipe
from saccade.runs.run import Run, TrainOptions, load_run, train_recipe
from saccade.tasks.translation import (
    TranslationTask,
    parse_attention_name,
    prepare_pairs,
    score_translations,
)

MODELS = ("bahdanau", "seq2seq", "transformer")
Recipes = Callable[..., Any]


def task_of(recipe: Any) -> TranslationTask:
    prepared = prepare_pairs(recipe, lambda what, done, total: None)
    task = TranslationTask(prepared.recipe, prepared.vocabulary)
    task.attach_data(prepared)
    return task


@pytest.fixture(scope="module")
def tasks(smallest: Recipes) -> dict[str, TranslationTask]:
    """An untrained task of each model."""
    return {model: task_of(smallest(model)) for model in MODELS}


# --- the loss -------------------------------------------------------------------------------------


def alone(task: TranslationTask, source: str, target: str, smoothing: float) -> tuple[float, int]:
    """Loss and right tokens of one pair, a step at a time and with nothing padded."""
    model: Any = task.model
    ids = [*task.tokenizers.source.encode(source), EOS]
    wanted = [*task.tokenizers.target.encode(target), EOS]
    state = model.init_state(model.encode(torch.tensor([ids]), None))
    total, right, before = 0.0, 0, BOS
    for now in wanted:
        logits, state = model.step(torch.tensor([[before]]), state)
        log_p = logits[0, 0].double().log_softmax(0)
        total -= (1 - smoothing) * float(log_p[now]) + smoothing * float(log_p.mean())
        right += int(log_p.argmax() == now)
        before = now
    return total, right


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("model", MODELS)
def test_the_loss_is_that_of_each_sentence_alone(
    model: str, smoothing: float, smallest: Recipes
) -> None:
    task = task_of(smallest(model, {"train.label_smoothing": smoothing, "model.dropout": 0.0}))
    task.model.eval()
    with torch.no_grad():
        for batch in list(task.batches("dev")) + [next(iter(task.batches("train")))]:
            split = "dev" if set(batch.lines) <= set(task.pairs["dev"].lines.tolist()) else "train"
            rows = np.flatnonzero(np.isin(task.pairs[split].lines, batch.lines))
            slow = [alone(task, *task.pairs[split][int(row)], smoothing) for row in rows]
            loss = task.loss(batch)
            assert float(loss.total) == pytest.approx(sum(total for total, _ in slow), rel=1e-5)
            assert int(loss.correct) == sum(right for _, right in slow)


@pytest.mark.parametrize("model", MODELS)
def test_padding_never_reaches_the_projection(
    model: str, tasks: dict[str, TranslationTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, seen = tasks[model], []
    pre_logits: Any = task.model.pre_logits

    def looking(hidden: Tensor) -> Tensor:
        seen.append(hidden.shape[:-1].numel())
        return pre_logits(hidden)

    monkeypatch.setattr(task.model, "pre_logits", looking)
    padded = 0
    for batch in task.batches("dev"):
        task.loss(batch)
        assert seen.pop() == batch.tokens
        padded += batch.target_in.numel() - batch.tokens
    assert padded > 0, "no batch had any padding, so nothing was seen"


@pytest.mark.parametrize("model", MODELS)
def test_the_mean_loss_is_over_all_tokens_of_the_split(
    model: str, tasks: dict[str, TranslationTask]
) -> None:
    task = tasks[model]
    task.model.eval()
    with torch.no_grad():
        slow = [alone(task, source, target, 0.0)[0] for source, target in task.pairs["dev"]]
    tokens = sum(len(target) + 1 for _, target in task.pairs["dev"])
    figures = task.mean_loss("dev")
    assert figures["loss"] == pytest.approx(sum(slow) / tokens, rel=1e-5)
    assert figures["perplexity"] == pytest.approx(np.exp(sum(slow) / tokens), rel=1e-4)


def test_the_initial_weights_follow_from_the_seed_alone(smallest: Recipes) -> None:
    def weights(seed: int) -> Tensor:
        torch.randn(3)  # what the caller draws has no say
        task = task_of(smallest("bahdanau", {"train.seed": seed}))
        return torch.cat([p.flatten() for p in task.model.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


# --- batches --------------------------------------------------------------------------------------


def test_training_batches_taken_up_later_are_the_same(tasks: dict[str, TranslationTask]) -> None:
    task = tasks["bahdanau"]
    stream = task.batches("train")
    lines = [next(stream).lines for _ in range(25)]
    for start in (0, 1, 8, 9, 20):
        assert next(task.batches("train", start)).lines == lines[start]


def test_held_out_pairs_come_once_each_and_no_training_pair_is_among_them(
    tasks: dict[str, TranslationTask],
) -> None:
    task = tasks["bahdanau"]
    dev = [line for batch in task.batches("dev") for line in batch.lines]
    assert sorted(dev) == sorted(task.pairs["dev"].lines.tolist())
    assert not set(dev) & set(task.pairs["train"].lines.tolist())


# --- answers --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opened(trained_runs: dict[str, Path]) -> dict[str, Run]:
    return {model: load_run(folder) for model, folder in trained_runs.items()}


@settings(max_examples=10)
@given(texts=st.lists(st.text(alphabet="abcdef", max_size=6), max_size=8))
@pytest.mark.parametrize("model", MODELS)
def test_answers_come_in_the_order_of_the_questions(
    model: str, texts: list[str], opened: dict[str, Run]
) -> None:
    task = opened[model].task
    together = task.predict(texts)
    assert len(together) == len(texts)
    for text, answer in zip(texts, together, strict=True):
        single = task.predict([text])[0]
        # nearly equal scores may fall either way; the words themselves must not wander
        assert answer.text == single.text
        assert answer.score == pytest.approx(single.score, abs=1e-4)


def test_an_empty_line_has_an_empty_answer(opened: dict[str, Run]) -> None:
    for run in opened.values():
        first, empty, last = run.task.predict(["abc", "", "fed"])
        assert (empty.text, empty.log_probability, empty.finished) == ("", 0.0, True)
        assert run.task.predict([""]) == [empty]
        assert run.task.predict([]) == []
        assert run.task.predict(["abc", "fed"]) == [first, last]


def test_many_groups_make_the_same_answers(
    opened: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, texts = opened["bahdanau"].task, ["abc", "f", "abcdef", "de", "", "cab", "ffff"]
    told: list[int] = []
    whole = task.predict(texts)
    monkeypatch.setattr("saccade.tasks.translation.DECODE_BATCH_TOKENS", 8)
    parts = task.predict(texts, on_progress=told.append)
    assert [answer.text for answer in parts] == [answer.text for answer in whole]
    assert sum(told) == len(texts)
    assert len(told) > 3


def test_n_best_are_in_order_and_the_first_is_the_answer(opened: dict[str, Run]) -> None:
    for run in opened.values():
        [answer] = run.task.predict(["abc"], beam=4, n_best=3)
        scores = [answer.score, *(other.score for other in answer.alternatives)]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_an_input_too_long_is_named_with_its_number(smallest: Recipes) -> None:
    task = task_of(smallest("bahdanau", {"data.max_length": 7}))
    with pytest.raises(DataError, match=r"input 2 \(8 tokens\), 4 \(9 tokens\) is longer than the"):
        task.predict(["abc", "a" * 8, "", "b" * 9])
    with pytest.raises(DataError, match=r"input 1002 \(8 tokens\).*larger data\.max_length"):
        task.predict(["abc", "a" * 8], first=1001)


# --- pairs that are too long ----------------------------------------------------------------------


@pytest.fixture
def with_long_lines(words_file: Path, tmp_path: Path) -> Path:
    """The words, a quarter of them made too long by a tail."""
    lines = words_file.read_text().splitlines()
    longer = [f"{line}{'a' * 30}" if n % 4 == 0 else line for n, line in enumerate(lines)]
    path = tmp_path / "long.tsv"
    path.write_text("\n".join(longer) + "\n")
    return path


def test_pairs_too_long_are_refused_with_their_lines(with_long_lines: Path) -> None:
    recipe = resolve_recipe(str(with_long_lines), changes={"data.max_length": 20}).recipe
    with pytest.raises(DataError, match=rf"{with_long_lines.name}: \d+ pairs have .* \(line 1, 5"):
        task_of(recipe)


def test_pairs_too_long_can_be_left_out_of_everything(with_long_lines: Path) -> None:
    changes = {"data.max_length": 20, "data.on_too_long": "skip", "model.width": 8}
    recipe = resolve_recipe(str(with_long_lines), changes=changes).recipe
    prepared = prepare_pairs(recipe, lambda what, done, total: None)
    assert any("left out" in note for note in prepared.notes)
    task = TranslationTask(prepared.recipe, prepared.vocabulary)
    task.attach_data(prepared)
    for split in ("train", "dev", "test"):
        assert task.pairs[split].lines.tolist() == task.encoded[split].lines.tolist()
        assert all(line % 4 != 1 for line in task.pairs[split].lines.tolist())
    assert task.evaluate("dev")["examples"] == len(task.pairs["dev"])


def test_if_all_pairs_are_too_long_that_is_said(words_file: Path) -> None:
    changes = {"data.max_length": 1, "data.on_too_long": "skip", "data.tokenizer.kind": "character"}
    file = words_file.with_name("only-long.tsv")
    file.write_text("".join(f"ab{n}\tcd{n}\n" for n in range(40)))
    with pytest.raises(DataError, match="each of its .* none is left"):
        task_of(resolve_recipe(str(file), changes=changes).recipe)


# --- preparing ------------------------------------------------------------------------------------


def test_the_data_names_the_model_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "sentences.tsv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for n in range(60):
            file.write(f"this is sentence {n} of the file\tdies ist Satz {n} der Datei\n")
    found = resolve_recipe(str(path))
    open_ = prepare_pairs(found.recipe, lambda what, done, total: None, None, found.auto_model)
    assert open_.recipe.model.name == "transformer"
    assert open_.recipe.data.tokenizer.kind == "bpe"
    named = resolve_recipe(str(path), model="seq2seq")
    fixed = prepare_pairs(named.recipe, lambda what, done, total: None, None, named.auto_model)
    assert fixed.recipe.model.name == "seq2seq"


def test_preparing_tells_how_far_it_is(smallest: Recipes) -> None:
    told: list[tuple[str, int, int]] = []
    prepare_pairs(smallest(), lambda what, done, total: told.append((what, done, total)))
    assert told[-1] == ("encoding", 320, 320)


def test_a_width_that_heads_do_not_divide_is_a_setting_to_mend(smallest: Recipes) -> None:
    with pytest.raises(ConfigError, match="10 .*4 heads.*try 8 or 12"):
        task_of(smallest("transformer", {"model.width": 10, "model.heads": 4}))


# --- scores and maps ------------------------------------------------------------------------------


def test_scores_are_those_of_the_answers() -> None:
    answers = ["a b c d e", "x"]
    figures, conventions = score_translations(answers, ["a b c d e", "y"])
    assert figures["exact"] == 0.5
    assert figures["examples"] == 2
    assert set(conventions) == {"exact", "bleu", "chrf", "taught_bleu"}
    both, said = score_translations(["A b c d e"], ["a b c d E"], lower=True)
    assert list(both) == ["exact", "bleu", "bleu_lower", "chrf", "chrf_lower", "taught_bleu"] + [
        "examples"
    ]
    assert both["bleu"] < both["bleu_lower"] == pytest.approx(100)
    assert both["chrf"] < both["chrf_lower"] == pytest.approx(100)
    assert "case:lc" in said["bleu_lower"] and "case:lc" in said["chrf_lower"]
    assert "case:mixed" in said["bleu"] and "case:mixed" in said["chrf"]
    perfect, _ = score_translations(["a b c d e"], ["a b c d e"])
    assert (perfect["bleu"], perfect["chrf"]) == pytest.approx((100, 100))


def test_evaluating_a_part_spreads_over_the_split(
    tasks: dict[str, TranslationTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, asked = tasks["bahdanau"], []
    original = task.predict
    monkeypatch.setattr(
        task, "predict", lambda sources, **more: asked.extend(sources) or original(sources, **more)
    )
    scores = task.evaluate("train", 5)
    assert scores["examples"] == 5
    assert "bleu_lower" not in scores  # for people, not for training, which wants to go on
    every = list(task.pairs["train"].sources())
    assert (asked[0], asked[-1]) == (every[0], every[-1])


def test_better_answers_beat_a_better_loss(tasks: dict[str, TranslationTask]) -> None:
    selection_score = tasks["bahdanau"].selection_score
    assert selection_score({"chrf": 50.0, "loss": 3.0}) > selection_score(
        {"chrf": 49.0, "loss": 0.1}
    )
    assert selection_score({"chrf": 50.0, "loss": 1.0}) > selection_score(
        {"chrf": 50.0, "loss": 2.0}
    )


def test_attentions_are_known_by_where_they_are() -> None:
    assert parse_attention_name("attention") == ("cross", 1)
    assert parse_attention_name("encoder.0.self_attention") == ("encoder", 1)
    assert parse_attention_name("decoder.1.self_attention") == ("decoder", 2)
    assert parse_attention_name("decoder.2.source_attention") == ("cross", 3)


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_maps_are_of_what_is_written_and_read(model: str, opened: dict[str, Run]) -> None:
    attention_maps = opened[model].task.attention_maps("abc", "cb")
    cross = attention_maps["cross", 1, 1]
    assert cross.weights.shape == (3, 4)  # c b and the end; a b c and the end
    assert (cross.rows[:2], cross.columns[:3]) == (["c", "b"], ["a", "b", "c"])
    for map_ in attention_maps.values():
        assert map_.weights.sum(axis=1) == pytest.approx(np.ones(len(map_.rows)), abs=1e-5)
    kinds = {kind for kind, _, _ in attention_maps}
    assert kinds == ({"cross"} if model == "bahdanau" else {"cross", "encoder", "decoder"})


# --- learning -------------------------------------------------------------------------------------

STEPS = {"bahdanau": 320, "seq2seq": 900, "transformer": 500, "luong": 320, "conv_seq2seq": 320}


@pytest.mark.parametrize("model", STEPS)
def test_it_learns_to_reverse(model: str, tmp_path: Path) -> None:
    steps = STEPS[model]
    changes = {"train.steps": steps, "train.evaluate_every": steps, "train.threads": 1}
    changes |= {"model.width": 64, "train.batch_tokens": 512}
    if model == "transformer":
        changes["model.depth"] = 1
    recipe = override_settings(reverse_recipe(model), changes)
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    figures = run.evaluate()
    assert figures["examples"] == 500
    print(f"{model}: exact on held-out words after {steps} steps: {figures['exact']}")
    assert figures["exact"] >= 0.99
