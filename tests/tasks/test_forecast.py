"""Forecasting from its recipe to its run: one value ahead and many, by both models."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.time_series import noisy_sine
from saccade.errors import ConfigError, DataError
from saccade.io.run_folder import read_metrics
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, TrainOptions, load_run, resume, train_recipe
from saccade.tasks.forecast import ForecastTask, Standardizer, fit_standardizer, prepare_series
from saccade.training.loop import Event, ReportEvent

MODELS = ("autoregressive", "recurrent")
both = pytest.mark.parametrize("model", MODELS)
FEW = {"train.threads": 1, "train.checkpoint_seconds": 1000}
SMALL = {"data__length": 120, "train__steps": 13, "train__evaluate_every": 5}
SMALL |= {"train__report_every": 4, "train__batch_tokens": 100}


def recipe_of(model: str = "autoregressive", **changes: Any) -> Any:
    every = FEW | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_recipe("forecast", model=model, changes=every).recipe


def task_of(model: str = "autoregressive", **changes: Any) -> ForecastTask:
    prepared = prepare_series(recipe_of(model, **changes), lambda what, done, total: None)
    task = ForecastTask(prepared.recipe, prepared.vocabulary)
    task.attach_data(prepared)
    return task


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A finished run of each model, looked at so seldom that the best is one that has converged."""
    root = tmp_path_factory.mktemp("forecasts")
    seldom: dict[str, dict[str, Any]] = {
        "autoregressive": {"train__evaluate_every": 150},
        "recurrent": {"train__evaluate_every": 60, "model__window": 32},
    }
    return {
        model: train_recipe(recipe_of(model, **changes), root / model, TrainOptions()).run
        for model, changes in seldom.items()
    }


# --- learning -----------------------------------------------------------------------------------


@both
def test_it_learns(model: str, runs: dict[str, Run]) -> None:
    scores = runs[model].evaluate()
    for horizon in (1, 4):
        assert scores[f"rmse_{horizon}"] < 0.85 * scores[f"naive_rmse_{horizon}"]
    assert scores["rmse_1"] > 0.17  # the noise itself, 0.2, cannot be foretold
    assert scores["rmse_64"] > 1.3 * scores["rmse_1"]  # the error grows


def least_squares(values: np.ndarray, lags: int) -> float:
    """The mean squared error of the best linear model of the past, as numpy finds it."""
    rows = np.stack([values[t : t + lags] for t in range(len(values) - lags)])
    table = np.column_stack([rows, np.ones(len(rows))])
    found, *_ = np.linalg.lstsq(table, values[lags:], rcond=None)
    return float(((table @ found - values[lags:]) ** 2).mean())


def test_a_linear_model_reaches_the_optimum_of_least_squares(runs: dict[str, Run]) -> None:
    task = runs["autoregressive"].task
    runs["autoregressive"].evaluate()
    values = noisy_sine(1000, 0.2, seed=0).values[:600]
    transform = (values - values.mean()) / values.std()
    least = least_squares(transform, 4)
    [batch] = islice(task.batches("train"), 1)
    assert batch.tokens == 596  # all of them
    with torch.no_grad():
        found = float(task.loss(batch).total) / batch.tokens
    assert least * (1 - 1e-6) <= found <= 1.01 * least


def test_a_hidden_layer_learns_what_a_line_cannot(tmp_path: Path, no_pictures: None) -> None:
    """x' = 1 − 2x² is all order to one who sees the square, and noise to one who does not."""
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


# --- figures ------------------------------------------------------------------------------------


@both
def test_forecasts_are_those_of_reading_the_past_anew_each_time(model: str) -> None:
    task = task_of(model, data__length=60)
    values, start = task.spans["test"]
    found = task.rolling_forecasts(values, start, 5)
    assert found.shape == (len(values) - start, 5)
    for row, time in enumerate(range(start, len(values))):
        for horizon in range(1, 6):
            alone = task.forecast(values[: time - horizon + 1], horizon)  # it knows nothing later
            assert found[row, horizon - 1] == pytest.approx(alone[-1], abs=1e-5)


