"""Row after row: answered, then learned from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.errors import ConfigError, DataError
from saccade.plots.online import running_mean
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, TrainOptions, load_run, resume, train_recipe
from saccade.tasks.online import OnlineTabularTask
from saccade.workflows.finetune import finetune

FEW = {"train.threads": 1, "train.checkpoint_seconds": 1000}
ROWS = 60


def table_of(count: int, seed: int, turned: bool = False, number: bool = False) -> list[str]:
    """Two numbers and which side of a line they are on, or how far from it; or turned round."""
    draw = np.random.default_rng(seed)
    rows = []
    for a, b in draw.normal(size=(count, 2)):
        far = (a + b) * (-1 if turned else 1)
        rows.append(
            f"{a},{b},{far + draw.normal(0, 0.1) if number else 'yes' if far > 0 else 'no'}"
        )
    return rows


def write(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(["a,b,c", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A finished run of a model, to go on from."""
    root = tmp_path_factory.mktemp("start")
    made: dict[str, Path] = {}

    def folder(model: str) -> Path:
        if model not in made:
            number = model == "linear"
            data = write(root / f"{model}.csv", table_of(200, 1, number=number))
            more = {"model.hidden": 5, "model.dropout": 0.3} if model == "mlp" else {}
            changes = FEW | more | {"data.target": "c", "train.steps": 60}
            recipe = resolve_recipe("table", data=str(data), model=model, changes=changes).recipe
            made[model] = train_recipe(recipe, root / model, TrainOptions()).run.folder
        return made[model]

    return folder


