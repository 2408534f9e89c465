"""Forecasting by both models: training, metrics, predictions, checks, rejected data."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from saccade.data.series_splits import SeriesSplit
from saccade.data.time_series import noisy_sine
from saccade.errors import ConfigError, DataError
from saccade.io.run_folder import read_metrics
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.explanation import Explanation
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.forecasting.components import build_forecaster
from saccade.tasks.forecasting.data import (
    Standardizer,
    fit_standardizer,
    prepare_series,
)
from saccade.tasks.forecasting.evaluate import ForecastEvaluator
from saccade.tasks.forecasting.inspect import ForecastInspector
from saccade.tasks.forecasting.objective import ForecastObjective
from saccade.tasks.forecasting.predict import ForecastPredictor
from saccade.training.loop import Event, ReportEvent

MODELS = ("autoregressive", "recurrent")
both = pytest.mark.parametrize("model", MODELS)
QUIET = {"train.threads": 1, "train.checkpoint_seconds": 1000}
SMALL = {"data__length": 120, "train__steps": 13, "train__evaluate_every": 5}
SMALL |= {"train__report_every": 4, "train__batch_tokens": 100}


def recipe_of(model: str = "autoregressive", **changes: Any) -> Any:
    settings = QUIET | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_recipe("forecast", model=model, changes=settings).recipe


class Parts(NamedTuple):
    """An untrained forecaster with its data and capabilities."""

    model: Any
    standardizer: Standardizer
    splits: dict[str, SeriesSplit]
    objective: ForecastObjective
    predictor: ForecastPredictor
    evaluator: ForecastEvaluator
    inspector: ForecastInspector


def build_parts(name: str = "autoregressive", **changes: Any) -> Parts:
    """Build a model and its capabilities without training."""
    recipe, standardizer, splits = prepared(name, **changes)
    model = build_forecaster(recipe, standardizer)
    return Parts(
        model,
        standardizer,
        splits,
        ForecastObjective(recipe, model, standardizer, splits),
        ForecastPredictor(recipe, model, standardizer),
        ForecastEvaluator(recipe, model, standardizer),
        ForecastInspector(recipe, model, standardizer),
    )


def prepared(name: str, **changes: Any) -> tuple[Any, Standardizer, dict[str, SeriesSplit]]:
    """Return recipe, standardiser and splits."""
    data = prepare_series(recipe_of(name, **changes), PrepareContext())
    return data.recipe, data.preprocessor, data.splits


def objective_of(run: Run) -> Any:
    """Return the training objective of a run."""
    assert run.components.objective is not None
    return run.components.objective(run.recipe, run.model, run.preprocessor, run.data().splits)


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train without drawing the figures of the report."""
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A finished run of each model, evaluated so rarely that its best weights have converged."""
    root = tmp_path_factory.mktemp("forecasts")
    changes: dict[str, dict[str, Any]] = {
        "autoregressive": {"train__evaluate_every": 150},
        "recurrent": {"train__evaluate_every": 60, "model__window": 32},
    }
    return {
        model: train_recipe(recipe_of(model, **settings), root / model, TrainOptions()).run
        for model, settings in changes.items()
    }


# --- training -----------------------------------------------------------------------------------


@both
def test_forecaster_beats_last_value_baseline(model: str, runs: dict[str, Run]) -> None:
    scores = runs[model].evaluate()
    for horizon in (1, 4):
        assert scores[f"rmse_{horizon}"] < 0.85 * scores[f"naive_rmse_{horizon}"]
    assert scores["rmse_1"] > 0.17  # the noise, 0.2, cannot be predicted
    assert scores["rmse_64"] > 1.3 * scores["rmse_1"]  # the error grows


def linear_regression_error(values: np.ndarray, lags: int) -> float:
    """Return the mean squared error of the best linear model of the last values, by NumPy."""
    rows = np.stack([values[t : t + lags] for t in range(len(values) - lags)])
    table = np.column_stack([rows, np.ones(len(rows))])
    found, *_ = np.linalg.lstsq(table, values[lags:], rcond=None)
    return float(((table @ found - values[lags:]) ** 2).mean())


def test_autoregressive_forecaster_reaches_linear_regression_optimum(runs: dict[str, Run]) -> None:
    objective = objective_of(runs["autoregressive"])
    values = noisy_sine(1000, 0.2, seed=0).values[:600]
    transform = (values - values.mean()) / values.std()
    optimum = linear_regression_error(transform, 4)
    [batch] = islice(objective.batches("train"), 1)
    assert batch.tokens == 596  # all of them
    with torch.no_grad():
        found = float(objective.loss(batch).total) / batch.tokens
    assert optimum * (1 - 1e-6) <= found <= 1.01 * optimum


def test_hidden_layer_fits_nonlinear_series(tmp_path: Path, no_report: None) -> None:
    """x' = 1 − 1.99 x² is deterministic, and uncorrelated to a linear model."""
    values = [0.3]
    while len(values) < 200:
        values.append(1 - 1.99 * values[-1] ** 2)
    path = tmp_path / "chaos.txt"
    path.write_text("\n".join(map(str, values)))
    changes = {"data__path": str(path), "data__synthetic": None, "data__lags": 1}
    changes |= {"train__learning_rate": 0.05, "train__steps": 150, "train__evaluate_every": 75}
    scores = {}
    for hidden in (None, 16):
        recipe = recipe_of(model__hidden=hidden, **changes)
        run = train_recipe(recipe, tmp_path / f"run{hidden}", TrainOptions()).run
        scores[hidden] = run.evaluate()["rmse_1"]
    assert scores[16] < 0.2 * scores[None]


