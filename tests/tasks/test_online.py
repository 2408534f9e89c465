"""Online training of tables: each row is predicted, then trained on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from saccade.errors import ConfigError, DataError
from saccade.inspection.figures import OnlineLearningCurve, running_mean
from saccade.io.tensors import read_tensors
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.tabular.data import with_row_weights
from saccade.tasks.tabular.objective import (
    INITIAL_KEY,
    ONLINE_KEY,
    OnlineObjective,
    predicted_rows,
)
from saccade.training.checkpoint import list_checkpoints
from saccade.workflows.finetune import finetune_run

BASE = {"train.threads": 1, "train.checkpoint_seconds": 1000}
ROWS = 60


def make_rows(count: int, seed: int, flipped: bool = False, numeric: bool = False) -> list[str]:
    """Return rows of two inputs and a target: the side of a line, or the distance from it."""
    generator = np.random.default_rng(seed)
    rows = []
    for a, b in generator.normal(size=(count, 2)):
        distance = (a + b) * (-1 if flipped else 1)
        side = "yes" if distance > 0 else "no"
        rows.append(f"{a},{b},{distance + generator.normal(0, 0.1) if numeric else side}")
    return rows


def write(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(["a,b,c", *rows]) + "\n")
    return path


def objective_of(run: Run) -> OnlineObjective:
    """Return the objective of a run with the state of its last checkpoint."""
    splits = run.data().splits
    objective = OnlineObjective(run.recipe, run.model, run.preprocessor, splits)
    tensors, _ = read_tensors(list_checkpoints(run.folder / "checkpoint")[-1])
    prefix = "carry/"
    state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    objective.load_state_dict(state)
    return objective


def online_predictions(run: Run) -> Tensor:
    """Return the outputs for each row, from the weights before it was trained on."""
    return objective_of(run).predictions[ONLINE_KEY]


def initial_predictions(run: Run) -> Tensor:
    """Return the outputs of the initial weights for each row."""
    return objective_of(run).predictions[INITIAL_KEY]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a finished run of a model, to fine-tune from."""
    root = tmp_path_factory.mktemp("start")
    folders: dict[str, Path] = {}

    def folder(model: str) -> Path:
        if model not in folders:
            numeric = model == "linear"
            data = write(root / f"{model}.csv", make_rows(200, 1, numeric=numeric))
            more = {"model.hidden": 5, "model.dropout": 0.3} if model == "mlp" else {}
            changes = BASE | more | {"data.target": "c", "train.steps": 60}
            recipe = resolve_recipe("table", data=str(data), model=model, changes=changes).recipe
            folders[model] = train_recipe(recipe, root / model, TrainOptions()).run.folder
        return folders[model]

    return folder


