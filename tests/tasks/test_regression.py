"""Kernel regression from its recipe to its run, by both models, which are one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.points import noisy_curve, true_curve
from saccade.errors import ConfigError, DataError
from saccade.estimators.kernel_regression import leave_one_out_error, nadaraya_watson
from saccade.io.run_folder import read_metrics
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, TrainOptions, load_run, resume, train_recipe
from saccade.tasks.regression import (
    AttentionKernelTask,
    FittedKernelTask,
    make_regression_task,
    prepare_points,
)
from saccade.tasks.task import FitContext
from saccade.training.loop import Event, ReportEvent

MODELS = ("kernel", "attention")
both = pytest.mark.parametrize("model", MODELS)
FEW = {"train.threads": 1, "train.checkpoint_seconds": 1000}


def recipe_of(model: str = "kernel", **changes: Any) -> Any:
    every = FEW | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_recipe("kernel-regression", model=model, changes=every).recipe


def task_of(model: str, **changes: Any) -> Any:
    prepared = prepare_points(recipe_of(model, **changes), lambda what, done, total: None)
    task = make_regression_task(prepared.recipe, prepared.vocabulary)
    task.attach_data(prepared)
    return task


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A finished run of each model, with its settings as they come."""
    root = tmp_path_factory.mktemp("regressions")
    stop_reason = {
        model: train_recipe(recipe_of(model), root / model, TrainOptions()) for model in MODELS
    }
    assert stop_reason["kernel"].stop_reason == "fitted"
    return {model: trained.run for model, trained in stop_reason.items()}


# --- the two are one ----------------------------------------------------------------------------


def test_each_model_is_a_task_of_its_kind() -> None:
    assert isinstance(task_of("kernel"), FittedKernelTask)
    assert isinstance(task_of("attention"), AttentionKernelTask)


def test_with_the_same_width_both_predict_the_same() -> None:
    kernel, attention = task_of("kernel"), task_of("attention")
    kernel.load({"width": torch.tensor(0.37)})
    attention.load({"score.log_sigma": torch.tensor(float(np.log(np.float32(0.37)))).double()})
    queries = np.linspace(-2, 8, 41)
    np.testing.assert_allclose(
        attention.predict_at(queries), kernel.predict_at(queries), atol=1e-6, rtol=0
    )
    assert attention.leave_one_out(None) == pytest.approx(kernel.leave_one_out(None), rel=1e-6)


def test_both_learn_the_same_width(runs: dict[str, Run]) -> None:
    widths = [runs[model].task.bandwidth for model in MODELS]
    assert widths[1] == pytest.approx(widths[0], rel=0.03)
    assert [runs[model].parameters for model in MODELS] == [1, 1]


@both
def test_it_learns(model: str, runs: dict[str, Run]) -> None:
    scores = runs[model].evaluate()
    assert scores["rmse"] < 0.6 * scores["average_rmse"]
    assert scores["true_rmse"] < 0.3  # the noise has 0.5
    first = task_of(model)
    first.load(
        {"width": torch.tensor(1.0)}
        if model == "kernel"
        else {"score.log_sigma": torch.tensor(0.0, dtype=torch.float64)}
    )
    before, _ = first.evaluate_with_conventions("test")
    assert scores["loss"] < 0.8 * before["loss"] and scores["true_rmse"] < 0.7 * before["true_rmse"]


# --- figures ------------------------------------------------------------------------------------


@both
def test_figures_are_those_of_slow_counting(model: str, runs: dict[str, Run]) -> None:
    run = runs[model]
    scores = run.evaluate()
    keys, values = (getattr(noisy_curve(50, 0.5, 1, "train"), side) for side in "xy")
    held = noisy_curve(50, 0.5, 1, "test")
    bandwidth = run.task.bandwidth
    errors = [
        float(nadaraya_watson(np.array([x]), keys, values, bandwidth, "gaussian").values[0]) - y
        for x, y in zip(held.x, held.y, strict=True)
    ]
    assert scores["loss"] == pytest.approx(np.mean(np.square(errors)), rel=1e-9)
    assert scores["rmse"] == pytest.approx(np.sqrt(scores["loss"]))
    assert scores["average_rmse"] == pytest.approx(np.sqrt(np.mean((held.y - values.mean()) ** 2)))
    grid = np.arange(50) / 10
    apart = nadaraya_watson(grid, keys, values, bandwidth, "gaussian").values - true_curve(grid)
    assert scores["true_rmse"] == pytest.approx(np.sqrt(np.mean(apart**2)), rel=1e-9)
    assert set(scores["conventions"]) == set(scores) - {"examples", "conventions"}
    dev = run.evaluate(split="dev")
    assert dev["loss"] == pytest.approx(leave_one_out_error(keys, values, bandwidth), rel=1e-9)
    assert "foretold from all the others" in dev["conventions"]["loss"]


