"""Models of text: they learn, go on to the bit with the state they carry, and keep the laws."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.cli.main import run as saccade
from saccade.data.vocabulary import END
from saccade.errors import ConfigError, DataError
from saccade.look import laws
from saccade.recipes import find
from saccade.run import Options, open_run, resume, train
from saccade.tasks.language import NetworkLanguage, Prompted
from saccade.training import Event, Stepped

NETWORKS = ("rnn", "gru", "gru_reset_first", "lstm", "convolution")
SMALL = {
    "model.width": 16,
    "data.steps": 12,
    "data.longest_answer": 20,
    "train.batch_tokens": 96,
    "train.steps": 9,
    "train.report_every": 2,
    "train.evaluate_every": 4,
    "train.threads": 1,
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.run.report", lambda run, options: None)
    law = laws.not_tried("compiled equals eager", "takes half a minute")
    monkeypatch.setattr(laws, "compiled", lambda model, example: law)


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
    if model == "convolution":
        settings = settings | {"model.depth": 2}
    found = find("language", data=str(text), model=model, changes=settings | (changes or {}))
    return found.recipe


def stopping(at: int) -> Options:
    def tell(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == at:
            raise KeyboardInterrupt

    return Options(tell=tell)


@pytest.mark.parametrize("reading", ["sequential", "random"])
@pytest.mark.parametrize("model", NETWORKS)
def test_what_was_cut_off_goes_on_to_the_bit(
    model: str,
    reading: str,
    rhyme: Path,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    changes = {"data.reading": reading, "train.checkpoint_seconds": 0, "model.dropout": 0.2}
    wanted = recipe(model, rhyme, changes)
    train(wanted, tmp_path / "whole", Options())
    with pytest.raises(KeyboardInterrupt):
        train(wanted, tmp_path / "run", stopping(5))
    resume(tmp_path / "run", {}, Options())
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
    train(wanted, tmp_path / "whole", Options())
    with pytest.raises(KeyboardInterrupt):
        train(wanted, tmp_path / "run", stopping(4))
    resume(tmp_path / "run", {}, Options())
    assert outcome_of(tmp_path / "run") == outcome_of(tmp_path / "whole")
    train(recipe("gru", rhyme), tmp_path / "full", Options())
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
    run = train(wanted, tmp_path / "run", Options()).run
    figures = run.evaluate()
    ids = run.task.corpora["train"].ids
    shares = np.bincount(ids) / len(ids)
    alone = -sum(p * math.log(p) for p in shares if p)  # nats a letter, by its frequency
    assert figures["loss"] < 0.25 * alone
    again = open_run(tmp_path / "run")
    assert again.evaluate() == figures
    assert again.predict("three green bot").text.startswith("tles and ")


@pytest.mark.parametrize("model", [*NETWORKS, "ngram"])
def test_the_laws_hold_and_are_kept(model: str, rhyme: Path, tmp_path: Path) -> None:
    run = train(recipe(model, rhyme), tmp_path / "run", Options()).run
    findings = run.check(inputs=4)
    assert [f.law for f in findings if f.verdict == "BROKEN"] == []
    tried = {f.law for f in findings if f.tried}
    assert "saved and reopened agree" in tried
    if model != "ngram":
        assert {"step by step equals all at once", "the future is not seen"} <= tried


@pytest.mark.parametrize("model", NETWORKS)
def test_the_loss_is_what_each_token_costs_one_by_one(
    model: str, rhyme: Path, tmp_path: Path
) -> None:
    run = train(recipe(model, rhyme, {"train.steps": 2}), tmp_path / "run", Options()).run
    task = run.task
    ids = task.corpora["test"].ids[:60]
    slow = 0.0
    edges = np.array_split(np.arange(len(ids) - 1), 16)  # the stretches that are read side by side
    with torch.no_grad():
        for stretch in edges:
            state = task.stepper.start(torch.zeros(1, 1))
            for at in stretch:
                logits, state = task.stepper.step(torch.tensor([[int(ids[at])]]), state)
                slow += float(logits[0, 0].log_softmax(-1)[int(ids[at + 1])])
    assert task.total(ids) == pytest.approx(slow, rel=1e-4)


def test_prompts_of_any_lengths_do_not_see_each_other(rhyme: Path, tmp_path: Path) -> None:
    run = train(recipe("lstm", rhyme), tmp_path / "run", Options()).run
    prompts = ["one", "", "two green bottles and ", "t", "one"]
    together = run.predict(prompts, beam=3, n_best=2)
    alone = [run.predict(prompt, beam=3, n_best=2) for prompt in prompts]
    assert [a.text for a in together] == [a.text for a in alone]
    assert together[0] == together[4]


def test_a_prompt_is_read_as_if_it_had_been_written(rhyme: Path, tmp_path: Path) -> None:
    run = train(recipe("gru", rhyme), tmp_path / "run", Options()).run
    task = run.task
    assert isinstance(task, NetworkLanguage)
    prompt = torch.tensor([[END, *task.tokenizer.encode("two gre")]])
    prompted = Prompted(task.stepper)
    logits, state = prompted.step(torch.tensor([[END]]), prompted.start(prompt))
    plain, _ = task.stepper.step(prompt, task.stepper.start(prompt))
    torch.testing.assert_close(logits[:, 0], plain[:, -1])
    after, _ = prompted.step(torch.tensor([[7]]), state)
    both, _ = task.stepper.step(
        torch.cat([prompt, torch.tensor([[7]])], 1), task.stepper.start(prompt)
    )
    torch.testing.assert_close(after[:, 0], both[:, -1])


def test_the_gradients_are_looked_at(rhyme: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(recipe("rnn", rhyme), folder, Options())
    assert saccade(["look", str(folder), "--gradients", "--save", str(tmp_path / "g.svg")]) == 0
    norms = open_run(folder).gradients(tmp_path / "g.png", inputs=4)
    assert norms.shape == (4, 12) and (norms > 0).all()
    # a small network that has hardly learned forgets: vanishing is what is to be seen
    assert np.median(norms[:, -1]) < np.median(norms[:, 0])


def test_counts_have_no_gradient(rhyme: Path, tmp_path: Path) -> None:
    run = train(recipe("ngram", rhyme), tmp_path / "run", Options()).run
    with pytest.raises(ConfigError, match="a recurrent language model has"):
        run.gradients(tmp_path / "g.png")
    run = train(recipe("convolution", rhyme), tmp_path / "other", Options()).run
    with pytest.raises(ConfigError, match="rnn, gru and lstm"):
        run.gradients(tmp_path / "g.png")


def test_a_text_is_looked_at(rhyme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert saccade(["look", str(rhyme), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert counted["words"]["total"] == 240 * 6
    assert counted["words"]["different"] == 14


def test_a_text_is_not_searched_for(rhyme: Path, tmp_path: Path) -> None:
    run = train(recipe("ngram", rhyme), tmp_path / "run", Options()).run
    with pytest.raises(ConfigError, match="leave beam out"):
        run.evaluate(beam=3)


@pytest.mark.parametrize("content", ["", "\n\n\n", "one line"])
def test_a_text_with_nothing_to_learn_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(content)
    with pytest.raises(DataError, match="text"):
        train(recipe("gru", path), tmp_path / "run", Options())
    assert not (tmp_path / "run").exists()


def test_the_python_reference_is_always_there() -> None:
    assert find("language").recipe.data.made == "python"
    with pytest.raises(ConfigError, match="There are: python"):
        train(find("language", changes={"data.made": "pyton"}).recipe, Path("x"), Options())