# --- metrics ------------------------------------------------------------------------------------


@both
def test_rolling_forecasts_equal_forecasts_from_each_origin(model: str) -> None:
    parts = build_parts(model, data__length=60)
    [(values, start)] = parts.splits["test"]
    found = parts.predictor.rolling_forecasts(values, start, 5)
    assert found.shape == (len(values) - start, 5)
    for row, time in enumerate(range(start, len(values))):
        for horizon in range(1, 6):
            alone = parts.predictor.forecast(values[: time - horizon + 1], horizon)
            assert found[row, horizon - 1] == pytest.approx(alone[-1], abs=1e-5)


@both
def test_forecast_metrics_match_their_definitions(model: str, runs: dict[str, Run]) -> None:
    scores = runs[model].evaluate()
    predictor: Any = runs[model].predictor
    values = noisy_sine(1000, 0.2, seed=0).values
    for horizon in (1, 16):
        naive = np.mean([(values[t] - values[t - horizon]) ** 2 for t in range(700, 1000)]) ** 0.5
        assert scores[f"naive_rmse_{horizon}"] == pytest.approx(naive, rel=1e-9)
        times = range(700, 1000, 61)
        slow = [
            predictor.forecast(values[: t - horizon + 1], horizon)[-1] - values[t] for t in times
        ]
        found = predictor.rolling_forecasts(values, 700, horizon)[::61, -1] - values[700::61]
        np.testing.assert_allclose(found, slow, atol=1e-4)
    whole = predictor.rolling_forecasts(values, 700, 64) - values[700:, None]
    assert scores["rmse_64"] == pytest.approx(np.sqrt((whole[:, 63] ** 2).mean()), rel=1e-6)
    assert scores["loss"] == pytest.approx((scores["rmse_1"] / values[:600].std()) ** 2, rel=1e-6)
    assert set(scores.conventions) == set(scores) - {"examples"}
    assert scores["examples"] == 300


def test_forecast_horizons_are_limited_by_history() -> None:
    parts = build_parts(data__length=40)
    scores = parts.evaluator.evaluate(parts.splits["test"])
    assert "rmse_16" in scores and "rmse_64" not in scores
    assert np.isfinite(list(scores.values())).all()
    scores = parts.evaluator.evaluate(parts.splits["train"])
    assert "rmse_1" in scores and "rmse_4" not in scores  # there is no earlier value