@both
def test_figures_are_those_of_slow_counting(model: str, runs: dict[str, Run]) -> None:
    scores = runs[model].evaluate()
    task = runs[model].task
    values = noisy_sine(1000, 0.2, seed=0).values
    for horizon in (1, 16):
        naive = np.mean([(values[t] - values[t - horizon]) ** 2 for t in range(700, 1000)]) ** 0.5
        assert scores[f"naive_rmse_{horizon}"] == pytest.approx(naive, rel=1e-9)
        times = range(700, 1000, 61)
        slow = [task.forecast(values[: t - horizon + 1], horizon)[-1] - values[t] for t in times]
        found = task.rolling_forecasts(values, 700, horizon)[::61, -1] - values[700::61]
        np.testing.assert_allclose(found, slow, atol=1e-4)
    whole = task.rolling_forecasts(values, 700, 64) - values[700:, None]
    assert scores["rmse_64"] == pytest.approx(np.sqrt((whole[:, 63] ** 2).mean()), rel=1e-6)
    assert scores["loss"] == pytest.approx((scores["rmse_1"] / values[:600].std()) ** 2, rel=1e-6)
    assert set(scores["conventions"]) == set(scores) - {"examples", "conventions"}
    assert scores["examples"] == 300


def test_as_far_ahead_as_the_data_allows() -> None:
    figures, _ = task_of(data__length=40).evaluate_with_conventions("test")
    assert "rmse_16" in figures and "rmse_64" not in figures
    assert np.isfinite(list(figures.values())).all()
    figures, _ = task_of(data__length=40).evaluate_with_conventions("train")
    assert "rmse_1" in figures and "rmse_4" not in figures  # nothing lies before it


def test_what_is_held_out_has_no_part_in_the_units() -> None:
    task = task_of(data__length=100)
    values = noisy_sine(100, 0.2, seed=0).values
    assert task.standardizer == fit_standardizer(values[:60])
    assert (len(task.train), task.spans["dev"].start, task.spans["test"].start) == (
        60,
        60,
        70,
    )
    transform = task.standardizer.transform(values)
    assert transform[:60].mean() == pytest.approx(0) and transform[:60].std() == pytest.approx(1)
    np.testing.assert_allclose(task.standardizer.inverse_transform(transform), values)
    assert fit_standardizer(np.full(5, 3.0)) == Standardizer(3.0, 1.0)


# --- batches ------------------------------------------------------------------------------------


@both
def test_a_batch_is_rows_of_the_training_stretch_and_its_loss_slow_counting(model: str) -> None:
    task = task_of(model, train__batch_tokens=130)
    transform = task.standardizer.transform(task.train)
    net: Any = task.model
    for batch in islice(task.batches("train"), 2):
        for start, row in zip(batch.starts, batch.values, strict=True):
            wanted = transform[start : start + net.input_length + 1]
            np.testing.assert_allclose(row.numpy(), wanted, atol=1e-6)
        total, count = 0.0, 0
        for row in batch.values:
            for t in range(net.first_scored, net.input_length):
                expected, _ = net.step(row[None, : t + 1], net.init_state(1))
                total += float((expected[0, -1] - row[t + 1]).detach()) ** 2
                count += 1
        assert float(task.loss(batch).total.detach()) == pytest.approx(total, rel=1e-4)
        assert batch.tokens == count


@both
def test_batches_of_any_step_are_found_directly(model: str) -> None:
    task = task_of(model, **SMALL)
    whole = [batch.starts.tolist() for batch in islice(task.batches("train"), 30)]
    later = [batch.starts.tolist() for batch in islice(task.batches("train", start=17), 13)]
    assert later == whole[17:]


# --- answers ------------------------------------------------------------------------------------


