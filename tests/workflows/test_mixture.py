"""Mixtures of language models: weights by expectation maximisation, and their evaluation."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from saccade.cli.main import run as command
from saccade.errors import ConfigError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.language_modeling.score import scorer_of
from saccade.workflows import evaluate_mixture
from saccade.workflows.mixture import fit_mixture_weights, mix_log_probabilities


@given(seed=st.integers(0, 1000), tokens=st.integers(1, 60), shift=st.floats(-2, 2))
def test_weights_maximise_the_likelihood(seed: int, tokens: int, shift: float) -> None:
    random = np.random.default_rng(seed)
    table = np.log(random.uniform(0.01, 1, (2, tokens))) + [[shift], [0.0]]
    table = np.minimum(table, 0)

    def loss(weight: float) -> float:
        return -float(np.log(weight * np.exp(table[0]) + (1 - weight) * np.exp(table[1])).mean())

    found = fit_mixture_weights(table)
    best = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-9})
    least = min(best.fun, loss(0.0), loss(1.0))
    assert found.sum() == pytest.approx(1) and (found >= 0).all()
    assert -mix_log_probabilities(table, found).mean() == pytest.approx(least, abs=1e-5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("mixed")
    random = np.random.default_rng(0)
    words = ["red", "green", "blue", "cat", "dog", "sat", "ran", "on", "the", "mat"]
    lines = [" ".join(random.choice(words, 6)) + " end" for _ in range(300)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    settings = {"data.tokenizer.kind": "word", "train.threads": 1, "data.segment_length": 12}
    steps = {"train.steps": 40, "train.batch_tokens": 128, "model.width": 8}
    found = {}
    for name in ("gru", "nnlm", "ngram"):
        changes = settings | (steps if name != "ngram" else {"model.order": 3})
        recipe = resolve_recipe(
            "language", data=str(folder / "text.txt"), model=name, changes=changes
        ).recipe
        found[name] = train_recipe(recipe, folder / name, TrainOptions()).run
    return found


def test_mixture_equals_its_equation_and_is_no_worse_than_each(runs: dict[str, Run]) -> None:
    names = ("gru", "nnlm", "ngram")
    found = evaluate_mixture([runs[name] for name in names], split="dev")
    dev = runs["gru"].split("dev").ids
    table = np.stack([scorer_of(runs[name].model, 12).log_probabilities(dev) for name in names])
    weights = fit_mixture_weights(table)
    slow = [
        np.log(sum(w * np.exp(row[t]) for w, row in zip(weights, table, strict=True)))
        for t in range(len(dev) - 1)
    ]
    assert found["loss"] == pytest.approx(-np.mean(slow))
    for name in names:
        alone = found.floors[str(runs[name].folder)]["loss"]
        assert alone == pytest.approx(runs[name].evaluate(split="dev")["loss"], rel=1e-5)
        assert found["loss"] <= alone + 1e-6  # the weights converge to a bound slowly
    assert "weights fitted on the dev split" in found.notes[0]


def test_mixture_from_the_command_line(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(runs[name].folder) for name in ("nnlm", "ngram")]
    assert command(["evaluate", folders[0], "--mix", folders[1]]) == 0
    printed = capsys.readouterr()
    assert "perplexity" in printed.out and "Mixture, weights" in printed.err


def test_mixture_refuses_other_tokens_and_tasks(
    runs: dict[str, Run], trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "other.txt").write_text("one two three four five six\n" * 40)
    recipe = resolve_recipe("language", data=str(tmp_path / "other.txt"), model="ngram").recipe
    other = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    with pytest.raises(ConfigError, match="got other tokens"):
        evaluate_mixture([runs["gru"], other])
    with pytest.raises(ConfigError, match="expected language models"):
        evaluate_mixture([runs["gru"], trained_runs["bahdanau"]])
    with pytest.raises(ConfigError, match="two or more"):
        evaluate_mixture([runs["gru"]])