def test_forecast_floor_repeats_last_value(runs: dict[str, Run]) -> None:
    evaluation = runs["autoregressive"].evaluate()
    values = noisy_sine(1000, 0.2, seed=0).values
    expected = {
        f"rmse_{k}": np.sqrt(np.mean([(values[t] - values[t - k]) ** 2 for t in range(700, 1000)]))
        for k in (1, 4, 16, 64)
    }
    assert evaluation.floors == {"last value": pytest.approx(expected, rel=1e-12)}
    reported = {f"rmse_{k}": evaluation[f"naive_rmse_{k}"] for k in (1, 4, 16, 64)}
    assert evaluation.floors["last value"] == pytest.approx(reported, rel=1e-12)
    assert "last value" in runs["autoregressive"].evaluate(split="train").floors


def test_standardizer_is_fitted_to_training_values_only() -> None:
    parts = build_parts(data__length=100)
    values = noisy_sine(100, 0.2, seed=0).values
    assert parts.standardizer == fit_standardizer(values[:60])
    splits = parts.splits
    starts = (len(splits["train"][0].values), splits["dev"][0].start, splits["test"][0].start)
    assert starts == (60, 60, 70)
    transform = parts.standardizer.transform(values)
    assert transform[:60].mean() == pytest.approx(0) and transform[:60].std() == pytest.approx(1)
    np.testing.assert_allclose(parts.standardizer.inverse_transform(transform), values)
    assert fit_standardizer(np.full(5, 3.0)) == Standardizer(3.0, 1.0)


# --- batches ------------------------------------------------------------------------------------


@both
def test_forecast_loss_sums_squared_errors_of_training_windows(model: str) -> None:
    parts = build_parts(model, train__batch_tokens=130)
    transform = parts.standardizer.transform(parts.splits["train"][0].values)
    net = parts.model
    for batch in islice(parts.objective.batches("train"), 2):
        for start, row in zip(batch.starts, batch.values, strict=True):
            window = transform[start : start + net.input_length + 1]
            np.testing.assert_allclose(row.numpy(), window, atol=1e-6)
        total, count = 0.0, 0
        for row in batch.values:
            for t in range(net.first_scored, net.input_length):
                expected, _ = net.step(row[None, : t + 1], net.init_state(1))
                total += float((expected[0, -1] - row[t + 1]).detach()) ** 2
                count += 1
        assert float(parts.objective.loss(batch).total.detach()) == pytest.approx(total, rel=1e-4)
        assert batch.tokens == count


@both
def test_forecast_batches_are_addressable_by_step(model: str) -> None:
    objective = build_parts(model, **SMALL).objective
    whole = [batch.starts.tolist() for batch in islice(objective.batches("train"), 30)]
    later = [batch.starts.tolist() for batch in islice(objective.batches("train", start=17), 13)]
    assert later == whole[17:]


# --- predictions --------------------------------------------------------------------------------


@both
def test_forecast_continues_a_row_of_numbers(model: str, runs: dict[str, Run]) -> None:
    run = runs[model]
    prediction = run.predict("0.1 0.2 0.3 0.4")
    assert len(prediction.values) == run.recipe.data.horizon == 16
    printed = [float(number) for number in prediction.text.split()]
    np.testing.assert_allclose(printed, prediction.values, atol=1e-4)
    first, *_ = prediction.values
    assert run.predict(f"0.1 0.2 0.3 0.4 {first!r}").values[0] == pytest.approx(
        prediction.values[1], abs=1e-5
    )
    example = run.inspector.example_input(run.split("test"))
    assert run.predict(example).text
    assert not example.startswith("-")


