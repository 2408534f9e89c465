"""A table from its recipe to its run: numbers and classes, by each model."""

import math
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from saccade.data.synthetic.tables import PLANE_BIAS, PLANE_WEIGHTS
from saccade.errors import ConfigError, DataError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, TrainOptions, load_run, resume, train_recipe
from saccade.tasks.table import NeuralTabularTask, TabularBatch
from saccade.tasks.table_recipe import prepare_table
from saccade.training.loop import Event, ReportEvent

FEW = {"train.threads": 1, "train.checkpoint_seconds": 1000}
# the whole table in a batch, judged once: the weights are those at the end, as far as they go
WHOLE = {"train__batch_tokens": 10_000, "train__steps": 400, "train__evaluate_every": 400}
SMALL = {"train__steps": 13, "train__evaluate_every": 5, "train__report_every": 4}
SMALL |= {"train__batch_tokens": 50}


def recipe_of(model: str = "mlp", **changes: Any) -> Any:
    every = FEW | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_recipe("table", model=model, changes=every).recipe


def task_of(model: str = "mlp", **changes: Any) -> NeuralTabularTask:
    prepared = prepare_table(recipe_of(model, **changes), lambda what, done, total: None)
    task = NeuralTabularTask(prepared.recipe, prepared.vocabulary)
    task.attach_data(prepared)
    return task


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, numbers that tell them apart a little, a category and holes."""
    draw = np.random.default_rng(3)
    lines = ["length,width,colour,kind"]
    for at in range(180):
        kind = at % 3
        length, width = draw.normal([kind, -kind], 0.8)
        colour = ["red", "blue", "NA"][(kind + int(draw.integers(2))) % 3]
        lines.append(f"{length if at % 9 else ''},{width},{colour},{'abc'[kind]}")
    path = tmp_path_factory.mktemp("flowers") / "flowers.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, flowers: Path) -> dict[str, Run]:
    """A finished run of each model, to be read and never written to."""
    root = tmp_path_factory.mktemp("tables")
    kinds = {"data__path": str(flowers), "data__synthetic": None, "data__target": "kind"}
    kinds |= {**WHOLE, "train__penalty": 0.03, "train__learning_rate": 0.1}
    curved = {"model__hidden": [6], "model__activation": "tanh", "train__learning_rate": 0.03}
    recipes = {
        "linear": recipe_of("linear", **WHOLE),
        "softmax": recipe_of("softmax", **kinds),
        "mlp": recipe_of(**curved, train__steps=600),
    }
    return {
        name: train_recipe(recipe, root / name, TrainOptions()).run
        for name, recipe in recipes.items()
    }


# --- learning -------------------------------------------------------------------------------------


def test_linear_regression_is_least_squares(runs: dict[str, Run]) -> None:
    run = runs["linear"]
    scores = run.evaluate()
    rows = run.task.rows["train"]
    table = np.column_stack([rows.features, np.ones(len(rows.lines))])
    found, *_ = np.linalg.lstsq(table, rows.target, rcond=None)
    [(weight, bias)] = run.task.model.layers()
    np.testing.assert_allclose(weight[0].detach(), found[:-1], atol=2e-3)
    assert float(bias.detach()) == pytest.approx(found[-1], abs=2e-3)
    # as the table has it: y = 2 a − 3.4 b + 4.2
    y, columns = run.task.layout.target, run.task.layout.columns
    slopes = weight[0].detach().numpy() * y.deviation / [c.deviation for c in columns]
    np.testing.assert_allclose(slopes, PLANE_WEIGHTS, atol=0.1)
    assert run.predict({"a": 0, "b": 0}).values[0] == pytest.approx(PLANE_BIAS, abs=0.1)
    assert scores["rmse"] == pytest.approx(0.5, rel=0.2)  # the noise
    assert scores["r2"] > 0.97


def optimum(features: np.ndarray, target: np.ndarray, classes: int, strength: float) -> np.ndarray:
    """W and b of the least mean cross-entropy + λ/2 ‖W‖², as scipy finds it."""
    count, width = features.shape
    wanted = np.eye(classes)[target]

    def risk(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w, b = flat[: classes * width].reshape(classes, width), flat[classes * width :]
        z = features @ w.T + b
        z -= z.max(1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
        apart = (np.exp(log_p) - wanted) / count
        gradient = np.concatenate([(apart.T @ features + strength * w).ravel(), apart.sum(0)])
        return float(-(wanted * log_p).sum() / count + strength / 2 * (w**2).sum()), gradient

    start = np.zeros(classes * (width + 1))
    return minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x


def test_softmax_regression_comes_to_the_optimum(runs: dict[str, Run]) -> None:
    run = runs["softmax"]
    scores = run.evaluate(split="train")
    rows = run.task.rows["train"]
    best = optimum(rows.features, rows.target, 3, 0.03)
    [(weight, bias)] = run.task.model.layers()
    np.testing.assert_allclose(weight.detach().ravel(), best[: weight.numel()], atol=0.02)
    # only differences of biases count
    np.testing.assert_allclose(np.diff(bias.detach()), np.diff(best[weight.numel() :]), atol=0.02)
    assert scores["risk"] == pytest.approx(scores["loss"] + scores["penalty"])
    assert scores["penalty"] == pytest.approx(0.015 * float((weight**2).sum().detach()), rel=1e-5)


def test_layers_part_what_a_line_cannot(runs: dict[str, Run], tmp_path: Path) -> None:
    assert runs["mlp"].evaluate()["accuracy"] > 0.95
    line = train_recipe(recipe_of("softmax", **WHOLE), tmp_path / "line", TrainOptions()).run
    assert line.evaluate()["accuracy"] < 0.93


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_softmax_regression_is_scikit_learns(name: str, tmp_path: Path, no_pictures: None) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    strength = 0.01
    changes = {**WHOLE, "data__synthetic": name, "train__penalty": strength, "train__steps": 1500}
    changes |= {"train__evaluate_every": 1500}
    task = train_recipe(recipe_of("softmax", **changes), tmp_path / "run", TrainOptions()).run.task
    rows, test = task.rows["train"], task.rows["test"]
    # two classes have one vector there, the difference of ours: half of λ
    halved = strength / 2 if len(task.classes) == 2 else strength
    theirs = linear.LogisticRegression(C=1 / (halved * len(rows.lines)), max_iter=5000, tol=1e-8)
    theirs.fit(rows.features, rows.target)
    ours, chances = task.answers(test.features), theirs.predict_proba(test.features)
    found = torch.from_numpy(ours).softmax(1).numpy()
    np.testing.assert_allclose(found, chances, atol=0.02)
    assert (ours.argmax(1) == chances.argmax(1)).mean() > 0.97


def test_linear_regression_is_scikit_learns(tmp_path: Path, no_pictures: None) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    changes = {**WHOLE, "data__synthetic": "diabetes", "train__steps": 3000}
    changes |= {"train__evaluate_every": 3000}
    task = train_recipe(recipe_of("linear", **changes), tmp_path / "run", TrainOptions()).run.task
    rows, test = task.rows["train"], task.rows["test"]
    theirs = linear.LinearRegression().fit(rows.features, rows.target)
    np.testing.assert_allclose(
        task.answers(test.features)[:, 0], theirs.predict(test.features), atol=0.02
    )


@pytest.mark.parametrize(
    ("loss", "synthetic"),
    [("absolute_error", "plane"), ("huber", "plane"), ("hinge", "moons"), ("exponential", "moons")],
)
def test_other_losses_learn_too(
    loss: str, synthetic: str, tmp_path: Path, no_pictures: None
) -> None:
    few = {"train__steps": 300, "train__learning_rate": 0.03}
    recipe = recipe_of(data__synthetic=synthetic, train__loss=loss, **few)
    scores = train_recipe(recipe, tmp_path / "run", TrainOptions()).run.evaluate()
    assert scores.get("accuracy", scores.get("r2")) > 0.93
    assert loss in scores["conventions"]["loss"]


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (
            "softmax",
            {"train__loss": "squared_error"},
            "'squared_error'; for 2 classes take one of cross_entropy",
        ),
        (
            "linear",
            {"train__loss": "hinge"},
            "'hinge'; for numbers take one of absolute_error, huber",
        ),
        (
            "mlp",
            {"train__loss": "hinge", "train__label_smoothing": 0.1},
            "smoothing is for cross_entropy",
        ),
        (
            "linear",
            {"data__target_type": "class"},
            "linear says a number, and data.target_type is 'class'",
        ),
        ("linear", {"data__synthetic": "moons"}, "target 'moon' holds text .* a number was wanted"),
        ("mlp", {"data__synthetic": "moon"}, "no made table 'moon'. Did you mean 'moons'"),
        ("mlp", {"data__synthetic": None}, "needs data"),
        ("mlp", {"model__activation": "softmax"}, "no activation of single numbers 'softmax'"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    model: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        train_recipe(recipe_of(model, **changes), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_a_margin_is_for_two_classes(flowers: Path) -> None:
    changes = {"data__path": str(flowers), "data__synthetic": None, "data__target": "kind"}
    with pytest.raises(ConfigError, match="'hinge', which is for two classes; there are 3"):
        task_of(**changes, train__loss="hinge")
    del changes["data__target"]
    with pytest.raises(ConfigError, match="Say --target NAME. It has: length, width, colour, kind"):
        task_of(**changes)


# --- weights --------------------------------------------------------------------------------------


def weighed_table(path: Path, weights: list[int], many: bool) -> Path:
    """Rows with a weight, or so many times each."""
    draw = np.random.default_rng(1)
    lines = ["a,b,w,y"]
    for at, weight in enumerate(weights):
        a, b = draw.normal(size=2)
        row = f"{a},{b},{1 if many else weight},{'yes' if a + 0.3 * (at % 3) > 0 else 'no'}"
        lines += [row] * (weight if many else 1)
    path.write_text("\n".join(lines))
    return path


def test_a_weight_of_two_is_a_row_twice(tmp_path: Path) -> None:
    weights = [1, 2, 3, 1, 2] * 8
    found = []
    for many in (False, True):
        path = weighed_table(tmp_path / f"{many}.csv", weights, many)
        changes = {"data__path": str(path), "data__synthetic": None, "data__target": "y"}
        found.append(task_of("softmax", **changes, data__weight_column="w", train__penalty=0.1))
    weighed, many_times = found
    torch.nn.init.constant_(weighed.model.output.weight, 0.3)
    torch.nn.init.constant_(many_times.model.output.weight, 0.3)
    assert [column.name for column in weighed.layout.columns] == ["a", "b"]
    # the same rows under both, by the units of one of them
    rows = weighed.rows["train"]
    assert rows.weights is not None
    twice = np.repeat(np.arange(len(rows.lines)), rows.weights.astype(int))
    features, target, _, lines = rows
    many_times.rows["train"] = rows._replace(
        features=features[twice], target=target[twice], weights=None, lines=lines[twice]
    )
    gradients = []
    for task in (weighed, many_times):
        batch = task.batch("train", np.arange(len(task.rows["train"].lines)))
        mean = task.loss(batch).total / batch.tokens
        gradients.append(torch.autograd.grad(mean, [*task.model.parameters()]))
        assert float(task.risk("train").structural) == pytest.approx(float(mean.detach()), rel=1e-5)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_weights_may_be_given_in_python_and_travel_in_the_batch() -> None:
    task = task_of()
    [batch] = islice(task.batches("train"), 1)
    assert isinstance(batch, TabularBatch) and batch.weights is None
    count = len(task.rows["train"].lines)
    given = np.arange(count, dtype=np.float64)
    task.set_sample_weights(given)
    [batch] = islice(task.batches("train"), 1)
    lines = task.rows["train"].lines.tolist()
    expected = [given[lines.index(line)] / given.mean() for line in batch.lines]
    np.testing.assert_allclose(batch.weights, expected, rtol=1e-6)
    for wrong in (np.ones(3), np.zeros(count), np.full(count, np.inf)):
        with pytest.raises(ValueError, match=f"got {len(wrong)} weights for {count} rows"):
            task.set_sample_weights(wrong)


def test_rows_that_all_count_nothing_are_refused(tmp_path: Path) -> None:
    path = weighed_table(tmp_path / "table.csv", [0] * 79 + [1], many=False)
    changes = {"data__path": str(path), "data__synthetic": None, "data__target": "y"}
    with pytest.raises(DataError, match="all .* rows for (train|dev|test) have a weight of 0"):
        task_of(**changes, data__weight_column="w")


# --- scores and answers ---------------------------------------------------------------------------


def test_figures_of_classes_come_with_their_table(runs: dict[str, Run]) -> None:
    scores = runs["softmax"].evaluate()
    assert {"loss", "accuracy", "macro_f1", "penalty", "risk", "examples"} < set(scores)
    counts = np.array(scores["confusion"]["counts"])
    assert scores["confusion"]["classes"] == ["a", "b", "c"]
    assert counts.sum() == scores["examples"] == 36
    assert np.trace(counts) / counts.sum() == pytest.approx(scores["accuracy"])
    task = runs["softmax"].task
    logits = torch.from_numpy(task.answers(task.rows["test"].features))
    truth = torch.from_numpy(task.rows["test"].target)
    mean = torch.nn.functional.cross_entropy(logits, truth)
    assert scores["loss"] == pytest.approx(float(mean), rel=1e-5)


def test_figures_of_numbers_are_in_the_tables_units(runs: dict[str, Run]) -> None:
    run = runs["linear"]
    scores = run.evaluate()
    assert "confusion" not in scores
    rows, y = run.task.rows["test"], run.task.layout.target
    said = y.inverse_transform(run.task.answers(rows.features)[:, 0])
    errors = said - y.inverse_transform(rows.target)
    assert scores["rmse"] == pytest.approx(float(np.sqrt((errors**2).mean())))
    assert scores["mae"] == pytest.approx(float(np.abs(errors).mean()))
    assert scores["loss"] == pytest.approx(float(((errors / y.deviation) ** 2).mean()), rel=1e-4)


def test_a_row_is_answered_as_the_table_was(runs: dict[str, Run], flowers: Path) -> None:
    run = runs["softmax"]
    run.evaluate()
    header, *lines = flowers.read_text().splitlines()
    rows = run.task.rows["test"]
    logits = run.task.answers(rows.features)
    for place in range(6):
        line = lines[rows.lines[place] - 2]
        cells = dict(zip(header.split(","), line.split(","), strict=True))
        kind = cells.pop("kind")
        answers = run.predict([line, line.removesuffix(f",{kind}"), cells], n_best=3)
        assert answers[0] == answers[1] == answers[2]
        [said] = {answer.text for answer in answers}
        assert said == "abc"[logits[place].argmax()]
        chances = torch.from_numpy(logits[place]).softmax(0)
        np.testing.assert_allclose([*answers[0].probabilities.values()], chances, atol=1e-6)
        every = (answers[0], *answers[0].alternatives)
        best = sorted(chances.tolist(), reverse=True)
        assert [one.score for one in every] == pytest.approx(best)


def test_lines_that_are_no_rows_are_answered_in_their_place(runs: dict[str, Run]) -> None:
    asked = ["length,width,colour", "1,2,red", "", "0.1,,unseen"]
    said = [answer.text for answer in runs["softmax"].predict(asked)]
    assert said[0] == "kind" and said[2] == "" and {said[1], said[3]} < set("abc")
    assert [a.text for a in runs["linear"].predict(["a,b", ""])] == ["y", ""]


def test_what_cannot_be_answered_is_said(runs: dict[str, Run]) -> None:
    run = runs["softmax"]
    with pytest.raises(DataError, match="input 2 has 2 cells; wanted 3, with ',' between: length,"):
        run.predict(["1,2,red", "1,2"])
    with pytest.raises(DataError, match=r"(?s)cannot be answered.*input 1: 'x' .*input 3: 'long'"):
        run.predict(["x,2,red", "1,2,red", "long,1,red"])
    with pytest.raises(DataError, match="input 8: 'x' in the column 'width', where numbers are"):
        run.predict(["1,x,red"], first=8)
    with pytest.raises(ConfigError, match="got n_best; table computes its one answer"):
        runs["linear"].predict("1,2", n_best=2)
    with pytest.raises(ConfigError, match="got beam"):
        run.predict("1,2,red", beam=3)


def test_another_file_is_scored_by_the_names_of_its_columns(
    runs: dict[str, Run], flowers: Path, tmp_path: Path
) -> None:
    run = runs["softmax"]
    test = run.evaluate()
    header, *lines = flowers.read_text().splitlines()
    held = [lines[line - 2].split(",") for line in run.task.rows["test"].lines]
    other = tmp_path / "other.csv"
    other.write_text(
        "kind;extra;colour;width;length\n"
        + "".join(f"{kind};x;{colour};{width};{length}\n" for length, width, colour, kind in held)
    )
    given = run.evaluate(other)
    assert given.pop("conventions") and test.pop("conventions")
    assert given == test
    other.write_text("kind;colour;width;length\nz;red;1;2\na;red;1;2\n;red;1;2\n")
    given = run.evaluate(other)
    assert given["examples"] == 2 and given["accuracy"] <= 0.5
    assert "1 row of unseen classes" in given["conventions"]["accuracy"]
    other.write_text("kind;colour;width\na;red;x\n")
    with pytest.raises(
        DataError, match=r"(?s)no column 'length'.*line 2: 'x' in the column 'width'"
    ):
        run.evaluate(other)


# --- laws and runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["linear", "softmax", "mlp"])
def test_every_law_holds(model: str, runs: dict[str, Run]) -> None:
    findings = {f.invariant: f for f in runs[model].check(inputs=9)}
    for invariant in (
        "neighbours change nothing",
        "written out equals autograd",
        "saved and reopened agree",
    ):
        assert (findings[invariant].verdict, findings[invariant].num_inputs) == ("passed", 9), (
            findings[invariant]
        )


def test_laws_that_are_broken_are_found() -> None:
    task = task_of()
    net: Any = task.model
    honest = net.forward
    net.forward = lambda x: honest(x) + x.mean()
    verdicts = {f.invariant: f.verdict for f in task.check("test", 5)}
    assert verdicts["neighbours change nothing"] == "FAILED"
    net.forward = lambda x: 1.5 * honest(x)
    verdicts = {f.invariant: f.verdict for f in task.check("test", 5)}
    assert verdicts["written out equals autograd"] == "FAILED"
    net.forward = honest
    assert task.compare_reloaded(task_of(train__seed=2), "test", 5).verdict == "FAILED"
    normed = {f.invariant: f.verdict for f in task_of(model__norm="batch").check("test", 5)}
    assert normed == {
        "neighbours change nothing": "passed",
        "written out equals autograd": "skipped",
    }


class Killed(Exception):
    """The machine went down."""


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("mlp", {"model__dropout": 0.3, "model__norm": "batch", "train__batch_tokens": 93}),
        ("linear", {"train__penalty": 0.1}),
    ],
)
def test_killed_and_resumed_is_as_never_killed(
    model: str,
    changes: dict[str, Any],
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    no_pictures: None,
) -> None:
    recipe = recipe_of(model, **{**SMALL, **changes, "train__checkpoint_seconds": 0})
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def on_event(event: Event) -> None:
        if isinstance(event, ReportEvent) and event.step == 8:
            raise Killed

    with pytest.raises(Killed):
        train_recipe(recipe, tmp_path / "broken", TrainOptions(on_event=on_event))
    assert resume(tmp_path / "broken", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "broken") == outcome_of(tmp_path / "whole")
    one, two = (load_run(tmp_path / name) for name in ("whole", "broken"))
    assert one.predict("0.1,0.2") == two.predict("0.1,0.2")
    assert one.vocabulary == two.vocabulary


def test_another_table_cannot_be_gone_on_with(
    flowers: Path, tmp_path: Path, no_pictures: None
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(flowers.read_text())
    changes = {"data__path": str(path), "data__synthetic": None, "data__target": "kind"}
    train_recipe(
        recipe_of(**SMALL, **changes, train__checkpoint_seconds=0), tmp_path / "run", TrainOptions()
    )
    path.write_text(flowers.read_text().replace(",red,", ",blue,"))
    with pytest.raises(DataError, match="is not what it was when the run began"):
        resume(tmp_path / "run", {}, TrainOptions())


def test_a_loss_that_is_no_number_names_the_lines(flowers: Path) -> None:
    task = task_of(data__path=str(flowers), data__synthetic=None, data__target="kind")
    batch = task.batch("train", np.arange(7))
    lines = task.rows["train"].lines[:5].tolist()
    assert task.describe_batch(batch) == f"{flowers}, lines {', '.join(map(str, lines))} and 2 more"


def test_an_evaluation_of_some_rows_does_not_take_the_first() -> None:
    task = task_of()
    few = task._some("test", 5)
    assert few[0] == 0 and few[-1] == len(task.rows["test"].lines) - 1 and len(few) == 5
    assert task.evaluate("test", 5)["examples"] == 5
    whole = task.evaluate("test")
    assert whole["examples"] == len(task.rows["test"].lines)
    assert whole == task.evaluate("test", 10_000)


def test_batches_go_through_all_rows_and_no_row_is_normed_alone() -> None:
    for changes in ({}, {"model__norm": "batch"}):
        task = task_of(**changes, train__batch_tokens=3)
        count = len(task.rows["train"].lines)
        assert count % 3 == 1
        batches = list(islice(task.batches("train"), -(-count // 3)))
        assert (min(batch.tokens for batch in batches) == 1) == (not changes)
        first = task.batches("train", start=1)
        assert next(first).lines == batches[1].lines
    seen = [line for batch in batches for line in batch.lines][:count]
    assert sorted(seen) == task.rows["train"].lines.tolist()


# --- a look inside --------------------------------------------------------------------------------


def test_a_pass_of_gradient_descent_has_every_row_once(tmp_path: Path, no_pictures: None) -> None:
    task = task_of(train__batch_tokens=50)
    lines = [
        line for b in islice(task.batches("train"), task.batches_in_epoch()) for line in b.lines
    ]
    assert len(lines) > 50
    assert sorted(lines) == sorted(task.rows["train"].lines.tolist())
    steps = {"train__optimizer": "gradient_descent", "train__clip_norm": 1e9, "train__steps": 3}
    steps |= {"train__evaluate_every": 3, "train__schedule": "constant", "train__warmup": 0}
    by_parts, at_once = (
        train_recipe(
            recipe_of(train__batch_tokens=size, **steps), tmp_path / str(size), TrainOptions()
        ).run
        for size in (50, 10_000)
    )
    for name, weight in by_parts.task.model.state_dict().items():
        assert torch.allclose(weight, at_once.task.model.state_dict()[name], atol=1e-6), name


def test_the_graph_has_the_numbers_of_autograd(runs: dict[str, Run], tmp_path: Path) -> None:
    run = runs["mlp"]
    graph = run.plot_graph(tmp_path / "graph.png", row=2)
    assert (tmp_path / "graph.png").stat().st_size > 10_000
    batch = run.task.batch("test", np.array([1]))
    x = batch.features.requires_grad_()
    z = run.task.model(x)
    loss = torch.nn.functional.cross_entropy(z, batch.target)
    at_x, at_z = torch.autograd.grad(loss, [x, z])
    inputs, hidden, outputs = graph.layers
    assert [len(layer) for layer in graph.layers] == [2, 6, 2]
    np.testing.assert_allclose([u.figures["∂x"] for u in inputs], at_x[0], atol=1e-6)
    np.testing.assert_allclose([u.figures["δ"] for u in outputs], at_z[0], atol=1e-6)
    np.testing.assert_allclose(
        [u.figures["p"] for u in outputs], z[0].softmax(0).detach(), atol=1e-6
    )
    for unit in hidden:
        assert unit.figures["a"] == pytest.approx(math.tanh(unit.figures["z"]), abs=1e-6)
    assert graph.loss == pytest.approx(float(loss.detach()), rel=1e-5)
    np.testing.assert_array_equal(graph.weights[1], run.task.model.output.weight.detach().double())


def test_a_graph_that_cannot_be_read_is_refused(runs: dict[str, Run], tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="layers of 32, 2; a graph that can be read has at most 12"
    ):
        task_of().graph(1)
    with pytest.raises(ConfigError, match="no row 81 of test; there are 1 to 80"):
        runs["mlp"].plot_graph(tmp_path / "graph.png", row=81)
    with pytest.raises(ConfigError, match="model.norm is 'layer'"):
        task_of(model__norm="layer", model__hidden=4).graph(1)
    with pytest.raises(ConfigError, match="a picture can be"):
        runs["mlp"].plot_graph(tmp_path / "graph.txt")
    assert runs["linear"].plot_graph(tmp_path / "line.svg").layers[1][0].name == "y"


def test_the_report_has_the_classes_and_the_curves(runs: dict[str, Run]) -> None:
    drawn = {path.name for path in (runs["mlp"].folder / "report").iterdir()}
    assert drawn == {"confusion.png", "curves.png"}
