"""Language models: training, bit-exact resuming with carried state, invariances, generation."""

import json
import math
import os
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from saccade.cli.main import run as saccade
from saccade.data.special_tokens import EOS
from saccade.decoding import PromptedDecoder
from saccade.errors import ConfigError, DataError
from saccade.inspection import invariants
from saccade.models.base import CausalLM
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.language_modeling import objective as language_objective
from saccade.tasks.language_modeling.data import prepare_text
from saccade.tasks.language_modeling.inspect import LOOK_NEW_TOKENS
from saccade.tasks.language_modeling.score import scorer_of
from saccade.training.loop import Event, StepEvent

GPTS = ("gpt1", "gpt2", "gpt3")
NETWORKS = (
    *("rnn", "gru", "gru_reset_first", "lstm", "conv_lm", "nnlm", "transformer_xl"),
    *GPTS,
)
SMALL = {
    "model.width": 16,
    "data.segment_length": 12,
    "data.max_new_tokens": 20,
    "train.batch_tokens": 96,
    "train.steps": 9,
    "train.report_every": 2,
    "train.evaluate_every": 4,
    "train.threads": 1,
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)
    result = invariants.skipped(invariants.COMPILE_PARITY, "takes half a minute")
    monkeypatch.setattr(invariants, "compile_parity", lambda model, example: result)


@pytest.fixture(scope="session")
def rhyme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a predictable text: lines that count, with the same words again and again."""
    numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    lines = [
        f"{numbers[i % 10]} green bottles and {numbers[(i + 1) % 10]} more" for i in range(240)
    ]
    path = tmp_path_factory.mktemp("text") / "rhyme.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recipe(model: str, text: Path, changes: dict[str, Any] | None = None) -> Any:
    settings = {} if model == "ngram" else SMALL
    if model in ("conv_lm", "transformer_xl", *GPTS):
        settings = settings | {"model.depth": 2}
    if model == "nnlm":
        settings = settings | {"model.hidden": 32}
    found = resolve_recipe(
        "language", data=str(text), model=model, changes=settings | (changes or {})
    )
    return found.recipe


@pytest.fixture(scope="session")
def small_run(rhyme: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Return a function that trains the smallest run of a model once; do not change the run."""
    root = tmp_path_factory.mktemp("language")

    @cache
    def trained(model: str) -> Run:
        return train_recipe(recipe(model, rhyme), root / model, TrainOptions()).run

    return trained


def stop_at(step: int) -> TrainOptions:
    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == step:
            raise KeyboardInterrupt

    return TrainOptions(on_event=on_event)