@pytest.fixture
def live(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Learn rows online, from a run of a model, and give the run; no pictures."""
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)

    def learned(model: str, rows: list[str], name: str = "live", **changes: Any) -> Run:
        data = write(tmp_path / "live.csv", rows)
        every = {path.replace("__", "."): value for path, value in changes.items()}
        out = tmp_path / name
        return finetune(
            start(model), str(data), out, TrainOptions(), changes=every, online=True
        ).run

    return learned


@pytest.mark.parametrize("model", ["softmax", "mlp", "linear"])
@pytest.mark.parametrize("optimizer", ["adamw", "lbfgs"])
def test_a_row_is_never_learned_from_before_it_is_answered(
    model: str, optimizer: str, live: Callable[..., Run]
) -> None:
    """Other labels from row n on change no answer up to row n, and some after it."""
    rows = table_of(ROWS, 2, number=model == "linear")
    changes = {"train__optimizer": optimizer, "train__learning_rate": 0.1}
    first = live(model, rows, "first", **changes).task.carry["said"]
    assert not first.isnan().any()
    for n in (0, 7, ROWS - 1):
        other = [
            row if at < n else row.rpartition(",")[0] + (",9" if model == "linear" else ",yes")
            for at, row in enumerate(rows)
        ]
        said = live(model, other, f"from {n}", **changes).task.carry["said"]
        assert torch.equal(said[: n + 1], first[: n + 1])
        assert n == ROWS - 1 or not torch.equal(said[n + 1 :], first[n + 1 :])


def test_it_is_logistic_regression_row_by_row(live: Callable[..., Run], start: Any) -> None:
    """W ← W - η (p - 1_y) xᵀ, written out in numpy."""
    rate = 0.2
    how = {"train__optimizer": "sgd", "train__learning_rate": rate, "train__clip_norm": 1e9}
    task = live("softmax", table_of(ROWS, 3, turned=True), **how, train__weight_decay=0).task
    rows = task.rows["train"]
    [(weight, bias)] = load_run(start("softmax")).task.model.layers()
    w, b = weight.detach().double().numpy(), bias.detach().double().numpy()
    for n in range(ROWS):
        x, y = rows.features[n], rows.target[n]
        z = w @ x + b
        np.testing.assert_allclose(task.carry["said"][n], z, atol=1e-4)
        p = np.exp(z - z.max())
        p /= p.sum()
        p[y] -= 1
        w, b = w - rate * np.outer(p, x), b - rate * p
    [(weight, bias)] = task.model.layers()
    np.testing.assert_allclose(weight.detach(), w, atol=1e-4)  # the last weights are kept
    np.testing.assert_allclose(bias.detach(), b, atol=1e-4)


def test_it_is_least_mean_squares_row_by_row(live: Callable[..., Run], start: Any) -> None:
    """w ← w - 2η (w·x - y) x (Widrow and Hoff 1960)."""
    rate = 0.03
    how = {"train__optimizer": "sgd", "train__learning_rate": rate, "train__clip_norm": 1e9}
    rows = table_of(ROWS, 3, turned=True, number=True)
    task = live("linear", rows, **how, train__weight_decay=0).task
    given = task.rows["train"]
    [(weight, bias)] = load_run(start("linear")).task.model.layers()
    w = np.append(weight.detach().double().numpy()[0], float(bias.detach()))
    squares = []
    for n in range(ROWS):
        x = np.append(given.features[n], 1.0)
        far = w @ x - given.target[n]
        assert float(task.carry["said"][n, 0]) == pytest.approx(w @ x, abs=1e-4)
        squares.append((far * task.layout.target.deviation) ** 2)
        w = w - rate * 2 * far * x
    found = task.evaluate("dev")
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-4)
    assert found["recent_rmse"] == found["rmse"]  # there are fewer rows than the window has


def test_what_was_turned_round_is_lost_and_regained(live: Callable[..., Run], start: Any) -> None:
    rows = table_of(200, 5) + table_of(300, 6, turned=True)
    run = live("softmax", rows, train__learning_rate=0.1)
    lines = [line for line in run.metrics() if "best" in line]
    before = [line for line in lines if line["step"] <= 200][-1]
    assert before["dev_recent_accuracy"] > 0.9 and before["dev_left_recent_accuracy"] > 0.8
    shortly = next(line for line in lines if line["step"] > 240)
    assert shortly["dev_recent_accuracy"] < before["dev_recent_accuracy"] - 0.1
    last = lines[-1]
    assert last["dev_recent_accuracy"] > 0.9 and last["dev_left_recent_accuracy"] < 0.2
    assert last["dev_rows"] == 500 and last["best"]
    old = load_run(start("softmax"))
    found = old.evaluate(run.folder.parent / "live.csv")
    assert last["dev_left_accuracy"] == pytest.approx(found["accuracy"])


def test_answers_are_given_without_dropout(live: Callable[..., Run], start: Any) -> None:
    rows = table_of(ROWS, 2)
    run = live("mlp", rows, train__learning_rate=1e-12)
    assert load_run(start("mlp")).recipe.model.dropout == 0.3
    torch.testing.assert_close(run.task.carry["said"], run.task.carry["left"])


def test_stopped_and_resumed_it_is_the_same(
    live: Callable[..., Run], start: Any, tmp_path: Path, outcome_of: Any, monkeypatch: Any
) -> None:
    rows = table_of(ROWS, 2)
    whole = live("mlp", rows, "whole")
    said = whole.task.carry
    calls: list[int] = []
    loss = OnlineTabularTask.loss

    def stopping(self: OnlineTabularTask, batch: Any) -> Any:
        calls.append(1)
        if len(calls) == 23:
            raise RuntimeError("pulled the plug")
        return loss(self, batch)

    monkeypatch.setattr(OnlineTabularTask, "loss", stopping)
    with pytest.raises(RuntimeError, match="pulled"):
        live("mlp", rows, "parts", train__checkpoint_seconds=0)
    again = resume(tmp_path / "parts", {}, TrainOptions()).run
    assert len(calls) < 2 * ROWS
    for name in ("said", "left"):
        assert torch.equal(again.task.carry[name], said[name])
    assert outcome_of(tmp_path / "parts") == outcome_of(tmp_path / "whole")


def test_batches_of_several_rows_and_weights_as_they_are(
    live: Callable[..., Run], start: Any, tmp_path: Path
) -> None:
    run = live("softmax", table_of(ROWS, 2), train__batch_tokens=8, train__accumulate_steps=2)
    lines = [batch.lines for batch in run.task.batches("train")]
    assert len(lines) == 8 and sum(lines, ()) == tuple(range(2, ROWS + 2))
    assert [batch.lines for batch in run.task.batches("train", 3)] == lines[3:]
    assert run.recipe.train.steps == 4
    np.testing.assert_array_equal(run.task.normalized_weights(np.array([1.0, 3.0])), [1.0, 3.0])
    # a group of batches is answered by the weights before it
    assert torch.equal(run.task.carry["said"][:16], run.task.carry["left"][:16])
    assert not torch.equal(run.task.carry["said"][16:], run.task.carry["left"][16:])


def test_a_run_like_any_other(start: Any, tmp_path: Path) -> None:
    data = write(tmp_path / "live.csv", table_of(ROWS, 2))
    how = {"changes": {"train.steps": 50}, "online": True}
    run = finetune(start("softmax"), str(data), tmp_path / "live", TrainOptions(), **how).run
    assert run.task.rows_seen == 50
    assert (tmp_path / "live/report/online.png").stat().st_size > 1000
    again = load_run(tmp_path / "live")
    assert again.predict("1,1").text == run.predict("1,1").text
    scores = again.evaluate()
    assert scores["examples"] == ROWS and "may have learned" in scores["conventions"]["accuracy"]
    given = again.evaluate(data)
    assert "may have learned" not in given["conventions"]["accuracy"]
    assert all(finding.verdict != "broken" for finding in again.check(inputs=4))
    assert again.metrics()[-1]["dev_rows"] == 50
    # and it goes on, as any run: not online, unless that is asked for
    more = finetune(
        run.folder, str(data), tmp_path / "more", TrainOptions(), changes={"train.steps": 2}
    )
    assert not more.run.recipe.train.online


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train.steps": 61},
            "steps is 61, and 60 rows are learned from once, in 60 steps: say 60",
        ),
        ({"train.optimizer": "gradient_descent"}, "every step takes all rows; online, take sgd"),
    ],
)
def test_what_cannot_be_online_is_refused(
    changes: dict[str, Any], message: str, start: Any, tmp_path: Path
) -> None:
    data = write(tmp_path / "live.csv", table_of(ROWS, 2))
    with pytest.raises(ConfigError, match=message):
        finetune(start("softmax"), str(data), None, TrainOptions(), changes=changes, online=True)


def test_rows_without_a_target_are_no_rows(start: Any, tmp_path: Path) -> None:
    data = write(tmp_path / "live.csv", ["1,2,?", "2,1,NA"])
    with pytest.raises(DataError, match="has no row with a 'c'"):
        finetune(start("softmax"), str(data), tmp_path / "x", TrainOptions(), online=True)


def test_what_columns_mean_is_known_before_the_first_row() -> None:
    recipe = resolve_recipe("table", changes={"train.online": True}).recipe
    with pytest.raises(ConfigError, match="online goes on from a run.*--on FILE --online"):
        train_recipe(recipe, Path("nowhere"), TrainOptions())


def test_the_running_score_by_loops() -> None:
    values = np.random.default_rng(0).random(30)
    for window in (None, 1, 7, 100):
        wanted = [np.mean(values[max(0, n - (window or n)) : n]) for n in range(1, 31)]
        np.testing.assert_allclose(running_mean(values, window), wanted)
        np.testing.assert_allclose(running_mean(values, window, root=True), np.sqrt(wanted))