def test_a_file_has_no_true_curve_and_another_file_can_be_scored(
    tmp_path: Path, no_pictures: None
) -> None:
    points = noisy_curve(40)
    path = tmp_path / "points.csv"
    path.write_text("".join(f"{x},{y}\n" for x, y in zip(points.x, points.y, strict=True)))
    run = train_recipe(
        recipe_of(data__path=str(path), data__synthetic=None), tmp_path / "run", TrainOptions()
    ).run
    scores = run.evaluate()
    assert "true_rmse" not in scores and scores["examples"] == 8
    (tmp_path / "other").write_text("1 2\n2 3\n3 4\n")
    assert run.evaluate(tmp_path / "other")["examples"] == 3
    path.write_text("1,2\n" * 9)  # the run keeps what it looks at
    assert load_run(tmp_path / "run").predict("2.5") == run.predict("2.5")


def test_where_no_point_is_in_reach_the_average_is_the_answer() -> None:
    task = task_of("kernel", model__kernel="boxcar")
    task.fit(FitContext(lambda what, done, total: None))
    assert task.predict_at(np.array([1e9]))[0] == pytest.approx(task.points.y.mean())
    assert np.isfinite(list(task.evaluate("test").values())).all()


@both
def test_goodness_does_not_depend_on_the_units_of_y(model: str) -> None:
    task = task_of(model)
    task.points = task.points._replace(y=task.points.y * 1000)
    scores = {"loss": 0.25 * float(task.points.y.var())}
    assert task.selection_score(scores) == pytest.approx(0.75)


# --- answers ------------------------------------------------------------------------------------


@both
def test_a_number_is_answered_with_a_number(model: str, runs: dict[str, Run]) -> None:
    answer = runs[model].predict("2.5")
    assert float(answer.text) == pytest.approx(answer.values[0], abs=1e-4)
    assert answer.values[0] == pytest.approx(true_curve(np.array([2.5]))[0], abs=0.6)
    one, several = runs[model].predict(["2.5", " 1, 2.5 "])
    assert one == answer
    assert several.values[1] == pytest.approx(answer.values[0], rel=1e-12)
    first = runs[model].task.example_input()
    assert float(first) >= 0 and runs[model].predict(first).text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", "input 7: 'abc' is not a number; wanted a number such as 2.5"),
        ("2,5", "'2,5' is not a number"),
        ("nan", "'nan' is not a number"),
        ("1e999", "'1e999' is not a number"),
        ("  ", "input 7 is empty; wanted a number"),
    ],
)
def test_what_is_no_number_is_named(text: str, message: str, runs: dict[str, Run]) -> None:
    with pytest.raises(DataError, match=message):
        runs["kernel"].predict([text], first=7)


def test_a_beam_is_refused_and_a_beam_of_one_is_none(runs: dict[str, Run]) -> None:
    with pytest.raises(ConfigError, match="got beam, sample; kernel-regression computes its one"):
        runs["kernel"].predict("2.5", beam=3, sample=True)
    assert runs["kernel"].predict("2.5", beam=1, n_best=1).text
    with pytest.raises(ConfigError, match="got beam; .*leave it out"):
        runs["kernel"].evaluate(beam=2)


# --- looking ------------------------------------------------------------------------------------


@both
def test_the_map_has_the_weights_over_the_points_in_order(model: str, runs: dict[str, Run]) -> None:
    look = runs[model].look("2.5 4")
    [(key, map_)] = look.maps.items()
    assert key == ("cross", 1, 1) and map_.rows == ["2.50", "4.00"]
    keys = runs[model].task.points.x
    assert (np.diff(keys) >= 0).all() and len(map_.columns) == 50
    np.testing.assert_allclose(map_.weights.sum(axis=1), 1)
    np.testing.assert_allclose(map_.weights @ runs[model].task.points.y,
                               runs[model].predict("2.5 4").values)  # fmt: skip
    assert abs(keys[map_.weights[0].argmax()] - 2.5) < 0.2
    assert "weight" in look.terminal(80, colour=False)


def test_many_points_share_columns_and_no_weight_is_lost(tmp_path: Path) -> None:
    task = task_of("kernel", data__points=500, model__bandwidth=0.5)
    map_ = task.attention_map(np.array([0.1, 2.5]))
    assert len(map_.columns) == 60 and "about 8 at a time" in map_.across
    np.testing.assert_allclose(map_.weights.sum(axis=1), 1)


@both
def test_the_report_has_a_fit_and_an_attention_map(model: str, runs: dict[str, Run]) -> None:
    drawn = {path.name for path in (runs[model].folder / "report").iterdir()}
    assert {"fit.png", "attention.png"} <= drawn
    assert ("curves.png" in drawn) == (model == "attention")