def test_autoregressive_forecast_uses_exactly_its_lags(runs: dict[str, Run]) -> None:
    with pytest.raises(DataError, match=r"input 1: got 2 numbers; expected 4 or more"):
        runs["autoregressive"].predict("1 2")
    assert len(runs["recurrent"].predict("1").values) == 16
    before = runs["autoregressive"].predict("9 9 0.1 0.2 0.3 0.4")
    assert before == runs["autoregressive"].predict("0.1 0.2 0.3 0.4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "0.1 x 0.3 0.4",
            "input 1: got 'x', which is not a number; expected numbers separated by spaces",
        ),
        ("1,2,3,4", "got '1,2,3,4', which is not a number"),
        ("", "input 1: got an empty line"),
        ("1 2 3 inf", "got 'inf', which is not a number"),
        ("1 2 3 1e300", "a number far outside of the training data"),
    ],
)
def test_forecast_rejects_invalid_inputs(text: str, message: str, runs: dict[str, Run]) -> None:
    with pytest.raises(DataError, match=message):
        runs["autoregressive"].predict([text])


def test_forecaster_has_no_decoding_options_and_no_attention(runs: dict[str, Run]) -> None:
    with pytest.raises(ConfigError, match="got top_k; expected no decoding options"):
        runs["recurrent"].predict("1 2 3 4", top_k=3)
    with pytest.raises(
        ConfigError, match="got recurrent, which has no attention; try saccade look"
    ):
        runs["recurrent"].look("1 2 3 4", layer=1)


def test_contributions_of_past_values_add_up_to_the_forecast(runs: dict[str, Run]) -> None:
    values = "0.1 0.4 -0.3 0.2 0.9 -0.5"
    for name, methods in (
        ("autoregressive", ("contributions",)),
        ("recurrent", ("integrated_gradients", "occlusion")),
    ):
        run = runs[name]
        assert run.inspector.attribution_methods == methods
        found = run.look(values)
        assert isinstance(found, Explanation)
        forecast = run.predict(values).values[0]
        assert found.attribution.value == pytest.approx(forecast, abs=1e-3)
        assert found.attribution.residual == pytest.approx(0, abs=1e-3)
        assert found.attribution.parts[-2:] == ["t-1", "t"]
        assert found.attribution.cells[-1] == "-0.500"
    last = runs["autoregressive"].look(values).attribution.parts
    assert len(last) == runs["autoregressive"].recipe.data.lags  # older values have no weight
    with pytest.raises(ConfigError, match="a forecast is explained as it is"):
        runs["recurrent"].look(values, answer="3")


def test_forecasts_far_from_zero_are_printed_with_the_digits_that_vary(
    tmp_path: Path, no_report: None
) -> None:
    values = 1e6 + np.sin(np.arange(80) / 3)
    (tmp_path / "far.txt").write_text("\n".join(map(repr, values.tolist())))
    changes = {"data__path": str(tmp_path / "far.txt"), "data__synthetic": None}
    run = train_recipe(recipe_of(**changes), tmp_path / "run", TrainOptions()).run
    example = run.inspector.example_input(run.split("test")).split()
    assert len(set(example)) == 4 and all(len(number) >= 10 for number in example)
    prediction = run.predict(" ".join(map(repr, values[-4:].tolist())))
    printed = [float(number) for number in prediction.text.split()]
    np.testing.assert_allclose(printed, 1e6 + np.sin(np.arange(80, 96) / 3), atol=0.05)


# --- invariants and runs ------------------------------------------------------------------------


@both
def test_forecaster_passes_every_check(model: str, runs: dict[str, Run]) -> None:
    results = {result.invariant: result for result in runs[model].check(inputs=9)}
    for invariant in (
        "batch invariance",
        "causality",
        "cache consistency",
        "reload consistency",
    ):
        assert (results[invariant].verdict, results[invariant].num_inputs) == ("passed", 9)


def test_checks_find_broken_invariants() -> None:
    parts = build_parts("recurrent", data__length=100)
    net, split = parts.model, parts.splits["test"]
    step = net.step

    def step_with_future(values: Any, state: Any) -> Any:
        predictions, state = step(values, state)
        return predictions + values.mean(dim=1, keepdim=True), state

    net.step = step_with_future
    verdicts = {result.invariant: result.verdict for result in parts.inspector.checks(split, 5)}
    assert verdicts["causality"] == "FAILED"
    assert verdicts["cache consistency"] == "FAILED"
    assert verdicts["batch invariance"] == "passed"
    net.step = lambda values, state: (step(values, state)[0] + values.mean(), state)
    assert next(parts.inspector.checks(split, 5)).verdict == "FAILED"
    other = build_parts("recurrent", data__length=100, train__seed=2)
    net.step = step
    assert parts.inspector.compare_reloaded(other.model, split, 5).verdict == "FAILED"