@pytest.fixture
def train_online(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Return a function that trains a model online on rows, without a report."""
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)

    def trained(model: str, rows: list[str], name: str = "online", **changes: Any) -> Run:
        data = write(tmp_path / "rows.csv", rows)
        settings = {path.replace("__", "."): value for path, value in changes.items()}
        out = tmp_path / name
        return finetune_run(
            start(model), str(data), out, TrainOptions(), changes=settings, online=True
        ).run

    return trained


@pytest.mark.parametrize("model", ["softmax", "mlp", "linear"])
@pytest.mark.parametrize("optimizer", ["adamw", "lbfgs"])
def test_online_training_predicts_each_row_before_training_on_it(
    model: str, optimizer: str, train_online: Callable[..., Run]
) -> None:
    """Other labels from row n on change no prediction up to row n, and some after it."""
    rows = make_rows(ROWS, 2, numeric=model == "linear")
    changes = {"train__optimizer": optimizer, "train__learning_rate": 0.1}
    first = online_predictions(train_online(model, rows, "first", **changes))
    assert not first.isnan().any()
    for n in (0, 7, ROWS - 1):
        other = [
            row if i < n else row.rpartition(",")[0] + (",9" if model == "linear" else ",yes")
            for i, row in enumerate(rows)
        ]
        found = online_predictions(train_online(model, other, f"from {n}", **changes))
        assert torch.equal(found[: n + 1], first[: n + 1])
        assert n == ROWS - 1 or not torch.equal(found[n + 1 :], first[n + 1 :])


def test_online_softmax_equals_sgd_in_numpy(train_online: Callable[..., Run], start: Any) -> None:
    """Check W ← W - η (p - 1_y) xᵀ."""
    rate = 0.2
    sgd = {"train__optimizer": "sgd", "train__learning_rate": rate, "train__clip_norm": 1e9}
    rows = make_rows(ROWS, 3, flipped=True)
    run = train_online("softmax", rows, **sgd, train__weight_decay=0)
    encoded, found = run.split("train").rows, online_predictions(run)
    [(weight, bias)] = load_run(start("softmax")).model.layers()
    w, b = weight.detach().double().numpy(), bias.detach().double().numpy()
    for n in range(ROWS):
        x, y = encoded.features[n], encoded.target[n]
        z = w @ x + b
        np.testing.assert_allclose(found[n], z, atol=1e-4)
        p = np.exp(z - z.max())
        p /= p.sum()
        p[y] -= 1
        w, b = w - rate * np.outer(p, x), b - rate * p
    [(weight, bias)] = run.model.layers()
    np.testing.assert_allclose(weight.detach(), w, atol=1e-4)  # the last weights are kept
    np.testing.assert_allclose(bias.detach(), b, atol=1e-4)


def test_online_linear_regression_equals_the_lms_rule_in_numpy(
    train_online: Callable[..., Run], start: Any
) -> None:
    """Check w ← w - 2η (w·x - y) x (Widrow and Hoff 1960)."""
    rate = 0.03
    sgd = {"train__optimizer": "sgd", "train__learning_rate": rate, "train__clip_norm": 1e9}
    rows = make_rows(ROWS, 3, flipped=True, numeric=True)
    run = train_online("linear", rows, **sgd, train__weight_decay=0)
    encoded, objective = run.split("train").rows, objective_of(run)
    [(weight, bias)] = load_run(start("linear")).model.layers()
    w = np.append(weight.detach().double().numpy()[0], float(bias.detach()))
    squares = []
    for n in range(ROWS):
        x = np.append(encoded.features[n], 1.0)
        error = w @ x - encoded.target[n]
        predicted = float(objective.predictions[ONLINE_KEY][n, 0])
        assert predicted == pytest.approx(w @ x, abs=1e-4)
        squares.append((error * run.preprocessor.target.deviation) ** 2)
        w = w - rate * 2 * error * x
    found = objective.validate().metrics
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-4)
    assert found["recent_rmse"] == found["rmse"]  # fewer rows than the window


def test_online_accuracy_recovers_from_a_concept_shift(
    train_online: Callable[..., Run], start: Any
) -> None:
    rows = make_rows(200, 5) + make_rows(300, 6, flipped=True)
    run = train_online("softmax", rows, train__learning_rate=0.1)
    lines = [line for line in run.metrics() if "best" in line]
    before = [line for line in lines if line["step"] <= 200][-1]
    assert before["dev_recent_accuracy"] > 0.9 and before["dev_left_recent_accuracy"] > 0.8
    after_shift = next(line for line in lines if line["step"] > 240)
    assert after_shift["dev_recent_accuracy"] < before["dev_recent_accuracy"] - 0.1
    last = lines[-1]
    assert last["dev_recent_accuracy"] > 0.9 and last["dev_left_recent_accuracy"] < 0.2
    assert last["dev_rows"] == 500 and last["best"]
    old = load_run(start("softmax"))
    found = old.evaluate(run.folder.parent / "rows.csv")
    assert last["dev_left_accuracy"] == pytest.approx(found["accuracy"])


def test_online_predictions_are_without_dropout(
    train_online: Callable[..., Run], start: Any
) -> None:
    rows = make_rows(ROWS, 2)
    run = train_online("mlp", rows, train__learning_rate=1e-12)
    assert load_run(start("mlp")).recipe.model.dropout == 0.3
    torch.testing.assert_close(online_predictions(run), initial_predictions(run))


def test_online_training_resumes_bit_exactly(
    train_online: Callable[..., Run], tmp_path: Path, outcome_of: Any, monkeypatch: Any
) -> None:
    rows = make_rows(ROWS, 2)
    uninterrupted = objective_of(train_online("mlp", rows, "whole")).predictions
    calls: list[int] = []
    loss = OnlineObjective.loss

    def interrupted(self: OnlineObjective, batch: Any) -> Any:
        calls.append(1)
        if len(calls) == 23:
            raise RuntimeError("power failure")
        return loss(self, batch)

    monkeypatch.setattr(OnlineObjective, "loss", interrupted)
    with pytest.raises(RuntimeError, match="power failure"):
        train_online("mlp", rows, "parts", train__checkpoint_seconds=0)
    resumed = resume(tmp_path / "parts", {}, TrainOptions()).run
    assert len(calls) < 2 * ROWS
    found = objective_of(resumed).predictions
    assert {*found} == {*uninterrupted} == {ONLINE_KEY, INITIAL_KEY}
    for key, predictions in found.items():
        assert torch.equal(predictions, uninterrupted[key])
    assert outcome_of(tmp_path / "parts") == outcome_of(tmp_path / "whole")


def test_online_batches_are_in_file_order_with_row_weights_as_given(
    train_online: Callable[..., Run],
) -> None:
    sizes = {"train__batch_tokens": 8, "train__accumulate_steps": 2}
    run = train_online("softmax", make_rows(ROWS, 2), **sizes)
    objective = objective_of(run)
    lines = [batch.lines for batch in objective.batches("train")]
    assert len(lines) == 8 and sum(lines, ()) == tuple(range(2, ROWS + 2))
    assert [batch.lines for batch in objective.batches("train", 3)] == lines[3:]
    assert run.recipe.train.steps == 4
    weights = np.tile([1.0, 3.0], ROWS // 2)
    split = with_row_weights(run.split("train"), weights)
    weighted = OnlineObjective(run.recipe, run.model, run.preprocessor, {"train": split})
    found = np.concatenate([batch.weights for batch in weighted.batches("train")])
    np.testing.assert_array_equal(found, weights)
    # the batches of one step are predicted by the weights before it
    online, initial = objective.predictions[ONLINE_KEY], objective.predictions[INITIAL_KEY]
    assert torch.equal(online[:16], initial[:16])
    assert not torch.equal(online[16:], initial[16:])


def test_online_run_predicts_evaluates_and_fine_tunes(start: Any, tmp_path: Path) -> None:
    data = write(tmp_path / "rows.csv", make_rows(ROWS, 2))
    out = tmp_path / "online"
    changes = {"train.steps": 50}
    run = finetune_run(
        start("softmax"), str(data), out, TrainOptions(), changes=changes, online=True
    ).run
    objective = objective_of(run)
    assert predicted_rows(objective.predictions) == 50
    reloaded = load_run(out)
    assert reloaded.predict("1,1").text == run.predict("1,1").text
    scores = reloaded.evaluate()
    assert scores["examples"] == ROWS
    assert "may have been trained on" in scores.conventions["accuracy"]
    given = reloaded.evaluate(data)
    assert "may have been trained on" not in given.conventions["accuracy"]
    assert all(result.verdict != "FAILED" for result in reloaded.check(inputs=4))
    assert reloaded.metrics()[-1]["dev_rows"] == 50
    # fine-tuned again, it is not online unless that is set
    more = finetune_run(
        run.folder, str(data), tmp_path / "more", TrainOptions(), changes={"train.steps": 2}
    )
    assert not more.run.recipe.train.online


@pytest.mark.parametrize("is_resumed", [False, True])
def test_online_report_has_the_running_scores(
    is_resumed: bool, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(tmp_path / "rows.csv", make_rows(ROWS, 2))
    out = tmp_path / "online"
    if is_resumed:
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power failure"):
            patch.setattr("saccade.runs.train.write_report", power_failure)
            finetune_run(start("softmax"), str(data), out, TrainOptions(), online=True)
        assert not (out / "report").exists()
        run = resume(out, {}, TrainOptions()).run
    else:
        run = finetune_run(start("softmax"), str(data), out, TrainOptions(), online=True).run
    files = {path.name: path.stat().st_size for path in (out / "report").iterdir()}
    assert {*files} == {"online.png", "curves.png", "confusion.png", "importance.png"}
    assert files["online.png"] > 1000
    figure = objective_of(run).figures()["online.png"]
    assert isinstance(figure, OnlineLearningCurve)
    scores = run.metrics()[-1]
    for label, prefix in (("training", "dev_"), ("initial weights", "dev_left_")):
        values = figure.scores[label]
        assert len(values) == ROWS
        assert running_mean(values)[-1] == scores[f"{prefix}accuracy"]


def power_failure(*arguments: Any) -> None:
    raise RuntimeError("power failure")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train.steps": 61},
            "got train.steps=61, but 60 rows are trained on once, in 60 steps; try 60 or fewer",
        ),
        ({"train.optimizer": "gradient_descent"}, "every step takes all rows; expected .* try sgd"),
    ],
)
def test_online_training_rejects_repeated_rows(
    changes: dict[str, Any], message: str, start: Any, tmp_path: Path
) -> None:
    data = write(tmp_path / "rows.csv", make_rows(ROWS, 2))
    with pytest.raises(ConfigError, match=message):
        finetune_run(
            start("softmax"), str(data), None, TrainOptions(), changes=changes, online=True
        )


def test_online_training_rejects_a_table_without_targets(start: Any, tmp_path: Path) -> None:
    data = write(tmp_path / "rows.csv", ["1,2,?", "2,1,NA"])
    with pytest.raises(DataError, match="got no row with a 'c'"):
        finetune_run(start("softmax"), str(data), tmp_path / "x", TrainOptions(), online=True)


def test_online_training_needs_a_trained_run() -> None:
    recipe = resolve_recipe("table", changes={"train.online": True}).recipe
    with pytest.raises(
        ConfigError, match="train.online without a trained run; .*--data FILE --online"
    ):
        train_recipe(recipe, Path("nowhere"), TrainOptions())


def test_running_mean_equals_a_loop() -> None:
    values = np.random.default_rng(0).random(30)
    for window in (None, 1, 7, 100):
        expected = [np.mean(values[max(0, n - (window or n)) : n]) for n in range(1, 31)]
        np.testing.assert_allclose(running_mean(values, window), expected)
        np.testing.assert_allclose(running_mean(values, window, root=True), np.sqrt(expected))