@both
def test_a_row_of_numbers_is_continued(model: str, runs: dict[str, Run]) -> None:
    run = runs[model]
    answer = run.predict("0.1 0.2 0.3 0.4")
    assert len(answer.values) == run.recipe.data.horizon == 16
    shown = [float(number) for number in answer.text.split()]
    np.testing.assert_allclose(shown, answer.values, atol=1e-4)
    first, *_ = answer.values
    assert run.predict(f"0.1 0.2 0.3 0.4 {first!r}").values[0] == pytest.approx(
        answer.values[1], abs=1e-5
    )
    assert run.predict(run.task.example_input()).text
    assert not run.task.example_input().startswith("-")


def test_a_model_of_the_past_needs_its_past(runs: dict[str, Run]) -> None:
    with pytest.raises(DataError, match=r"input 1 has 2 numbers; this model looks back on 4"):
        runs["autoregressive"].predict("1 2")
    assert len(runs["recurrent"].predict("1").values) == 16
    before = runs["autoregressive"].predict("9 9 0.1 0.2 0.3 0.4")
    assert before == runs["autoregressive"].predict("0.1 0.2 0.3 0.4")  # and no more than that


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.1 x 0.3 0.4", "input 1: 'x' is not a number; wanted numbers with spaces between"),
        ("1,2,3,4", "'1,2,3,4' is not a number"),
        ("", "input 1 is empty"),
        ("1 2 3 inf", "'inf' is not a number"),
        ("1 2 3 1e300", "a number beyond all reason"),
    ],
)
def test_what_cannot_be_continued_is_named(text: str, message: str, runs: dict[str, Run]) -> None:
    with pytest.raises(DataError, match=message):
        runs["autoregressive"].predict([text])


def test_there_is_nothing_to_search_for_and_no_attention(runs: dict[str, Run]) -> None:
    with pytest.raises(ConfigError, match="got top_k; forecast computes its one answer"):
        runs["recurrent"].predict("1 2 3 4", top_k=3)
    with pytest.raises(ConfigError, match="recurrent has no attention to look at"):
        runs["recurrent"].look("1 2 3 4")


def test_numbers_far_from_zero_are_told_to_the_digits_that_vary(
    tmp_path: Path, no_pictures: None
) -> None:
    values = 1e6 + np.sin(np.arange(80) / 3)
    (tmp_path / "far.txt").write_text("\n".join(map(repr, values.tolist())))
    changes = {"data__path": str(tmp_path / "far.txt"), "data__synthetic": None}
    run = train_recipe(recipe_of(**changes), tmp_path / "run", TrainOptions()).run
    run.evaluate()
    asked = run.task.example_input().split()
    assert len(set(asked)) == 4 and all(len(number) >= 10 for number in asked)
    answer = [
        float(number)
        for number in run.predict(" ".join(map(repr, values[-4:].tolist()))).text.split()
    ]
    np.testing.assert_allclose(answer, 1e6 + np.sin(np.arange(80, 96) / 3), atol=0.05)


# --- laws and runs ------------------------------------------------------------------------------


@both
def test_every_law_holds(model: str, runs: dict[str, Run]) -> None:
    findings = {f.invariant: f for f in runs[model].check(inputs=9)}
    for invariant in (
        "neighbours change nothing",
        "the future is not seen",
        "step by step equals all at once",
        "saved and reopened agree",
    ):
        assert (findings[invariant].verdict, findings[invariant].num_inputs) == ("passed", 9)


def test_laws_that_are_broken_are_found() -> None:
    task = task_of("recurrent", data__length=100)
    net: Any = task.model
    honest = net.step

    def peeping(values: Any, state: Any) -> Any:
        answers, state = honest(values, state)
        return answers + values.mean(dim=1, keepdim=True), state

    net.step = peeping
    verdicts = {f.invariant: f.verdict for f in task.check("test", 5)}
    assert verdicts["the future is not seen"] == "FAILED"
    assert verdicts["step by step equals all at once"] == "FAILED"
    assert verdicts["neighbours change nothing"] == "passed"
    net.step = lambda values, state: (honest(values, state)[0] + values.mean(), state)
    assert next(task.check("test", 5)).verdict == "FAILED"
    other = task_of("recurrent", data__length=100, train__seed=2)
    net.step = honest
    assert task.compare_reloaded(other, "test", 5).verdict == "FAILED"