class Killed(Exception):
    """Interruption of a training."""


@both
def test_resumed_forecaster_has_same_bits(
    model: str,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    no_report: None,
) -> None:
    recipe = recipe_of(model, **SMALL, train__checkpoint_seconds=0)
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def on_event(event: Event) -> None:
        if isinstance(event, ReportEvent) and event.step == 8:
            raise Killed

    with pytest.raises(Killed):
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=on_event))
    assert resume(tmp_path / "resumed", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")
    whole, resumed = (load_run(tmp_path / name) for name in ("whole", "resumed"))
    assert whole.predict("0.1 0.2 0.3 0.4") == resumed.predict("0.1 0.2 0.3 0.4")
    assert whole.preprocessor == resumed.preprocessor


@both
def test_forecast_report_has_figures_and_no_accuracy(model: str, runs: dict[str, Run]) -> None:
    drawn = {path.name for path in (runs[model].folder / "report").iterdir()}
    assert drawn == {"forecast.png", "curves.png"}
    lines = read_metrics(runs[model].folder / "metrics.jsonl")
    assert any("loss" in line for line in lines)
    assert not any("accuracy" in line for line in lines)


# --- files and rejected data --------------------------------------------------------------------


def test_forecaster_reads_a_table_column_and_scores_another_file(
    tmp_path: Path, no_report: None
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("day,a,b\n" + "".join(f"d{i},{i},{np.cos(i)}\n" for i in range(60)))
    changes = {"data__path": str(table), "data__synthetic": None, "train__steps": 20}
    with pytest.raises(DataError, match="got 2 columns that may be the target .*--target a"):
        train_recipe(recipe_of(**changes), tmp_path / "run", TrainOptions())
    run = train_recipe(recipe_of(**changes, data__target="b"), tmp_path / "run", TrainOptions()).run
    np.testing.assert_allclose(run.split("train")[0].values, np.cos(np.arange(36)))
    scores = run.evaluate(table)
    assert scores["examples"] == 30 and "rmse_16" in scores and "rmse_64" not in scores
    table.write_text("a,b\n1,2\n2,3\n")
    with pytest.raises(DataError, match=r"got 2 values in .*; expected more than data.lags=4"):
        run.evaluate(table)


def test_forecaster_rejects_invalid_settings_before_writing(tmp_path: Path) -> None:
    for model, changes, message in (
        ("autoregressive", {"data__lags": 900}, "600 for training.*data.lags=900"),
        ("autoregressive", {"data__length": 3}, "got 3 values"),
        ("autoregressive", {"data__test_share": 0.95}, "leave nothing to train on"),
        ("recurrent", {"data__length": 50, "model__window": 40}, "window=40 .* 30 .*29 or less"),
    ):
        with pytest.raises((DataError, ConfigError), match=message):
            train_recipe(recipe_of(model, **changes), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match="series 'sin'.*[Dd]id you mean 'sine'"):
        prepare_series(recipe_of(data__synthetic="sin"), PrepareContext())


def test_default_window_shrinks_to_the_training_values() -> None:
    data = prepare_series(recipe_of("recurrent", data__length=50), PrepareContext())
    assert data.recipe.model.model_dump()["window"] == 29
    assert [choice.path for choice in data.choices] == ["model.window"]
    assert not prepare_series(recipe_of("recurrent"), PrepareContext()).choices


def test_forecast_objective_describes_the_windows_of_a_batch() -> None:
    objective = build_parts(train__batch_tokens=8).objective
    [batch] = islice(objective.batches("train"), 1)
    starts = ", ".join(str(start + 1) for start in batch.starts[:5])
    description = f"sine, windows that start at value {starts} and 3 more"
    assert objective.describe_batch(batch) == description
