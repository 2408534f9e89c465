"""`train.init`: in every recipe whose model is trained by steps, a function of the seed alone."""

from pathlib import Path
from typing import Any

import pytest
import torch

import saccade
from saccade.config import build_config
from saccade.errors import ConfigError
from saccade.recipes.resolve import resolve_recipe
from saccade.tasks.registry import read_recipe, task_spec_for
from saccade.training.config import DEFAULT_INIT, TrainConfig

SMALL = {"model.width": 8}
RECIPES: list[tuple[str, str, dict[str, Any]]] = [
    *(("reverse", name, SMALL) for name in ("seq2seq", "bahdanau", "luong", "conv_seq2seq")),
    ("reverse", "transformer", SMALL | {"model.heads": 2}),
    *(("language", name, SMALL) for name in ("rnn", "gru", "gru_reset_first", "lstm")),
    *(("language", name, SMALL) for name in ("conv_lm", "nnlm", "bidirectional")),
    *(("language", name, SMALL | {"model.heads": 2}) for name in ("gpt2", "transformer_xl")),
    ("forecast", "autoregressive", {}),
    ("forecast", "recurrent", {}),
    *(("table", name, {}) for name in ("linear", "mlp", "softmax")),
]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("ten green bottles hanging on the wall\n" * 200, encoding="utf-8")
    return path


def task_of(what: str, model: str, changes: dict[str, Any], text: Path) -> Any:
    data = str(text) if what == "language" else None
    small = {"data.size": 200} if what == "reverse" else {}
    recipe = resolve_recipe(what, data=data, model=model, changes=small | changes).recipe
    prepared = task_spec_for(recipe).prepare(recipe, lambda what, done, total: None)
    return task_spec_for(recipe).task(prepared.recipe, prepared.vocabulary)


@pytest.mark.parametrize(("what", "model", "changes"), RECIPES, ids=lambda value: str(value)[:15])
def test_it_is_in_every_recipe(what: str, model: str, changes: dict[str, Any], text: Path) -> None:
    def weights(init: str, seed: int = 1) -> dict[str, torch.Tensor]:
        settings = changes | {"train.init": init, "train.seed": seed}
        return task_of(what, model, settings, text).weights()

    own, begun, again = weights(DEFAULT_INIT), weights("orthogonal"), weights("orthogonal")
    assert all(torch.equal(begun[name], again[name]) for name in own)
    other = weights("orthogonal", seed=2)
    changed = {name for name in own if own[name].dim() > 1 and not own[name].equal(begun[name])}
    assert changed and all(not begun[name].equal(other[name]) for name in changed)
    kept = {name for name in own if "table" in name or "norm" in name}
    assert not kept & changed
    assert not any(b.any() for n, b in begun.items() if ".bias" in n and "norm" not in n)


def test_the_gain_is_that_of_the_models_activation(text: Path) -> None:
    deviations = {
        name: float(
            task_of(
                "table",
                "mlp",
                {"model.hidden": 4000, "model.activation": name, "train.init": "kaiming"},
                text,
            )
            .weights()["output.weight"]
            .std()
        )
        for name in ("relu", "tanh", "sigmoid")
    }
    assert deviations["relu"] / deviations["sigmoid"] == pytest.approx(2**0.5, rel=1e-5)
    assert deviations["tanh"] / deviations["sigmoid"] == pytest.approx(5 / 3, rel=1e-5)


def test_what_cannot_be_is_said(text: Path) -> None:
    with pytest.raises(ConfigError, match=r"train.init is 'xaveir': .*Did you mean 'xavier'\?"):
        resolve_recipe("table", changes={"train.init": "xaveir"})
    softmax = {"model.activation": "softmax", "train.init": "kaiming"}
    with pytest.raises(ConfigError, match="train.init: softmax has no gain"):
        task_of("language", "gpt2", SMALL | {"model.heads": 2} | softmax, text)
    with pytest.raises(ConfigError, match="attention has no affine, convolutional or recurrent"):
        task_of("kernel-regression", "attention", {"train.init": "xavier"}, text)


def test_settings_that_say_nothing_of_it_are_read() -> None:
    recipe = resolve_recipe("table").recipe
    values = recipe.model_dump(exclude_unset=True)
    assert "init" not in values["train"]
    assert (
        read_recipe(values, "run.toml").train.init
        == DEFAULT_INIT
        == build_config(TrainConfig, {}).init
    )


def test_a_run_begun_so_is_reopened_and_one_from_other_weights_is_as_those_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)
    quick = {"train.steps": 2, "train.evaluate_every": 2, "train.threads": 1, "data.size": 200}

    def trained(init: str, **more: Any) -> Any:
        settings = quick | {"train.init": init}
        return saccade.train("reverse", set=settings, model="seq2seq", progress=False, **more)

    begun = trained("lecun", out=tmp_path / "a")
    reopened = saccade.load(tmp_path / "a")
    assert reopened.recipe.train.init == "lecun"
    for name, weight in begun.task.weights().items():
        assert torch.equal(weight, reopened.task.weights()[name])
    after = [
        trained(init, out=tmp_path / init, init_from=tmp_path / "a") for init in ("default", "zero")
    ]
    for one, other in zip(*(run.task.weights().values() for run in after), strict=True):
        assert torch.equal(one, other)
