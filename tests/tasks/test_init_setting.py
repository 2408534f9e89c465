"""`train.init`: initial weights of every network, a function of the seed alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import saccade
from saccade.config import build_config
from saccade.errors import ConfigError
from saccade.recipes.resolve import resolve_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.registry import read_recipe, task_spec_for
from saccade.training.config import TrainConfig
from saccade.types.names import DEFAULT_INIT

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


def initial_weights(
    what: str, model: str, changes: dict[str, Any], text: Path
) -> Mapping[str, torch.Tensor]:
    data = str(text) if what == "language" else None
    small = {"data.size": 200} if what == "reverse" else {}
    recipe = resolve_recipe(what, data=data, model=model, changes=small | changes).recipe
    spec = task_spec_for(recipe)
    prepared = spec.prepare(recipe, PrepareContext())
    components = spec.components(prepared.recipe)
    return components.build_model(prepared.recipe, prepared.preprocessor).state_dict()


@pytest.mark.parametrize(("what", "model", "changes"), RECIPES, ids=lambda value: str(value)[:15])
def test_init_is_a_function_of_the_seed_in_every_recipe(
    what: str, model: str, changes: dict[str, Any], text: Path
) -> None:
    def weights(init: str, seed: int = 1) -> Mapping[str, torch.Tensor]:
        settings = changes | {"train.init": init, "train.seed": seed}
        return initial_weights(what, model, settings, text)

    own, initial, again = weights(DEFAULT_INIT), weights("orthogonal"), weights("orthogonal")
    assert all(torch.equal(initial[name], again[name]) for name in own)
    other = weights("orthogonal", seed=2)
    changed = {name for name in own if own[name].dim() > 1 and not own[name].equal(initial[name])}
    assert changed and all(not initial[name].equal(other[name]) for name in changed)
    kept = {name for name in own if "table" in name or "norm" in name}
    assert not kept & changed
    assert not any(b.any() for n, b in initial.items() if ".bias" in n and "norm" not in n)


def test_init_gain_is_that_of_the_activation(text: Path) -> None:
    deviations = {
        name: float(
            initial_weights(
                "table",
                "mlp",
                {"model.hidden": 4000, "model.activation": name, "train.init": "kaiming"},
                text,
            )["output.weight"].std()
        )
        for name in ("relu", "tanh", "sigmoid")
    }
    assert deviations["relu"] / deviations["sigmoid"] == pytest.approx(2**0.5, rel=1e-5)
    assert deviations["tanh"] / deviations["sigmoid"] == pytest.approx(5 / 3, rel=1e-5)


def test_init_refuses_unknown_methods_and_unsuitable_models(text: Path) -> None:
    with pytest.raises(ConfigError, match=r"train.init is 'xaveir': .*Did you mean 'xavier'\?"):
        resolve_recipe("table", changes={"train.init": "xaveir"})
    softmax = {"model.activation": "softmax", "train.init": "kaiming"}
    with pytest.raises(ConfigError, match="train.init: softmax has no gain"):
        initial_weights("language", "gpt2", SMALL | {"model.heads": 2} | softmax, text)
    with pytest.raises(
        ConfigError, match="linear, convolutional or recurrent layers, which attention has not"
    ):
        initial_weights("kernel-regression", "attention", {"train.init": "xavier"}, text)


def test_init_is_optional_in_saved_settings() -> None:
    recipe = resolve_recipe("table").recipe
    values = recipe.model_dump(exclude_unset=True)
    assert "init" not in values["train"]
    assert (
        read_recipe(values, "run.toml").train.init
        == DEFAULT_INIT
        == build_config(TrainConfig, {}).init
    )


def test_init_is_saved_and_has_no_effect_on_loaded_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)
    quick = {"train.steps": 2, "train.evaluate_every": 2, "train.threads": 1, "data.size": 200}

    def trained(init: str, **more: Any) -> Any:
        settings = quick | {"train.init": init}
        return saccade.train("reverse", set=settings, model="seq2seq", progress=False, **more)

    run = trained("lecun", out=tmp_path / "a")
    reopened = saccade.load(tmp_path / "a")
    assert reopened.recipe.train.init == "lecun"
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weight, reopened.model.state_dict()[name])
    after = [
        trained(init, out=tmp_path / init, init_from=tmp_path / "a") for init in ("default", "zero")
    ]
    for one, other in zip(*(run.model.state_dict().values() for run in after), strict=True):
        assert torch.equal(one, other)
