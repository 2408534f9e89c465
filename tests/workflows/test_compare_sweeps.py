import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from saccade.cli.main import run as command
from saccade.errors import ConfigError
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.init import INITS
from saccade.optim import OPTIMIZERS
from saccade.recipes.sweeps import SWEEP_LEARNING_RATES, SWEEPS, Sweep
from saccade.runs.run import load_run
from saccade.training.config import TrainConfig
from saccade.types.names import DEFAULT_INIT
from saccade.workflows import compare_models

QUICK = {"data.length": 200, "train.threads": 1, "train.evaluate_every": 2, "train.report_every": 2}


@pytest.fixture(scope="module", autouse=True)
def no_pictures() -> Iterator[None]:
    """Settings of the single runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)
        yield


def test_sweeps_cover_the_registries() -> None:
    assert SWEEP_LEARNING_RATES.keys() <= OPTIMIZERS.keys()
    assert SWEEPS["optimizers"].values.keys() == OPTIMIZERS.keys()
    assert SWEEPS["activations"].values.keys() == ACTIVATIONS.keys()
    assert SWEEPS["inits"].values.keys() == {DEFAULT_INIT, *INITS}
    assert all(varied.opt_in.keys() <= varied.values.keys() for varied in SWEEPS.values())
    known = {f"train.{name}" for name in TrainConfig.model_fields}
    for varied in SWEEPS.values():
        for value in varied.values:
            changes = {path: v for path, v in varied.changes(value).items() if path in known}
            TrainConfig(**{path.removeprefix("train."): v for path, v in changes.items()})


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    call = {"data": "forecast", "only": ["sgd", "adam", "newton"], "steps": 4, "seeds": 2}
    call |= {"set": QUICK, "out": tmp_path_factory.mktemp("compared")}
    return compare_models("optimizers", **call), call


def test_compare_optimizers_share_data_and_settings(compared: tuple[Any, dict[str, Any]]) -> None:
    found, call = compared
    assert found.compared == "optimizer" and {row.model for row in found.rows} == {*call["only"]}
    runs = {(n, s): load_run(call["out"] / f"{n}-{s}") for n in call["only"] for s in (1, 2)}
    for (name, seed), run in runs.items():
        kept = run.recipe.train
        assert (kept.optimizer, kept.seed, kept.steps) == (name, seed, 4)
        assert kept.learning_rate == SWEEP_LEARNING_RATES.get(name, 0.05)  # the recipe's own
    assert len({run.metadata["data"] for run in runs.values()}) == 1
    same = {run.recipe.with_values(train={}).model_dump_json() for run in runs.values()}
    assert len(same) == 1
    # a bowl takes newton one step
    assert found.rows[0].model == "newton"
    (rates,) = [note for note in found.notes if "learning_rate" in note]
    assert {*rates.removeprefix("train.learning_rate: ").removesuffix(".").split("; ")} == {
        "0.05 for adam",
        "1.0 for newton, sgd",
    }
    (decays,) = [note for note in found.notes if "train.schedule" in note]
    assert "constant for newton" in decays and "cosine for sgd, adam" in decays
    assert not any("train.warmup" in note for note in found.notes)  # 0 for all
    for row in found.rows:  # drawn over steps, of which all have made as many
        assert all(one.curve_over(steps=True)[:, 0].tolist() == [2.0, 4.0] for one in row.runs)
        assert all(one.curve_over(steps=False) is one.curve for one in row.runs)
    assert found.plot.stat().st_size > 1000


def test_compare_optimizers_with_one_learning_rate(tmp_path: Any) -> None:
    changes = {**QUICK, "train.learning_rate": 0.125}
    call = {"only": ["sgd"], "steps": 2, "seeds": 1, "set": changes, "out": tmp_path}
    compare_models("optimizers", data="forecast", **call)
    assert load_run(tmp_path / "sgd-1").recipe.train.learning_rate == 0.125


def test_compare_leaves_out_failing_values_unless_named(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_optimizers: dict[str, Any] = {"newton": {}, "sgd": {"train.learning_rate": 1e-3}}
    monkeypatch.setitem(SWEEPS, "optimizers", Sweep("train.optimizer", two_optimizers))
    large = {**QUICK, "model.hidden": 32}
    call = {"data": "forecast", "models": ["recurrent"], "steps": 2, "seeds": 2, "set": large}
    found = compare_models("optimizers", **call, out=tmp_path / "a")
    assert [row.model for row in found.rows] == ["sgd"] and len(found.rows[0].runs) == 2
    assert any("newton was left out: train.optimizer" in note for note in found.notes)
    assert not (tmp_path / "a" / "newton-1").exists()
    with pytest.raises(ConfigError, match="expected at most 2,048 weights"):
        compare_models("optimizers", **call, only=["newton", "sgd"], out=tmp_path / "b")
    broken = {"sgd": {"train.learning_rate": 1e9, "train.clip_norm": 1e9, "train.warmup": 0}}
    monkeypatch.setitem(SWEEPS, "optimizers", Sweep("train.optimizer", {**broken, "adam": {}}))
    call |= {"steps": 6}
    found = compare_models("optimizers", **call, out=tmp_path / "c")
    assert [row.model for row in found.rows] == ["adam"]
    (note,) = [note for note in found.notes if note.startswith("sgd was left out: got a loss of")]
    assert " at step " in note


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"data": None}, "compare optimizers needs something to train: --data"),
        (
            {"models": ["recurrent", "autoregressive"]},
            "expected one, which compare optimizers trains with each optimizer",
        ),
        ({"only": ["sdg"]}, "no optimizer 'sdg'. Did you mean 'sgd'"),
        ({"only": ["sgd", "sgd"]}, "expected one or more, each once"),
        ({"set": {"train.optimizer": "sgd"}}, "sets train.optimizer itself; use --only"),
        ({"data": "kernel-regression", "set": {}}, "kernel is not trained by gradient descent"),
        ({"data": "vectors"}, "skipgram has no train.optimizer"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_compare_optimizers_refuses_invalid_options(
    wrong: dict[str, Any], message: str, tmp_path: Any
) -> None:
    call = {"data": "forecast", "steps": 2, "set": QUICK, "out": tmp_path / "new", **wrong}
    with pytest.raises(ConfigError, match=message):
        compare_models("optimizers", **call)
    assert not (tmp_path / "new").exists()


def test_compare_only_is_for_sweeps(words_file: Any) -> None:
    with pytest.raises(
        ConfigError, match="only selects values of activations, inits, optimizers; use"
    ):
        compare_models(str(words_file), only=["sgd"])


def test_compare_optimizers_command(
    compared: tuple[Any, dict[str, Any]], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    _, call = compared
    settings = [f"--set={path}={value}" for path, value in QUICK.items()]
    arguments = ["compare", "optimizers", "--data", "forecast", "--only", "sgd,adam,newton"]
    arguments += ["--steps", "4", "--seeds", "2", "--out", str(call["out"]), *settings]
    assert command(arguments) == 0
    output = capsys.readouterr().out
    assert "optimizer" in output and "newton" in output and "train.learning_rate: " in output
    assert command([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compared"] == "optimizer"


# --- activations and inits ------------------------------------------------------------------------

SHORT = {"train.threads": 1, "train.evaluate_every": 4, "train.report_every": 4}


def test_compare_activations_share_settings(tmp_path: Any) -> None:
    call = {"data": "table", "steps": 4, "seeds": 1, "set": SHORT, "out": tmp_path}
    found = compare_models("activations", **call)
    names = {row.model for row in found.rows}
    assert found.compared == "activation" and names == ACTIVATIONS.keys() - {"softmax"}
    runs = {name: load_run(tmp_path / f"{name}-1") for name in names}
    assert all(run.recipe.model.activation == name for name, run in runs.items())
    same = {
        run.recipe.with_values(model={"name": "mlp"}).model_dump_json() for run in runs.values()
    }
    assert len(same) == 1
    assert "softmax was left out: it is a function of a whole layer, not of one unit." in (
        found.notes
    )


def test_compare_activations_init_uses_gain(tmp_path: Any) -> None:
    settings = {**SHORT, "train.init": "kaiming", "train.learning_rate": 1e-12, "model.hidden": 3}
    only = {"only": ["relu", "tanh"], "steps": 1, "seeds": 1}
    compare_models("activations", data="table", **only, set=settings, out=tmp_path)
    relu, tanh = (
        load_run(tmp_path / f"{n}-1").model.state_dict()["output.weight"] for n in only["only"]
    )
    torch.testing.assert_close(relu / 2**0.5, tanh / (5 / 3))


def test_compare_inits_includes_the_default(tmp_path: Any) -> None:
    deep = {**SHORT, "model.hidden": "8,8", "train.learning_rate": 0.02}
    names = ["default", "kaiming", "zero", "constant"]
    call = {"only": names, "steps": 250, "seeds": 1, "set": deep, "out": tmp_path}
    found = compare_models("inits", data="table", **call)
    assert found.compared == "init" and {row.model for row in found.rows} == {*names}
    tests = {row.model: row.mean("test") for row in found.rows}
    assert max(tests["default"], tests["kaiming"]) < 0.7 * tests["constant"]
    assert tests["zero"] == pytest.approx(math.log(2), abs=0.01)  # of two classes: it knows nothing
    for name in ("zero", "constant"):  # the symmetry never breaks
        weights = load_run(tmp_path / f"{name}-1").model.state_dict()
        first = weights["hidden.0.linear.weight"]
        assert torch.equal(first, first[:1].expand_as(first))


@pytest.mark.parametrize(
    ("word", "call", "message"),
    [
        (
            "activations",
            {"data": "table", "models": ["softmax"]},
            r"Models that have it: mlp \(--models\)",
        ),
        ("activations", {"data": "language", "models": ["gru"]}, "gru has no model.activation"),
        ("activations", {"data": "forecast"}, "no hidden layer to apply it in; set model.hid"),
        ("activations", {"data": "table", "only": ["softmax"]}, "activation of single numbers"),
        ("inits", {"data": "table", "only": ["xaveir"]}, "no init 'xaveir'. Did you mean 'xavier'"),
        ("inits", {"data": "table", "set": {"train.init": "zero"}}, "sets train.init itself"),
        ("inits", {"data": "vectors"}, "skipgram has no train.init"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_compare_refuses_models_without_the_setting(
    word: str, call: dict[str, Any], message: str, tmp_path: Any
) -> None:
    with pytest.raises(ConfigError, match=message):
        compare_models(word, **{"steps": 1, "seeds": 1, "out": tmp_path / "new", **call})
