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
from saccade.runs.run import load_run
from saccade.training.config import DEFAULT_INIT, TrainConfig
from saccade.workflows import compare
from saccade.workflows.compare_sweeps import SWEEP_LEARNING_RATES, SWEEPS, Sweep

QUICK = {"data.length": 200, "train.threads": 1, "train.evaluate_every": 2, "train.report_every": 2}


@pytest.fixture(scope="module", autouse=True)
def no_pictures() -> Iterator[None]:
    """Of the single runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.runs.run.write_report", lambda run, options: None)
        yield


def test_the_table_speaks_of_what_there_is() -> None:
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
    return compare("optimizers", **call), call


def test_each_optimizer_is_trained_on_the_same(compared: tuple[Any, dict[str, Any]]) -> None:
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


def test_a_rate_for_all_may_be_set(tmp_path: Any) -> None:
    changes = {**QUICK, "train.learning_rate": 0.125}
    call = {"only": ["sgd"], "steps": 2, "seeds": 1, "set": changes, "out": tmp_path}
    compare("optimizers", data="forecast", **call)
    assert load_run(tmp_path / "sgd-1").recipe.train.learning_rate == 0.125


def test_one_that_cannot_is_left_out_unless_it_was_asked_for(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few: dict[str, Any] = {"newton": {}, "sgd": {"train.learning_rate": 1e-3}}
    monkeypatch.setitem(SWEEPS, "optimizers", Sweep("train.optimizer", few))
    large = {**QUICK, "model.hidden": 32}
    call = {"data": "forecast", "models": ["recurrent"], "steps": 2, "seeds": 2, "set": large}
    found = compare("optimizers", **call, out=tmp_path / "a")
    assert [row.model for row in found.rows] == ["sgd"] and len(found.rows[0].runs) == 2
    assert any("newton was left out: train.optimizer" in note for note in found.notes)
    assert not (tmp_path / "a" / "newton-1").exists()
    with pytest.raises(ConfigError, match="weights are the most"):
        compare("optimizers", **call, only=["newton", "sgd"], out=tmp_path / "b")
    broken = {"sgd": {"train.learning_rate": 1e30, "train.clip_norm": 1e30, "train.warmup": 0}}
    monkeypatch.setitem(SWEEPS, "optimizers", Sweep("train.optimizer", {**broken, "adam": {}}))
    call |= {"steps": 6}
    found = compare("optimizers", **call, out=tmp_path / "c")
    assert [row.model for row in found.rows] == ["adam"]
    assert any("sgd was left out: at step" in note for note in found.notes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"data": None}, "compare optimizers needs something to train: --data"),
        ({"models": ["recurrent", "autoregressive"]}, "trains one model with each optimizer"),
        ({"only": ["sdg"]}, "no optimizer 'sdg'. Did you mean 'sgd'"),
        ({"only": ["sgd", "sgd"]}, "each was wanted once"),
        ({"set": {"train.optimizer": "sgd"}}, "sets train.optimizer by itself; use --only"),
        ({"data": "kernel-regression", "set": {}}, "kernel fits itself and takes no steps"),
        ({"data": "vectors"}, "skipgram has no train.optimizer, so there is nothing to compare"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_nonsense_is_refused_before_anything_is_trained(
    wrong: dict[str, Any], message: str, tmp_path: Any
) -> None:
    call = {"data": "forecast", "steps": 2, "set": QUICK, "out": tmp_path / "new", **wrong}
    with pytest.raises(ConfigError, match=message):
        compare("optimizers", **call)
    assert not (tmp_path / "new").exists()


def test_only_is_for_what_varies(words_file: Any) -> None:
    with pytest.raises(ConfigError, match="only is for activations, inits, optimizers; use"):
        compare(str(words_file), only=["sgd"])


def test_the_command(
    compared: tuple[Any, dict[str, Any]], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    _, call = compared
    settings = [f"--set={path}={value}" for path, value in QUICK.items()]
    arguments = ["compare", "optimizers", "--data", "forecast", "--only", "sgd,adam,newton"]
    arguments += ["--steps", "4", "--seeds", "2", "--out", str(call["out"]), *settings]
    assert command(arguments) == 0
    shown = capsys.readouterr().out
    assert "optimizer" in shown and "newton" in shown and "train.learning_rate: " in shown
    assert command([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compared"] == "optimizer"


# --- activations and inits ------------------------------------------------------------------------

SHORT = {"train.threads": 1, "train.evaluate_every": 4, "train.report_every": 4}


def test_activations_are_tried_with_the_same_start(tmp_path: Any) -> None:
    call = {"data": "table", "steps": 4, "seeds": 1, "set": SHORT, "out": tmp_path}
    found = compare("activations", **call)
    names = {row.model for row in found.rows}
    assert found.compared == "activation" and names == ACTIVATIONS.keys() - {"softmax"}
    runs = {name: load_run(tmp_path / f"{name}-1") for name in names}
    assert all(run.recipe.model.activation == name for name, run in runs.items())
    same = {
        run.recipe.with_values(model={"name": "mlp"}).model_dump_json() for run in runs.values()
    }
    assert len(same) == 1
    assert "softmax was left out: it is a function of a whole layer and not of one number." in (
        found.notes
    )


def test_a_start_for_all_has_each_activations_gain(tmp_path: Any) -> None:
    begun = {**SHORT, "train.init": "kaiming", "train.learning_rate": 1e-12, "model.hidden": 3}
    only = {"only": ["relu", "tanh"], "steps": 1, "seeds": 1}
    compare("activations", data="table", **only, set=begun, out=tmp_path)
    relu, tanh = (
        load_run(tmp_path / f"{n}-1").task.weights()["output.weight"] for n in only["only"]
    )
    torch.testing.assert_close(relu / 2**0.5, tanh / (5 / 3))


def test_inits_are_tried_beside_the_models_own(tmp_path: Any) -> None:
    deep = {**SHORT, "model.hidden": "8,8", "train.learning_rate": 0.02}
    names = ["default", "kaiming", "zero", "constant"]
    call = {"only": names, "steps": 250, "seeds": 1, "set": deep, "out": tmp_path}
    found = compare("inits", data="table", **call)
    assert found.compared == "init" and {row.model for row in found.rows} == {*names}
    tests = {row.model: row.mean("test") for row in found.rows}
    assert max(tests["default"], tests["kaiming"]) < 0.7 * tests["constant"]
    assert tests["zero"] == pytest.approx(math.log(2), abs=0.01)  # of two classes: it knows nothing
    for name in ("zero", "constant"):  # the symmetry never breaks
        weights = load_run(tmp_path / f"{name}-1").task.weights()
        first = weights["hidden.0.linear.weight"]
        assert torch.equal(first, first[:1].expand_as(first))


@pytest.mark.parametrize(
    ("word", "call", "message"),
    [
        ("activations", {"data": "table", "models": ["softmax"]}, "with --models: mlp\\."),
        ("activations", {"data": "language", "models": ["gru"]}, "gru has no model.activation"),
        ("activations", {"data": "forecast"}, "hidden layer's, and there is none; set model.hid"),
        ("activations", {"data": "table", "only": ["softmax"]}, "activation of single numbers"),
        ("inits", {"data": "table", "only": ["xaveir"]}, "no init 'xaveir'. Did you mean 'xavier'"),
        ("inits", {"data": "table", "set": {"train.init": "zero"}}, "sets train.init by itself"),
        ("inits", {"data": "vectors"}, "skipgram has no train.init, so there is nothing to comp"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_has_nothing_to_vary_is_refused(
    word: str, call: dict[str, Any], message: str, tmp_path: Any
) -> None:
    with pytest.raises(ConfigError, match=message):
        compare(word, **{"steps": 1, "seeds": 1, "out": tmp_path / "new", **call})