class Killed(Exception):
    """The machine went down."""


@both
def test_killed_and_resumed_is_as_never_killed(
    model: str,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    no_pictures: None,
) -> None:
    recipe = recipe_of(model, **SMALL, train__checkpoint_seconds=0)
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def on_event(event: Event) -> None:
        if isinstance(event, ReportEvent) and event.step == 8:
            raise Killed

    with pytest.raises(Killed):
        train_recipe(recipe, tmp_path / "broken", TrainOptions(on_event=on_event))
    assert resume(tmp_path / "broken", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "broken") == outcome_of(tmp_path / "whole")
    one, two = (load_run(tmp_path / name) for name in ("whole", "broken"))
    assert one.predict("0.1 0.2 0.3 0.4") == two.predict("0.1 0.2 0.3 0.4")
    assert one.vocabulary == two.vocabulary


@both
def test_the_report_has_the_forecasts_and_no_accuracy(model: str, runs: dict[str, Run]) -> None:
    drawn = {path.name for path in (runs[model].folder / "report").iterdir()}
    assert drawn == {"forecast.png", "curves.png"}
    lines = read_metrics(runs[model].folder / "metrics.jsonl")
    assert any("loss" in line for line in lines)
    assert not any("accuracy" in line for line in lines)


# --- files and what does not fit ----------------------------------------------------------------


def test_a_column_of_a_table_is_a_series_and_another_file_can_be_scored(
    tmp_path: Path, no_pictures: None
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("day,a,b\n" + "".join(f"d{i},{i},{np.cos(i)}\n" for i in range(60)))
    changes = {"data__path": str(table), "data__synthetic": None, "train__steps": 20}
    with pytest.raises(DataError, match=r"3 columns, 2 of them with numbers \(day, a, b\)"):
        train_recipe(recipe_of(**changes), tmp_path / "run", TrainOptions())
    run = train_recipe(recipe_of(**changes, data__column="b"), tmp_path / "run", TrainOptions()).run
    np.testing.assert_allclose(run.task.train, np.cos(np.arange(36)))
    scores = run.evaluate(table)
    assert scores["examples"] == 30 and "rmse_16" in scores and "rmse_64" not in scores
    table.write_text("a,b\n1,2\n2,3\n")
    with pytest.raises(DataError, match=r"has 2 values; more than the 4 that are looked back on"):
        run.evaluate(table)


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for model, changes, message in (
        ("autoregressive", {"data__lags": 900}, "600 to learn from.*data.lags=900"),
        ("autoregressive", {"data__length": 3}, "has 3 values"),
        ("autoregressive", {"data__test_share": 0.95}, "leave nothing to learn from"),
        ("recurrent", {"data__length": 50, "model__window": 40}, "window is 40 .* 30 .*29 or less"),
    ):
        with pytest.raises((DataError, ConfigError), match=message):
            train_recipe(recipe_of(model, **changes), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match="no made series 'sin'. Did you mean 'sine'"):
        prepare_series(recipe_of(data__synthetic="sin"), lambda *told: None)


def test_a_window_that_nobody_set_shrinks_to_the_data() -> None:
    prepared = prepare_series(
        recipe_of("recurrent", data__length=50), lambda what, done, total: None
    )
    assert prepared.recipe.model.window == 29
    assert [choice.path for choice in prepared.choices] == ["model.window"]
    assert not prepare_series(recipe_of("recurrent"), lambda what, done, total: None).choices


def test_a_loss_that_is_no_number_names_the_rows() -> None:
    task = task_of(train__batch_tokens=8)
    [batch] = islice(task.batches("train"), 1)
    shown = ", ".join(str(start + 1) for start in batch.starts[:5])
    assert task.describe_batch(batch) == f"sine, rows that begin with value {shown} and 3 more"
