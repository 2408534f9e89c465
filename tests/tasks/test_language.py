"""Models of text: they learn, go on to the bit with the state they carry, and keep the laws."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.cli.main import run as saccade
from saccade.data.vocabulary import EOS
from saccade.errors import ConfigError, DataError
from saccade.inspection import invariants
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import TrainOptions, load_run, resume, train_recipe
from saccade.tasks import language
from saccade.tasks.language import NeuralLMTask
from saccade.tasks.reading import PromptedDecoder
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
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)
    invariant = invariants.skipped("compiled equals eager", "takes half a minute")
    monkeypatch.setattr(invariants, "compile_parity", lambda model, example: invariant)


@pytest.fixture(scope="session")
def rhyme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text with much to learn in it: lines that count, the same words again and again."""
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


def stopping(at: int) -> TrainOptions:
    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == at:
            raise KeyboardInterrupt

    return TrainOptions(on_event=on_event)


@pytest.mark.parametrize(
    ("model", "segment_order"),
    [
        *((model, "sequential") for model in NETWORKS if model not in GPTS),
        *((model, "random") for model in ("gru", "transformer_xl", *GPTS)),
    ],
)
def test_what_was_cut_off_goes_on_to_the_bit(
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
    wanted = recipe(model, rhyme, changes)
    train_recipe(wanted, tmp_path / "whole", TrainOptions())
    with pytest.raises(KeyboardInterrupt):
        train_recipe(wanted, tmp_path / "run", stopping(5))
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == outcome_of(tmp_path / "whole")


@pytest.mark.parametrize("truncation", ["window", "random"])
def test_truncated_training_goes_on_to_the_bit(
    truncation: str,
    rhyme: Path,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    changes = {"model.truncation": truncation, "model.window": 5, "train.checkpoint_seconds": 0}
    wanted = recipe("gru", rhyme, changes)
    train_recipe(wanted, tmp_path / "whole", TrainOptions())
    with pytest.raises(KeyboardInterrupt):
        train_recipe(wanted, tmp_path / "run", stopping(4))
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == outcome_of(tmp_path / "whole")
    train_recipe(recipe("gru", rhyme), tmp_path / "full", TrainOptions())
    assert outcome_of(tmp_path / "full")["best"] != outcome_of(tmp_path / "whole")["best"]


@pytest.mark.parametrize("model", [*NETWORKS, "ngram"])
def test_it_learns(model: str, rhyme: Path, tmp_path: Path) -> None:
    changes = {
        "train.steps": 120,
        "train.batch_tokens": 384,
        "train.learning_rate": 0.02,
        "train.warmup": 10,
        "model.width": 32,
        "model.dropout": 0.0,
        "train.evaluate_every": 60,
    }
    wanted = recipe(model, rhyme, {} if model == "ngram" else changes)
    run = train_recipe(wanted, tmp_path / "run", TrainOptions()).run
    figures = run.evaluate()
    ids = run.task.corpora["train"].ids
    shares = np.bincount(ids) / len(ids)
    alone = -sum(p * math.log(p) for p in shares if p)  # nats a letter, by its frequency
    assert figures["loss"] < 0.25 * alone
    again = load_run(tmp_path / "run")
    assert again.evaluate() == figures
    assert again.predict("three green bot").text.startswith("tles and ")


@pytest.mark.parametrize("model", [*NETWORKS, "ngram"])
def test_the_laws_hold_and_are_kept(model: str, rhyme: Path, tmp_path: Path) -> None:
    run = train_recipe(recipe(model, rhyme), tmp_path / "run", TrainOptions()).run
    findings = run.check(inputs=4)
    assert [f.invariant for f in findings if f.verdict == "FAILED"] == []
    num_inputs = {f.invariant for f in findings if f.num_inputs}
    assert "saved and reopened agree" in num_inputs
    if model != "ngram":
        assert {"step by step equals all at once", "the future is not seen"} <= num_inputs


@pytest.mark.parametrize("model", NETWORKS)
def test_the_loss_is_what_each_token_costs_one_by_one(
    model: str, rhyme: Path, tmp_path: Path
) -> None:
    changes = {"train.steps": 2, "data.segment_length": 3}  # the context is full again and again
    run = train_recipe(recipe(model, rhyme, changes), tmp_path / "run", TrainOptions()).run
    task = run.task
    ids = task.corpora["test"].ids[:150]
    slow = 0.0
    edges = np.array_split(np.arange(len(ids) - 1), 16)  # the stretches that are read side by side
    with torch.no_grad():
        for stretch in edges:
            state = task.stepper.init_state(torch.zeros(1, 1))
            for at in stretch:
                logits, state = task.stepper.step(torch.tensor([[int(ids[at])]]), state)
                slow += float(logits[0, 0].log_softmax(-1)[int(ids[at + 1])])
    assert task.total(ids) == pytest.approx(slow, rel=1e-4)


def test_prompts_of_any_lengths_do_not_see_each_other(rhyme: Path, tmp_path: Path) -> None:
    run = train_recipe(recipe("lstm", rhyme), tmp_path / "run", TrainOptions()).run
    prompts = ["one", "", "two green bottles and ", "t", "one"]
    together = run.predict(prompts, beam=3, n_best=2)
    alone = [run.predict(prompt, beam=3, n_best=2) for prompt in prompts]
    assert [a.text for a in together] == [a.text for a in alone]
    assert together[0] == together[4]


def test_a_prompt_is_read_as_if_it_had_been_written(rhyme: Path, tmp_path: Path) -> None:
    run = train_recipe(recipe("gru", rhyme), tmp_path / "run", TrainOptions()).run
    task = run.task
    assert isinstance(task, NeuralLMTask)
    prompt = torch.tensor([[EOS, *task.tokenizer.encode("two gre")]])
    prompted = PromptedDecoder(task.stepper)
    logits, state = prompted.step(torch.tensor([[EOS]]), prompted.init_state(prompt))
    plain, _ = task.stepper.step(prompt, task.stepper.init_state(prompt))
    torch.testing.assert_close(logits[:, 0], plain[:, -1])
    after, _ = prompted.step(torch.tensor([[7]]), state)
    both, _ = task.stepper.step(
        torch.cat([prompt, torch.tensor([[7]])], 1), task.stepper.init_state(prompt)
    )
    torch.testing.assert_close(after[:, 0], both[:, -1])


def test_the_gradients_are_looked_at(rhyme: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train_recipe(recipe("rnn", rhyme), folder, TrainOptions())
    assert saccade(["look", str(folder), "--gradients", "--save", str(tmp_path / "g.svg")]) == 0
    norms = load_run(folder).plot_gradients(tmp_path / "g.png", inputs=4)
    assert norms.shape == (4, 12) and (norms > 0).all()
    # a small network that has hardly learned forgets: vanishing is what is to be seen
    assert np.median(norms[:, -1]) < np.median(norms[:, 0])


def test_counts_have_no_gradient(rhyme: Path, tmp_path: Path) -> None:
    run = train_recipe(recipe("ngram", rhyme), tmp_path / "run", TrainOptions()).run
    with pytest.raises(ConfigError, match="a recurrent language model has"):
        run.plot_gradients(tmp_path / "g.png")
    run = train_recipe(recipe("conv_lm", rhyme), tmp_path / "other", TrainOptions()).run
    with pytest.raises(ConfigError, match="rnn, gru and lstm"):
        run.plot_gradients(tmp_path / "g.png")


def test_a_text_is_looked_at(rhyme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert saccade(["look", str(rhyme), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert counted["words"]["total"] == 240 * 6
    assert counted["words"]["different"] == 14


def test_a_text_is_not_searched_for(rhyme: Path, tmp_path: Path) -> None:
    run = train_recipe(recipe("ngram", rhyme), tmp_path / "run", TrainOptions()).run
    with pytest.raises(ConfigError, match="leave beam out"):
        run.evaluate(beam=3)


@pytest.mark.parametrize("content", ["", "\n\n\n", "a"])
def test_a_text_with_nothing_to_learn_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(content)
    with pytest.raises(DataError, match="text"):
        train_recipe(recipe("gru", path), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_the_python_reference_is_always_there() -> None:
    assert resolve_recipe("language").recipe.data.synthetic == "python"
    with pytest.raises(ConfigError, match="There are: python"):
        train_recipe(
            resolve_recipe("language", changes={"data.synthetic": "pyton"}).recipe,
            Path("x"),
            TrainOptions(),
        )


# --- going on -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(rhyme: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model that knows the rhyme by heart."""
    changes = {"train.steps": 150, "train.batch_tokens": 384, "train.learning_rate": 0.01}
    changes |= {
        "model.width": 32,
        "model.dropout": 0.0,
        "data.segment_length": 32,
        "train.warmup": 10,
    }
    wanted = recipe("gpt2", rhyme, changes)
    return train_recipe(wanted, tmp_path_factory.mktemp("told") / "run", TrainOptions()).run


def test_a_text_goes_on_over_line_ends_and_stops_where_it_is_to(told: Any) -> None:
    line = told.predict("three green bot").text
    longer = told.predict("three green bot", max_new_tokens=90).text
    assert longer.startswith(line + "\n") and len(longer) == 90
    cut = told.predict("three green bot", max_new_tokens=90, stop=("more\n", "never"))
    assert cut.text == longer[: longer.index("more\n")] and cut.finished
    searched = told.predict("three green bot", max_new_tokens=90, stop=("more\n",), beam=2)
    assert "more\n" not in searched.text and searched.finished
    assert told.predict("three green bot", max_new_tokens=5).text == longer[:5]


def test_tokens_are_told_as_they_come(told: Any) -> None:
    seen: list[str] = []
    whole = told.predict(["three green bot", "nine"], max_new_tokens=12, stream=seen.append)
    assert seen == [whole[0].text[:n] for n in range(1, 13)]
    with pytest.raises(ConfigError, match="leave beam and n_best out"):
        told.predict("x", beam=2, stream=seen.append)


def test_streamed_or_not_the_same_is_shown(told: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["predict", str(told.folder), "two green", "--max-new-tokens", "60", "--stop", "four"]
    assert saccade([*ask, "--stream"]) == 0
    shown = capsys.readouterr().out
    assert shown == told.predict("two green", max_new_tokens=60, stop=("four",)).text + "\n"
    assert saccade([*ask, "--stream", "--json"]) == 2
    assert saccade(["predict", str(told.folder), "--file", "-", "--stream"]) == 2


def test_a_prompt_longer_than_the_context_and_an_empty_one(told: Any) -> None:
    prompt = "four green bottles and five more " * 10
    assert told.recipe.model.context_length < len(prompt)
    assert (
        told.predict(prompt, max_new_tokens=3).text
        == told.predict(prompt, max_new_tokens=9).text[:3]
    )
    assert len(told.predict("", max_new_tokens=60).text) == 60
    assert len(told.predict("☃ ⚑", max_new_tokens=4).text) == 4  # letters it has never seen


def test_where_a_model_of_text_looks(told: Any, tmp_path: Path) -> None:
    seen = told.look("six green", kind="self", layer=1, head=2)
    [found] = seen.maps.values()
    assert found.weights.shape == (len(found.rows), len(found.columns))
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-5)
    assert not np.triu(found.weights, 1).any()
    assert len(told.look("six green").maps) == 2 * 4
    assert told.look("six green").save(tmp_path / "map.png") == []
    assert (tmp_path / "map.png").stat().st_size > 5000


def test_its_ids_are_in_files_beside_the_run(told: Any) -> None:
    assert isinstance(told.task.corpora["train"].ids, np.memmap)
    names = sorted(path.name for path in (told.folder / "tokens").iterdir())
    assert names == ["dev.ids", "test.ids", "tokens.json", "train.ids"]
    assert not list(told.folder.parent.glob(".*"))
    again = load_run(told.folder)
    assert again.evaluate() == told.evaluate()
    assert isinstance(again.task.corpora["test"].ids, np.memmap)


def test_what_a_killed_preparation_left_is_swept_up(rhyme: Path, tmp_path: Path) -> None:
    left = tmp_path / ".run.4194999.tokens"  # no such process: the numbers end before
    mine = tmp_path / f".run.{os.getppid()}.tokens"
    for folder in (left, mine):
        folder.mkdir()
    train_recipe(recipe("ngram", rhyme), tmp_path / "run", TrainOptions())
    assert not left.exists() and mine.exists()


def test_segments_longer_than_the_context_are_refused(rhyme: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="12 tokens do not fit into a context of 8"):
        train_recipe(
            recipe("gpt2", rhyme, {"model.context_length": 8}), tmp_path / "run", TrainOptions()
        )
    assert list(tmp_path.iterdir()) == []


def test_a_text_of_one_long_line_is_parted_too(tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_text("one two three four five six seven eight nine ten " * 40)
    run = train_recipe(recipe("gru", path), tmp_path / "run", TrainOptions()).run
    sizes = {split: len(corpus.ids) for split, corpus in run.task.corpora.items()}
    assert sizes["train"] > 8 * sizes["test"] > 0 < sizes["dev"]


def test_parts_of_a_batch_side_by_side_are_the_batch(
    rhyme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Split or not, a batch has one loss, and leaves one state behind."""
    monkeypatch.setattr(language, "MIN_LM_PART_TOKENS", 128)
    for model in ("lstm", "transformer_xl", "gpt2"):
        changes = {"train.steps": 1, "model.dropout": 0.0, "train.batch_tokens": 768}
        task = train_recipe(
            recipe(model, rhyme, changes), tmp_path / model, TrainOptions()
        ).run.task
        task.model.double().train()
        first, second = (batch for _, batch in zip(range(2), task.batches("train"), strict=False))
        found = []
        for limit in (1, 3):
            task.carry, totals = {}, []
            for batch in (first, second):
                split_batch = task.split_batch(batch, limit)
                assert len(split_batch) == limit
                totals.append(sum(float(task.loss(part).total.detach()) for part in split_batch))
            found.append(totals)
        assert found[0] == pytest.approx(found[1], rel=1e-10), model


def test_a_model_that_knows_nothing_has_the_vocabulary_for_a_perplexity(
    rhyme: Path, tmp_path: Path
) -> None:
    for model in ("gpt2", "lstm", "transformer_xl", "nnlm"):
        run = train_recipe(
            recipe(model, rhyme, {"train.steps": 1}), tmp_path / model, TrainOptions()
        ).run
        with torch.no_grad():
            for weight in run.task.model.parameters():
                weight.zero_()
        assert run.evaluate()["perplexity"] == pytest.approx(run.recipe.model.vocab_size, rel=1e-5)