def test_no_accuracy_is_told_where_there_is_none(runs: dict[str, Run]) -> None:
    lines = read_metrics(runs["attention"].folder / "metrics.jsonl")
    assert any("loss" in line for line in lines)
    assert not any("accuracy" in line for line in lines)


# --- laws and runs ------------------------------------------------------------------------------


@both
def test_every_law_holds(model: str, runs: dict[str, Run]) -> None:
    findings = {f.invariant: f for f in runs[model].check(inputs=9)}
    for invariant in (
        "neighbours change nothing",
        "the order of the points changes nothing",
        "attention equals kernel regression",
        "saved and reopened agree",
    ):
        assert (findings[invariant].verdict, findings[invariant].num_inputs) == ("passed", 9)


def test_a_law_that_is_broken_is_found(runs: dict[str, Run]) -> None:
    task = task_of("kernel")
    task.load({"width": torch.tensor(0.5)})
    other = task_of("kernel")
    other.load({"width": torch.tensor(0.51)})
    assert task.compare_reloaded(other, "test", 9).verdict == "FAILED"
    task.predict_at = lambda queries: queries * len(queries)
    assert next(task.check("test", 9)).verdict == "FAILED"


class Killed(Exception):
    """The machine went down."""


@pytest.mark.parametrize("batch", [4096, 16], ids=["all points", "some of them"])
def test_killed_and_resumed_is_as_never_killed(
    batch: int,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    no_pictures: None,
) -> None:
    recipe = recipe_of(
        "attention",
        train__steps=23,
        train__batch_tokens=batch,
        train__evaluate_every=7,
        train__report_every=5,
        train__checkpoint_seconds=0,
    )
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def on_event(event: Event) -> None:
        if isinstance(event, ReportEvent) and event.step == 15:
            raise Killed

    with pytest.raises(Killed):
        train_recipe(recipe, tmp_path / "broken", TrainOptions(on_event=on_event))
    assert resume(tmp_path / "broken", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "broken") == outcome_of(tmp_path / "whole")


def test_a_fit_can_be_resumed_and_is_the_same(no_pictures: None, runs: dict[str, Run]) -> None:
    compare_reloaded = resume(runs["kernel"].folder, {}, TrainOptions())
    assert (
        compare_reloaded.stop_reason == "fitted"
        and compare_reloaded.run.task.bandwidth == runs["kernel"].task.bandwidth
    )


def test_other_data_is_noticed_on_resuming(tmp_path: Path, no_pictures: None) -> None:
    path = tmp_path / "points"
    path.write_text("".join(f"{x} {x * x}\n" for x in range(20)))
    train_recipe(
        recipe_of(data__path=str(path), data__synthetic=None), tmp_path / "run", TrainOptions()
    )
    path.write_text("".join(f"{x} {x * x + 1}\n" for x in range(20)))
    with pytest.raises(DataError, match="is not what it was when the run began"):
        resume(tmp_path / "run", {}, TrainOptions())


# --- what does not fit --------------------------------------------------------------------------


def test_what_the_recipe_leaves_open_follows_from_the_points(tmp_path: Path) -> None:
    path = tmp_path / "points"
    path.write_text("".join(f"{1000 * x} {x}\n" for x in range(21)))
    recipe = recipe_of("attention", data__path=str(path), data__synthetic=None)
    prepared = prepare_points(recipe, lambda what, done, total: None)
    assert prepared.recipe.model.initial_bandwidth == 4000
    assert [choice.path for choice in prepared.choices] == ["model.initial_bandwidth"]
    assert (
        prepare_points(recipe_of(), lambda what, done, total: None).recipe.model.initial_bandwidth
        == 1.0
    )
    assert not prepare_points(recipe_of(model__initial_bandwidth=2.0), lambda *told: None).choices


def test_points_that_cannot_be_fitted_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "same").write_text("3 1\n3 2\n3 4\n3 5\n")
    for changes, message in (
        (
            {"data__path": str(tmp_path / "same"), "data__synthetic": None},
            "all 3 points .* at x = 3",
        ),
        ({"model__kernel": "boxcar", "model__bandwidth": 1e-3}, "boxcar kernel leaves some point"),
        ({"data__points": 20_001, "model__bandwidth": 1.0}, "20,001 points .* 20,000 are the most"),
    ):
        with pytest.raises((DataError, ConfigError), match=message):
            train_recipe(recipe_of(**changes), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_other_weights_do_not_fit(runs: dict[str, Run]) -> None:
    with pytest.raises(RuntimeError, match="a width was wanted, and there is score.log_sigma"):
        runs["kernel"].task.load(runs["attention"].task.weights())
