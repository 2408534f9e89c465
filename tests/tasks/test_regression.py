"""Kernel regression, as an estimator and as attention: the two models compute the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from saccade.data.points import Points, noisy_curve, true_curve
from saccade.errors import ConfigError, DataError
from saccade.estimators.kernel_regression import leave_one_out_error, nadaraya_watson
from saccade.io.run_folder import read_metrics
from saccade.models.kernel_attention import KernelAttention
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.kernel_regression.data import PointSplit, prepare_points
from saccade.tasks.kernel_regression.evaluate import CurveEvaluator
from saccade.tasks.kernel_regression.inspect import CurveInspector
from saccade.tasks.kernel_regression.objective import BandwidthSearch
from saccade.tasks.kernel_regression.smoother import KernelModel, Smoother, build_kernel_model
from saccade.training.estimator import FitContext
from saccade.training.loop import Event, ReportEvent

MODELS = ("kernel", "attention")
both = pytest.mark.parametrize("model", MODELS)
QUIET = {"train.threads": 1, "train.checkpoint_seconds": 1000}


def recipe_of(model: str = "kernel", **changes: Any) -> Any:
    settings = QUIET | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_recipe("kernel-regression", model=model, changes=settings).recipe


class Parts(NamedTuple):
    """An untrained model with its data and capabilities."""

    recipe: Any
    model: Any
    points: Points
    splits: dict[str, PointSplit]
    evaluator: CurveEvaluator
    inspector: CurveInspector

    @property
    def smoother(self) -> Smoother:
        """The curve of the model."""
        return self.evaluator.smoother


def build_parts(name: str, bandwidth: float | None = None, **changes: Any) -> Parts:
    """Build a model of a bandwidth, and its capabilities, without training."""
    data = prepare_points(recipe_of(name, **changes), PrepareContext())
    model = build_kernel_model(data.recipe, data.preprocessor)
    if bandwidth is not None:
        if isinstance(model, KernelModel):
            model.load_state_dict({"width": torch.tensor(bandwidth)})
        else:
            log_bandwidth = torch.tensor(float(np.log(np.float32(bandwidth)))).double()
            model.load_state_dict({**model.state_dict(), "score.log_sigma": log_bandwidth})
    return Parts(
        data.recipe,
        model,
        data.preprocessor,
        data.splits,
        CurveEvaluator(data.recipe, model, data.preprocessor),
        CurveInspector(data.recipe, model, data.preprocessor),
    )


def bandwidth_of(run: Run) -> float:
    """Return the bandwidth of a run."""
    return float(run.model.bandwidth)


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train without drawing the figures of the report."""
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A finished run of each model with default settings."""
    root = tmp_path_factory.mktemp("regressions")
    results = {
        model: train_recipe(recipe_of(model), root / model, TrainOptions()) for model in MODELS
    }
    assert results["kernel"].stop_reason == "fitted"
    return {model: result.run for model, result in results.items()}


# --- estimator and attention --------------------------------------------------------------------


def test_kernel_models_are_built_by_name(runs: dict[str, Run]) -> None:
    assert isinstance(build_parts("kernel").model, KernelModel)
    assert isinstance(build_parts("attention").model, KernelAttention)
    assert [runs[model].is_trained_by_loop for model in MODELS] == [False, True]


def test_kernel_models_of_same_bandwidth_predict_the_same() -> None:
    kernel, attention = (build_parts(model, 0.37).smoother for model in MODELS)
    queries = np.linspace(-2, 8, 41)
    np.testing.assert_allclose(
        attention.predict_at(queries), kernel.predict_at(queries), atol=1e-6, rtol=0
    )
    assert attention.leave_one_out(None) == pytest.approx(kernel.leave_one_out(None), rel=1e-6)


def test_kernel_models_learn_the_same_bandwidth(runs: dict[str, Run]) -> None:
    widths = [bandwidth_of(runs[model]) for model in MODELS]
    assert widths[1] == pytest.approx(widths[0], rel=0.03)
    assert [runs[model].parameters for model in MODELS] == [1, 1]


@both
def test_kernel_model_beats_mean_and_initial_bandwidth(model: str, runs: dict[str, Run]) -> None:
    scores = runs[model].evaluate()
    assert scores["rmse"] < 0.6 * scores["average_rmse"]
    assert scores["true_rmse"] < 0.3  # the noise has 0.5
    initial = build_parts(model, 1.0)
    before = initial.evaluator.evaluate(initial.splits["test"])
    assert scores["loss"] < 0.8 * before["loss"] and scores["true_rmse"] < 0.7 * before["true_rmse"]


# --- metrics ------------------------------------------------------------------------------------


@both
def test_kernel_metrics_match_their_definitions(model: str, runs: dict[str, Run]) -> None:
    run = runs[model]
    scores = run.evaluate()
    keys, values = (getattr(noisy_curve(50, 0.5, 1, "train"), side) for side in "xy")
    test = noisy_curve(50, 0.5, 1, "test")
    bandwidth = bandwidth_of(run)
    errors = [
        float(nadaraya_watson(np.array([x]), keys, values, bandwidth, "gaussian").values[0]) - y
        for x, y in zip(test.x, test.y, strict=True)
    ]
    assert scores["loss"] == pytest.approx(np.mean(np.square(errors)), rel=1e-9)
    assert scores["rmse"] == pytest.approx(np.sqrt(scores["loss"]))
    assert scores["average_rmse"] == pytest.approx(np.sqrt(np.mean((test.y - values.mean()) ** 2)))
    grid = np.arange(50) / 10
    errors = nadaraya_watson(grid, keys, values, bandwidth, "gaussian").values - true_curve(grid)
    assert scores["true_rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-9)
    assert set(scores.conventions) == set(scores) - {"examples"}
    dev = run.evaluate(split="dev")
    assert dev["loss"] == pytest.approx(leave_one_out_error(keys, values, bandwidth), rel=1e-9)
    assert "predicted from all others" in dev.conventions["loss"]


def test_kernel_floor_predicts_the_mean(runs: dict[str, Run]) -> None:
    run = runs["kernel"]
    train, test = (noisy_curve(50, 0.5, 1, split).y for split in ("train", "test"))
    expected = float(np.mean((test - train.mean()) ** 2))
    evaluation = run.evaluate()
    floor = {"loss": pytest.approx(expected), "rmse": pytest.approx(expected**0.5)}
    assert evaluation.floors == {"mean": floor}
    assert evaluation.floors["mean"]["rmse"] == evaluation["average_rmse"]
    others = np.array([np.delete(train, i).mean() for i in range(len(train))])  # leave-one-out
    expected = float(np.mean((train - others) ** 2))
    evaluation = run.evaluate(split="dev")
    assert evaluation.floors["mean"]["loss"] == pytest.approx(expected)
    assert evaluation.floors["mean"]["rmse"] == evaluation["average_rmse"]


def test_kernel_regression_reads_a_file_and_scores_another(tmp_path: Path, no_report: None) -> None:
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
    path.write_text("1,2\n" * 9)  # the run has its own copy of the points
    assert load_run(tmp_path / "run").predict("2.5") == run.predict("2.5")


def test_boxcar_prediction_without_points_in_reach_is_the_mean() -> None:
    parts = build_parts("kernel", model__kernel="boxcar")
    BandwidthSearch(parts.recipe, parts.model, parts.points, parts.splits).fit(FitContext())
    found = parts.smoother.predict_at(np.array([1e9]))
    assert found[0] == pytest.approx(parts.points.y.mean())
    metrics = parts.evaluator.evaluate(parts.splits["test"])
    assert np.isfinite(list(metrics.values())).all()


@both
def test_selection_score_is_independent_of_the_units_of_y(model: str) -> None:
    parts = build_parts(model)
    points = parts.points._replace(y=parts.points.y * 1000)
    evaluator = CurveEvaluator(parts.recipe, parts.model, points)
    scores = {"loss": 0.25 * float(points.y.var())}
    assert evaluator.selection_score(scores) == pytest.approx(0.75)


# --- predictions --------------------------------------------------------------------------------


@both
def test_kernel_regression_predicts_at_each_number(model: str, runs: dict[str, Run]) -> None:
    prediction = runs[model].predict("2.5")
    assert float(prediction.text) == pytest.approx(prediction.values[0], abs=1e-4)
    assert prediction.values[0] == pytest.approx(true_curve(np.array([2.5]))[0], abs=0.6)
    one, several = runs[model].predict(["2.5", " 1, 2.5 "])
    assert one == prediction
    assert several.values[1] == pytest.approx(prediction.values[0], rel=1e-12)
    example = runs[model].inspector.example_input(runs[model].split("test"))
    assert float(example) >= 0 and runs[model].predict(example).text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", "input 7: got 'abc', which is not a number; expected a number such as 2.5"),
        ("2,5", "got '2,5', which is not a number"),
        ("nan", "got 'nan', which is not a number"),
        ("1e999", "got '1e999', which is not a number"),
        ("  ", "input 7: got an empty line; expected a number"),
    ],
)
def test_kernel_regression_rejects_invalid_inputs(
    text: str, message: str, runs: dict[str, Run]
) -> None:
    with pytest.raises(DataError, match=message):
        runs["kernel"].predict([text], first=7)


def test_kernel_regression_rejects_decoding_options(runs: dict[str, Run]) -> None:
    with pytest.raises(
        ConfigError, match="got beam, sample; expected no decoding options: .* its one"
    ):
        runs["kernel"].predict("2.5", beam=3, sample=True)
    assert runs["kernel"].predict("2.5", beam=1, n_best=1).text
    with pytest.raises(ConfigError, match="got beam; .*try without beam"):
        runs["kernel"].evaluate(beam=2)


# --- attention ----------------------------------------------------------------------------------


@both
def test_attention_map_has_weights_of_points_in_order(model: str, runs: dict[str, Run]) -> None:
    look = runs[model].look("2.5 4")
    [(key, map_)] = look.maps.items()
    assert key == ("cross", 1, 1) and map_.rows == ["2.50", "4.00"]
    points = runs[model].preprocessor
    keys = points.x
    assert (np.diff(keys) >= 0).all() and len(map_.columns) == 50
    np.testing.assert_allclose(map_.weights.sum(axis=1), 1)
    predicted = runs[model].predict("2.5 4").values
    np.testing.assert_allclose(map_.weights @ points.y, predicted)
    assert abs(keys[map_.weights[0].argmax()] - 2.5) < 0.2
    assert "weight" in look.terminal(80, colour=False)


def test_attention_map_sums_neighbouring_points() -> None:
    parts = build_parts("kernel", data__points=500, model__bandwidth=0.5)
    map_ = parts.inspector.attention_map(np.array([0.1, 2.5]))
    assert len(map_.columns) == 60 and "about 8 at a time" in map_.across
    np.testing.assert_allclose(map_.weights.sum(axis=1), 1)


@both
def test_kernel_report_has_fit_and_attention_map(model: str, runs: dict[str, Run]) -> None:
    drawn = {path.name for path in (runs[model].folder / "report").iterdir()}
    assert {"fit.png", "attention.png"} <= drawn
    assert ("curves.png" in drawn) == (model == "attention")


def test_kernel_metrics_log_has_no_accuracy(runs: dict[str, Run]) -> None:
    lines = read_metrics(runs["attention"].folder / "metrics.jsonl")
    assert any("loss" in line for line in lines)
    assert not any("accuracy" in line for line in lines)


# --- invariants and runs ------------------------------------------------------------------------


@both
def test_kernel_model_passes_every_check(model: str, runs: dict[str, Run]) -> None:
    results = {result.invariant: result for result in runs[model].check(inputs=9)}
    for invariant in (
        "batch invariance",
        "permutation invariance",
        "attention equals kernel regression",
        "reload consistency",
    ):
        assert (results[invariant].verdict, results[invariant].num_inputs) == ("passed", 9)


def test_checks_find_broken_invariants(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, other = build_parts("kernel", 0.5), build_parts("kernel", 0.51)
    inspector, split = parts.inspector, parts.splits["test"]
    assert inspector.compare_reloaded(other.model, split, 9).verdict == "FAILED"
    monkeypatch.setattr(
        inspector.smoother, "predict_at", lambda queries: queries * float(len(queries))
    )
    assert next(inspector.checks(split, 9)).verdict == "FAILED"


class Killed(Exception):
    """Interruption of a training."""


@pytest.mark.parametrize("batch", [4096, 16], ids=["all points", "16 points"])
def test_resumed_attention_has_same_bits(
    batch: int,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    no_report: None,
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
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=on_event))
    assert resume(tmp_path / "resumed", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")


def test_resumed_bandwidth_search_finds_same_bandwidth(
    no_report: None, runs: dict[str, Run]
) -> None:
    resumed = resume(runs["kernel"].folder, {}, TrainOptions())
    assert resumed.stop_reason == "fitted"
    assert bandwidth_of(resumed.run) == bandwidth_of(runs["kernel"])


def test_resume_rejects_changed_points(tmp_path: Path, no_report: None) -> None:
    path = tmp_path / "points"
    path.write_text("".join(f"{x} {x * x}\n" for x in range(20)))
    train_recipe(
        recipe_of(data__path=str(path), data__synthetic=None), tmp_path / "run", TrainOptions()
    )
    path.write_text("".join(f"{x} {x * x + 1}\n" for x in range(20)))
    with pytest.raises(DataError, match="got other training data .* than when the run was started"):
        resume(tmp_path / "run", {}, TrainOptions())


# --- chosen settings and rejected data ----------------------------------------------------------


def test_initial_bandwidth_follows_from_the_points(tmp_path: Path) -> None:
    path = tmp_path / "points"
    path.write_text("".join(f"{1000 * x} {x}\n" for x in range(21)))
    recipe = recipe_of("attention", data__path=str(path), data__synthetic=None)
    data = prepare_points(recipe, PrepareContext())
    assert data.recipe.model.initial_bandwidth == 4000
    assert [choice.path for choice in data.choices] == ["model.initial_bandwidth"]
    assert prepare_points(recipe_of(), PrepareContext()).recipe.model.initial_bandwidth == 1.0
    given = recipe_of(model__initial_bandwidth=2.0)
    assert not prepare_points(given, PrepareContext()).choices


def test_kernel_regression_rejects_unusable_points_before_writing(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("3 1\n3 2\n3 4\n3 5\n")
    for changes, message in (
        (
            {"data__path": str(tmp_path / "same"), "data__synthetic": None},
            "all 3 points at x = 3",
        ),
        ({"model__kernel": "boxcar", "model__bandwidth": 1e-3}, "boxcar kernel leaves a point"),
        (
            {"data__points": 20_001, "model__bandwidth": 1.0},
            "20,001 training points; expected at most 20,000",
        ),
    ):
        with pytest.raises((DataError, ConfigError), match=message):
            train_recipe(recipe_of(**changes), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_kernel_model_rejects_weights_of_attention(runs: dict[str, Run]) -> None:
    with pytest.raises(RuntimeError, match="got .*score.log_sigma.*; expected width"):
        runs["kernel"].model.load_state_dict(runs["attention"].model.state_dict())