@pytest.mark.parametrize(
    ("model", "segment_order"),
    [
        *((model, "sequential") for model in NETWORKS if model not in GPTS),
        *((model, "random") for model in ("gru", "bidirectional", "transformer_xl", *GPTS)),
    ],
)
def test_resumed_training_is_bit_exact(
    model: str,
    segment_order: str,
    rhyme: Path,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    changes = {
        "data.segment_order": segment_order,
        "train.checkpoint_seconds": 0,
        "model.dropout": 0.2,
    }
    interrupted = recipe(model, rhyme, changes)
    train_recipe(interrupted, tmp_path / "whole", TrainOptions())
    with pytest.raises(KeyboardInterrupt):
        train_recipe(interrupted, tmp_path / "run", stop_at(5))
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == outcome_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("model", "setting"),
    [
        ("gru", {"model.truncation": "window", "model.window": 5}),
        ("gru", {"model.truncation": "random", "model.window": 5}),
        ("gru", {"model.input": "one_hot"}),
        ("bidirectional", {"model.input": "one_hot"}),
    ],
    ids=str,
)
def test_resumed_training_of_recurrent_settings_is_bit_exact(
    model: str,
    setting: dict[str, Any],
    rhyme: Path,
    small_run: Callable[[str], Run],
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    interrupted = recipe(model, rhyme, {"train.checkpoint_seconds": 0, **setting})
    train_recipe(interrupted, tmp_path / "whole", TrainOptions())
    with pytest.raises(KeyboardInterrupt):
        train_recipe(interrupted, tmp_path / "run", stop_at(4))
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == outcome_of(tmp_path / "whole")
    full = small_run(model).folder
    assert outcome_of(full)["best"] != outcome_of(tmp_path / "whole")["best"]


@pytest.mark.parametrize("model", [*NETWORKS, "ngram"])
def test_language_model_learns(model: str, rhyme: Path, tmp_path: Path) -> None:
    changes = {
        "train.steps": 120,
        "train.batch_tokens": 384,
        "train.learning_rate": 0.02,
        "train.warmup": 10,
        "model.width": 32,
        "model.dropout": 0.0,
        "train.evaluate_every": 60,
    }
    trained = recipe(model, rhyme, {} if model == "ngram" else changes)
    run = train_recipe(trained, tmp_path / "run", TrainOptions()).run
    evaluation = run.evaluate()
    ids = run.split("train").ids
    shares = np.bincount(ids) / len(ids)
    unigram_entropy = -sum(p * math.log(p) for p in shares if p)  # nats per character
    assert evaluation["loss"] < 0.25 * unigram_entropy
    reloaded = load_run(tmp_path / "run")
    assert reloaded.evaluate() == evaluation
    assert reloaded.predict("three green bot").text.startswith("tles and ")


@pytest.mark.parametrize("model", [*NETWORKS, "ngram"])
def test_check_passes(model: str, small_run: Callable[[str], Run]) -> None:
    results = small_run(model).check(inputs=4)
    assert [result.invariant for result in results if result.verdict == "FAILED"] == []
    checked = {result.invariant for result in results if result.num_inputs}
    assert "reload consistency" in checked
    if model != "ngram":
        assert {"cache consistency", "causality"} <= checked


@pytest.mark.parametrize("model", NETWORKS)
def test_log_likelihood_equals_token_by_token_scoring(
    model: str, rhyme: Path, tmp_path: Path
) -> None:
    changes = {"train.steps": 2, "data.segment_length": 3}  # the context is full again and again
    run = train_recipe(recipe(model, rhyme, changes), tmp_path / "run", TrainOptions()).run
    network = run.model.eval()
    ids = run.split("test").ids[:150]
    slow: list[float] = []
    streams = np.array_split(np.arange(len(ids) - 1), 16)  # parts that are scored in parallel
    with torch.no_grad():
        for stream in streams:
            state = network.init_state(torch.zeros(1, 1))
            for position in stream:
                logits, state = network.step(torch.tensor([[int(ids[position])]]), state)
                slow.append(float(logits[0, 0].log_softmax(-1)[int(ids[position + 1])]))
    scorer = scorer_of(network, run.recipe.data.segment_length)
    assert scorer.log_likelihood(ids) == pytest.approx(sum(slow), rel=1e-4)
    assert scorer.log_probabilities(ids).tolist() == pytest.approx(slow, rel=1e-4, abs=1e-5)


def test_predict_is_batch_invariant(small_run: Callable[[str], Run]) -> None:
    run = small_run("lstm")
    prompts = ["one", "", "two green bottles and ", "t", "one"]
    together = run.predict(prompts, beam=3, n_best=2)
    alone = [run.predict(prompt, beam=3, n_best=2) for prompt in prompts]
    assert [a.text for a in together] == [a.text for a in alone]
    assert together[0] == together[4]


def test_prompted_decoder_equals_forward_pass(small_run: Callable[[str], Run]) -> None:
    run = small_run("gru")
    model = run.model.eval()
    assert isinstance(model, CausalLM)
    prompt = torch.tensor([[EOS, *run.preprocessor.encode("two gre")]])
    prompted = PromptedDecoder(model)
    logits, state = prompted.step(torch.tensor([[EOS]]), prompted.init_state(prompt))
    plain, _ = model.step(prompt, model.init_state(prompt))
    torch.testing.assert_close(logits[:, 0], plain[:, -1])
    after, _ = prompted.step(torch.tensor([[7]]), state)
    both, _ = model.step(torch.cat([prompt, torch.tensor([[7]])], 1), model.init_state(prompt))
    torch.testing.assert_close(after[:, 0], both[:, -1])


def test_gradient_norms_of_a_recurrent_model(
    small_run: Callable[[str], Run], tmp_path: Path
) -> None:
    folder = small_run("rnn").folder
    assert saccade(["look", str(folder), "--gradients", "--save", str(tmp_path / "g.svg")]) == 0
    norms = load_run(folder).plot_gradients(tmp_path / "g.png", inputs=4)
    assert norms.shape == (4, 12) and (norms > 0).all()
    # the gradients of a small, hardly trained network vanish
    assert np.median(norms[:, -1]) < np.median(norms[:, 0])


def test_gradient_norms_need_a_recurrent_model(
    small_run: Callable[[str], Run], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="expected an rnn, gru or lstm language model"):
        small_run("ngram").plot_gradients(tmp_path / "g.png")
    with pytest.raises(
        ConfigError, match="got conv_lm, which has no .*; expected rnn, gru or lstm"
    ):
        small_run("conv_lm").plot_gradients(tmp_path / "g.png")


def test_plot_zipf_counts_words(rhyme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert saccade(["plot", "zipf", str(rhyme), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert counted["words"]["total"] == 240 * 6
    assert counted["words"]["different"] == 14


def test_evaluate_refuses_decoding_options(small_run: Callable[[str], Run]) -> None:
    with pytest.raises(ConfigError, match="got beam; expected no decoding options"):
        small_run("ngram").evaluate(beam=3)


def test_evaluate_floors_are_scored_on_the_same_tokens(
    small_run: Callable[[str], Run], rhyme: Path, tmp_path: Path
) -> None:
    counted = recipe("ngram", rhyme, {"model.order": 3})
    trigram_run = train_recipe(counted, tmp_path / "run", TrainOptions()).run
    for split in ("dev", "test"):
        floors = small_run("gru").evaluate(split=split).floors
        assert list(floors) == ["unigram", "trigram"]
        ngram = trigram_run.evaluate(split=split)
        for metric in ("loss", "perplexity"):
            assert floors["trigram"][metric] == pytest.approx(ngram[metric], rel=1e-12)
        train, scored = (small_run("gru").split(name).ids for name in ("train", split))
        counts = np.bincount(train, minlength=small_run("gru").preprocessor.vocab_size) + 1
        loss = -np.log(counts / counts.sum())[scored[1:]].mean()
        assert floors["unigram"]["loss"] == pytest.approx(loss)
        assert floors["unigram"]["perplexity"] == pytest.approx(np.exp(loss))
        assert set(floors["unigram"]) < set(ngram)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(1, []), (2, ["unigram"]), (3, ["unigram"]), (4, ["unigram", "trigram"])],
)
def test_evaluate_floors_of_ngrams_have_a_lower_order(
    order: int, expected: list[str], rhyme: Path, tmp_path: Path
) -> None:
    counted = recipe("ngram", rhyme, {"model.order": order})
    run = train_recipe(counted, tmp_path / "run", TrainOptions()).run
    assert list(run.evaluate().floors) == expected
    assert run.evaluate(limit=1).floors == {}


@pytest.mark.parametrize("content", ["", "\n\n\n", "a"])
def test_train_refuses_an_empty_text(content: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(content)
    with pytest.raises(DataError, match="text"):
        train_recipe(recipe("gru", path), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_synthetic_text_defaults_to_the_python_reference() -> None:
    assert resolve_recipe("language").recipe.data.synthetic == "python"
    with pytest.raises(ConfigError, match="There are: python"):
        train_recipe(
            resolve_recipe("language", changes={"data.synthetic": "pyton"}).recipe,
            Path("x"),
            TrainOptions(),
        )


# --- generation -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt_run(rhyme: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a GPT that has memorised the rhyme."""
    changes = {"train.steps": 150, "train.batch_tokens": 384, "train.learning_rate": 0.01}
    changes |= {
        "model.width": 32,
        "model.dropout": 0.0,
        "data.segment_length": 32,
        "train.warmup": 10,
    }
    memorised = recipe("gpt2", rhyme, changes)
    return train_recipe(memorised, tmp_path_factory.mktemp("gpt") / "run", TrainOptions()).run


def test_predict_max_new_tokens_and_stop_strings(gpt_run: Run) -> None:
    line = gpt_run.predict("three green bot").text
    longer = gpt_run.predict("three green bot", max_new_tokens=90).text
    assert longer.startswith(line + "\n") and len(longer) == 90
    cut = gpt_run.predict("three green bot", max_new_tokens=90, stop=("more\n", "never"))
    assert cut.text == longer[: longer.index("more\n")] and cut.finished
    searched = gpt_run.predict("three green bot", max_new_tokens=90, stop=("more\n",), beam=2)
    assert "more\n" not in searched.text and searched.finished
    assert gpt_run.predict("three green bot", max_new_tokens=5).text == longer[:5]


def test_predict_streams_text(gpt_run: Run) -> None:
    seen: list[str] = []
    whole = gpt_run.predict(["three green bot", "nine"], max_new_tokens=12, stream=seen.append)
    assert seen == [whole[0].text[:n] for n in range(1, 13)]
    with pytest.raises(ConfigError, match="leave beam and n_best out"):
        gpt_run.predict("x", beam=2, stream=seen.append)


def test_predict_command_prints_the_same_streamed_or_not(
    gpt_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "predict",
        str(gpt_run.folder),
        "two green",
        "--max-new-tokens",
        "60",
        "--stop",
        "four",
    ]
    assert saccade([*command, "--stream"]) == 0
    printed = capsys.readouterr().out
    assert printed == gpt_run.predict("two green", max_new_tokens=60, stop=("four",)).text + "\n"
    assert saccade([*command, "--stream", "--json"]) == 2
    assert saccade(["predict", str(gpt_run.folder), "--file", "-", "--stream"]) == 2


def test_predict_takes_prompts_of_any_length(gpt_run: Run) -> None:
    prompt = "four green bottles and five more " * 10
    assert gpt_run.recipe.model.context_length < len(prompt)
    assert (
        gpt_run.predict(prompt, max_new_tokens=3).text
        == gpt_run.predict(prompt, max_new_tokens=9).text[:3]
    )
    assert len(gpt_run.predict("", max_new_tokens=60).text) == 60
    assert (
        len(gpt_run.predict("☃ ⚑", max_new_tokens=4).text) == 4
    )  # characters outside the vocabulary


def test_look_returns_causal_attention_maps(gpt_run: Run, tmp_path: Path) -> None:
    seen = gpt_run.look("six green", kind="self", layer=1, head=2)
    [found] = seen.maps.values()
    assert found.weights.shape == (len(found.rows), len(found.columns))
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-5)
    assert not np.triu(found.weights, 1).any()
    assert len(gpt_run.look("six green").maps) == 2 * 4
    assert gpt_run.look("six green").save(tmp_path / "map.png") == []
    assert (tmp_path / "map.png").stat().st_size > 5000


def test_look_generates_a_few_tokens_to_the_end_of_the_line(gpt_run: Run, tmp_path: Path) -> None:
    prompt = "two green bottles and "
    assert len(gpt_run.look(prompt).answer) <= LOOK_NEW_TOKENS
    few = gpt_run.look(prompt, max_new_tokens=3)
    assert few.answer == gpt_run.predict(prompt, max_new_tokens=3).text.split("\n")[0]
    long = gpt_run.look("one green bottle " * 8, answer="and " * 20, layer=1, head=1)
    [whole] = long.maps.values()
    assert len(long.terminal(100, colour=False).splitlines()) <= 2 * min(len(whole.rows), 40) + 20
    long.save(tmp_path / "long.png")
    height, width, _ = imread(tmp_path / "long.png").shape
    assert max(height, width) < 2700


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Chinese text: no spaces between words."""
    path = tmp_path_factory.mktemp("chinese") / "chinese.txt"
    path.write_text("今天天气很好，我们去公园散步。\n酒店的服务很好，房间也很干净。\n" * 60)
    return path


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("character", "each character is a token"),
        ("bpe", "byte pairs of characters"),
        ("whitespace", "try data.tokenizer.kind=character"),
    ],
)
def test_a_text_without_spaces_is_noted(kind: str, tokens: str, chinese: Path) -> None:
    settings = {"data.tokenizer.kind": kind, "data.tokenizer.size": 400}
    prepared = prepare_text(recipe("ngram", chinese, settings), PrepareContext())
    [note] = [note for note in prepared.notes if "no spaces between words" in note]
    assert tokens in note


def test_word_perplexity_of_a_text_without_spaces_is_left_out(
    chinese: Path, rhyme: Path, tmp_path: Path
) -> None:
    run = train_recipe(recipe("ngram", chinese), tmp_path / "zh", TrainOptions()).run
    found = run.evaluate()
    assert "word_perplexity" not in found and "word_perplexity" not in found.conventions
    assert found.omitted == {"word_perplexity": "the text has no spaces between words"}
    assert found["bits_per_character"] > 0
    example = run.inspector.example_input(run.split("test"))
    assert example in chinese.read_text() and 1 < len(example) <= 12
    english = train_recipe(recipe("ngram", rhyme), tmp_path / "en", TrainOptions()).run
    found = english.evaluate()
    assert found["word_perplexity"] > 1 and not found.omitted
    example = english.inspector.example_input(english.split("test"))
    assert example in rhyme.read_text() and len(example) <= 40 and not example.endswith(" ")
    with pytest.raises(ConfigError, match="got ngram, which has no attention; try saccade look"):
        english.look("one", kind="self")


def test_token_ids_are_memory_mapped_from_the_run_folder(gpt_run: Run) -> None:
    assert isinstance(gpt_run.split("train").ids, np.memmap)
    names = sorted(path.name for path in (gpt_run.folder / "tokens").iterdir())
    assert names == ["dev.ids", "test.ids", "tokens.json", "train.ids"]
    assert not list(gpt_run.folder.parent.glob(".*"))
    again = load_run(gpt_run.folder)
    assert again.evaluate() == gpt_run.evaluate()
    assert isinstance(again.split("test").ids, np.memmap)


def test_train_removes_staging_folders_of_killed_processes(rhyme: Path, tmp_path: Path) -> None:
    left = tmp_path / ".run.4194999.staging"  # beyond the largest process id
    mine = tmp_path / f".run.{os.getppid()}.staging"
    for folder in (left, mine):
        folder.mkdir()
    train_recipe(recipe("ngram", rhyme), tmp_path / "run", TrainOptions())
    assert not left.exists() and mine.exists()


def test_train_refuses_segments_longer_than_the_context(rhyme: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="segment_length=12 with model.context_length=8"):
        train_recipe(
            recipe("gpt2", rhyme, {"model.context_length": 8}), tmp_path / "run", TrainOptions()
        )
    assert list(tmp_path.iterdir()) == []


def test_text_of_one_long_line_is_split(tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_text("one two three four five six seven eight nine ten " * 40)
    run = train_recipe(recipe("gru", path), tmp_path / "run", TrainOptions()).run
    sizes = {split: len(corpus.ids) for split, corpus in run.data().splits.items()}
    assert sizes["train"] > 8 * sizes["test"] > 0 < sizes["dev"]


def test_split_batch_keeps_loss_and_carried_state(
    rhyme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_objective, "_MIN_PART_TOKENS", 128)
    for model in ("lstm", "transformer_xl", "gpt2"):
        changes = {"train.steps": 1, "model.dropout": 0.0, "train.batch_tokens": 768}
        run = train_recipe(recipe(model, rhyme, changes), tmp_path / model, TrainOptions()).run
        network = run.model.double().train()
        splits = run.data().splits
        objective = language_objective.LanguageObjective(
            run.recipe, network, run.preprocessor, splits
        )
        batches = list(islice(objective.batches("train"), 2))
        found = []
        for limit in (1, 3):
            objective.load_state_dict({})
            totals = []
            for batch in batches:
                parts = objective.split_batch(batch, limit)
                assert len(parts) == limit
                totals.append(sum(float(objective.loss(part).total.detach()) for part in parts))
            found.append(totals)
        assert found[0] == pytest.approx(found[1], rel=1e-10), model


def test_perplexity_of_zero_weights_is_the_vocabulary_size(rhyme: Path, tmp_path: Path) -> None:
    for model in ("gpt2", "lstm", "transformer_xl", "nnlm"):
        run = train_recipe(
            recipe(model, rhyme, {"train.steps": 1}), tmp_path / model, TrainOptions()
        ).run
        with torch.no_grad():
            for weight in run.model.parameters():
                weight.zero_()
        vocab_size = run.preprocessor.vocab_size
        assert run.evaluate()["perplexity"] == pytest.approx(vocab_size, rel=1e-5)


# --- choices --------------------------------------------------------------------------------------


def slow_choice_scores(run: Run, lines: list[str], choices: tuple[str, ...]) -> list[float]:
    """Return log p of each choice after the last line, by one forward pass for each token."""
    decoder = run.predictor.decoder("torch")
    encode = run.preprocessor.encode
    before = [id for line in lines[:-1] for id in (EOS, *encode(line))]
    whole = [[*before, EOS, *encode(f"{lines[-1]} {choice}".lstrip())] for choice in choices]
    start = len(before) + 1 + len(encode(lines[-1]))  # words: no token spans the end of the text
    scores = []
    for ids in whole:
        total = 0.0
        for t in range(start, len(ids)):
            prefix = torch.tensor([ids[:t]])
            with torch.no_grad():
                logits, _ = decoder.step(prefix, decoder.init_state(prefix))
            total += float(logits[0, -1].double().log_softmax(0)[ids[t]])
        scores.append(total)
    return scores


@pytest.mark.parametrize("model", [*NETWORKS, "ngram"])
def test_choices_equal_token_by_token_scoring(model: str, small_run: Callable[[str], Run]) -> None:
    run, choices = small_run(model), ("two", "nine green bottles", "more")
    examples = (("one green bottles and", "two"),)
    text = "three green bottles and"
    found = run.predict(text, choices=choices, examples=examples)
    scores = slow_choice_scores(run, ["one green bottles and two", text], choices)
    expected = torch.tensor(scores, dtype=torch.float64).softmax(0).tolist()
    assert found.probabilities == pytest.approx(dict(zip(choices, expected, strict=True)), rel=1e-4)
    assert found.text == choices[int(np.argmax(expected))]

    calibrated = run.predict(text, choices=choices, calibrate=True)
    free = [slow_choice_scores(run, [content], choices) for content in ("N/A", "", "[MASK]")]
    prior = torch.tensor(free, dtype=torch.float64).softmax(1).mean(0)
    plain = torch.tensor(slow_choice_scores(run, [text], choices), dtype=torch.float64).softmax(0)
    shares = (plain / prior / (plain / prior).sum()).tolist()
    assert calibrated.probabilities == pytest.approx(
        dict(zip(choices, shares, strict=True)), rel=1e-4
    )


def test_choices_follow_the_text_that_was_learnt(gpt_run: Run) -> None:
    texts = ["one green", "six green bottles and seven", "two", "four green"]
    found = gpt_run.predict(texts, choices=("green", "more", "bottles"))
    assert [one.text for one in found] == ["bottles", "more", "green", "bottles"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"choices": ["one"]}, "expected two or more different"),
        ({"choices": ["one", "one"]}, "expected two or more different"),
        ({"choices": ["one", ""]}, "choices"),
        ({"examples": [("a", "one")]}, "without choices"),
        ({"calibrate": True}, "without choices"),
        ({"choices": ["one", "two"], "examples": [("a", "three")]}, "got examples with 'three'"),
        ({"choices": ["one", "two"], "beam": 2}, "got beam with choices"),
        ({"choices": ["one", "two"], "max_new_tokens": 2}, "got max_new_tokens with choices"),
    ],
)
def test_choices_that_cannot_be_scored_are_refused(
    options: dict[str, Any], message: str, gpt_run: Run
) -> None:
    with pytest.raises(ConfigError, match=message):
        gpt_run.predict("one green", **options)
