"""Tabular networks from recipe to run: regression and classification, by each model."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from saccade.data.synthetic.tables import PLANE_BIAS, PLANE_WEIGHTS
from saccade.errors import ConfigError, DataError
from saccade.inspection.figures import ComputationGraph
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.tabular.components import build_table_network
from saccade.tasks.tabular.data import PreparedTable, prepare_table, with_row_weights
from saccade.tasks.tabular.evaluate import TableEvaluator
from saccade.tasks.tabular.inspect import TableInspector
from saccade.tasks.tabular.objective import TabularObjective
from saccade.tasks.tabular.scoring import TabularBatch
from saccade.training.loop import Event, ReportEvent
from saccade.types.arrays import FloatArray

BASE = {"train.threads": 1, "train.checkpoint_seconds": 1000}
# the whole table in a batch, evaluated once at the end: the kept weights are the last ones
WHOLE = {"train__batch_tokens": 10_000, "train__steps": 400, "train__evaluate_every": 400}
SMALL = {"train__steps": 13, "train__evaluate_every": 5, "train__report_every": 4}
SMALL |= {"train__batch_tokens": 50}


def recipe_of(model: str = "mlp", **changes: Any) -> Any:
    every = BASE | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_recipe("table", model=model, changes=every).recipe


class Untrained(NamedTuple):
    """Prepared data, and the network of its recipe with initial weights."""

    data: PreparedTable
    model: nn.Module

    @property
    def objective(self) -> TabularObjective:
        data = self.data
        return TabularObjective(data.recipe, self.model, data.preprocessor, data.splits)

    @property
    def evaluator(self) -> TableEvaluator:
        return TableEvaluator(self.data.recipe, self.model, self.data.preprocessor)

    @property
    def inspector(self) -> TableInspector:
        return TableInspector(self.data.recipe, self.model, self.data.preprocessor)


def untrained(model: str = "mlp", **changes: Any) -> Untrained:
    data = prepare_table(recipe_of(model, **changes), PrepareContext())
    return Untrained(data, build_table_network(data.recipe, data.preprocessor))


def outputs_of(run: Run, features: FloatArray) -> FloatArray:
    """Return the logits or standardised numbers of rows, (N, V)."""
    return run.inspector.scorer.outputs(features)


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three overlapping classes, with a categorical column and missing values."""
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
    """A finished run of each model, which tests read and never change."""
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


# --- training -------------------------------------------------------------------------------------


def test_linear_regression_equals_lstsq(runs: dict[str, Run]) -> None:
    run = runs["linear"]
    scores = run.evaluate()
    rows = run.split("train").rows
    table = np.column_stack([rows.features, np.ones(len(rows.lines))])
    found, *_ = np.linalg.lstsq(table, rows.target, rcond=None)
    [(weight, bias)] = run.model.layers()
    np.testing.assert_allclose(weight[0].detach(), found[:-1], atol=2e-3)
    assert float(bias.detach()) == pytest.approx(found[-1], abs=2e-3)
    # in units of the table: y = 2 a − 3.4 b + 4.2
    y, columns = run.preprocessor.target, run.preprocessor.columns
    slopes = weight[0].detach().numpy() * y.deviation / [c.deviation for c in columns]
    np.testing.assert_allclose(slopes, PLANE_WEIGHTS, atol=0.1)
    assert run.predict({"a": 0, "b": 0}).value == pytest.approx(PLANE_BIAS, abs=0.1)
    assert scores["rmse"] == pytest.approx(0.5, rel=0.2)  # the noise
    assert scores["r2"] > 0.97


def optimum(features: np.ndarray, target: np.ndarray, classes: int, strength: float) -> np.ndarray:
    """Return W and b that minimise mean cross-entropy + λ/2 ‖W‖², by scipy's L-BFGS."""
    count, width = features.shape
    one_hot = np.eye(classes)[target]

    def risk(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w, b = flat[: classes * width].reshape(classes, width), flat[classes * width :]
        z = features @ w.T + b
        z -= z.max(1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
        error = (np.exp(log_p) - one_hot) / count
        gradient = np.concatenate([(error.T @ features + strength * w).ravel(), error.sum(0)])
        return float(-(one_hot * log_p).sum() / count + strength / 2 * (w**2).sum()), gradient

    start = np.zeros(classes * (width + 1))
    return minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x


def test_softmax_regression_reaches_the_optimum(runs: dict[str, Run]) -> None:
    run = runs["softmax"]
    scores = run.evaluate(split="train")
    rows = run.split("train").rows
    best = optimum(rows.features, rows.target, 3, 0.03)
    [(weight, bias)] = run.model.layers()
    np.testing.assert_allclose(weight.detach().ravel(), best[: weight.numel()], atol=0.02)
    # softmax depends on differences of biases only
    np.testing.assert_allclose(np.diff(bias.detach()), np.diff(best[weight.numel() :]), atol=0.02)
    assert scores["risk"] == pytest.approx(scores["loss"] + scores["penalty"])
    assert scores["penalty"] == pytest.approx(0.015 * float((weight**2).sum().detach()), rel=1e-5)


def test_mlp_separates_classes_that_are_not_linearly_separable(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    assert runs["mlp"].evaluate()["accuracy"] > 0.95
    line = train_recipe(recipe_of("softmax", **WHOLE), tmp_path / "line", TrainOptions()).run
    assert line.evaluate()["accuracy"] < 0.93


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_softmax_regression_equals_scikit_learn(name: str, tmp_path: Path, no_report: None) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    strength = 0.01
    changes = {**WHOLE, "data__synthetic": name, "train__penalty": strength, "train__steps": 1500}
    changes |= {"train__evaluate_every": 1500}
    run = train_recipe(recipe_of("softmax", **changes), tmp_path / "run", TrainOptions()).run
    rows, test = run.split("train").rows, run.split("test").rows
    # for two classes scikit-learn has one vector, the difference of ours: half of λ
    halved = strength / 2 if len(run.preprocessor.target.values) == 2 else strength
    theirs = linear.LogisticRegression(C=1 / (halved * len(rows.lines)), max_iter=5000, tol=1e-8)
    theirs.fit(rows.features, rows.target)
    ours, expected = outputs_of(run, test.features), theirs.predict_proba(test.features)
    found = torch.from_numpy(ours).softmax(1).numpy()
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert (ours.argmax(1) == expected.argmax(1)).mean() > 0.97


def test_linear_regression_equals_scikit_learn(tmp_path: Path, no_report: None) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    changes = {**WHOLE, "data__synthetic": "diabetes", "train__steps": 3000}
    changes |= {"train__evaluate_every": 3000}
    run = train_recipe(recipe_of("linear", **changes), tmp_path / "run", TrainOptions()).run
    rows, test = run.split("train").rows, run.split("test").rows
    theirs = linear.LinearRegression().fit(rows.features, rows.target)
    np.testing.assert_allclose(
        outputs_of(run, test.features)[:, 0], theirs.predict(test.features), atol=0.02
    )


@pytest.mark.parametrize(
    ("loss", "synthetic"),
    [("absolute_error", "plane"), ("huber", "plane"), ("hinge", "moons"), ("exponential", "moons")],
)
def test_mlp_learns_with_each_loss(
    loss: str, synthetic: str, tmp_path: Path, no_report: None
) -> None:
    short = {"train__steps": 300, "train__learning_rate": 0.03}
    recipe = recipe_of(data__synthetic=synthetic, train__loss=loss, **short)
    scores = train_recipe(recipe, tmp_path / "run", TrainOptions()).run.evaluate()
    assert scores.get("accuracy", scores.get("r2")) > 0.93
    assert loss in scores.conventions["loss"]


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (
            "softmax",
            {"train__loss": "squared_error"},
            "'squared_error' for 2 classes; expected one of cross_entropy",
        ),
        (
            "linear",
            {"train__loss": "hinge"},
            "'hinge' for numbers; expected one of absolute_error, huber",
        ),
        (
            "mlp",
            {"train__loss": "hinge", "train__label_smoothing": 0.1},
            "smoothing is for cross_entropy",
        ),
        (
            "linear",
            {"data__target_type": "class"},
            "got data.target_type='class' with linear, which predicts a number",
        ),
        ("linear", {"data__synthetic": "moons"}, "text in the target 'moon' .* expected a number"),
        ("mlp", {"data__synthetic": "moon"}, "no built-in table 'moon'. Did you mean 'moons'"),
        ("mlp", {"data__synthetic": None}, "needs data"),
        ("mlp", {"model__activation": "softmax"}, "no activation of single numbers 'softmax'"),
    ],
)
def test_train_rejects_incompatible_settings_before_it_writes(
    model: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        train_recipe(recipe_of(model, **changes), tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_margin_losses_reject_three_classes(flowers: Path) -> None:
    changes = {"data__path": str(flowers), "data__synthetic": None, "data__target": "kind"}
    with pytest.raises(ConfigError, match="'hinge', which is for two classes, with 3 classes"):
        untrained(**changes, train__loss="hinge")
    del changes["data__target"]
    with pytest.raises(
        DataError, match="(?s)columns: 'length', 'width', 'colour', 'kind'.*--target kind"
    ):
        untrained(**changes)


# --- row weights ----------------------------------------------------------------------------------


def weighted_table(path: Path, weights: list[int]) -> Path:
    """Write rows with a weight each."""
    draw = np.random.default_rng(1)
    lines = ["a,b,w,y"]
    for at, weight in enumerate(weights):
        a, b = draw.normal(size=2)
        lines.append(f"{a},{b},{weight},{'yes' if a + 0.3 * (at % 3) > 0 else 'no'}")
    path.write_text("\n".join(lines))
    return path


def test_row_weight_two_equals_a_repeated_row(tmp_path: Path) -> None:
    weights = [1, 2, 3, 1, 2] * 8
    path = weighted_table(tmp_path / "table.csv", weights)
    changes = {"data__path": str(path), "data__synthetic": None, "data__target": "y"}
    weighted = untrained("softmax", **changes, data__weight="w", train__penalty=0.1)
    torch.nn.init.constant_(weighted.model.output.weight, 0.3)
    assert [column.name for column in weighted.data.preprocessor.columns] == ["a", "b"]
    # the same rows in both, standardised by the same schema
    split = weighted.data.splits["train"]
    features, target, row_weights, lines = split.rows
    assert row_weights is not None
    often = np.repeat(np.arange(len(split)), row_weights.astype(int))
    rows = split.rows._replace(
        features=features[often], target=target[often], weights=None, lines=lines[often]
    )
    repeated_data = replace(weighted.data, splits={"train": replace(split, rows=rows)})
    gradients = []
    for parts in (weighted, Untrained(repeated_data, weighted.model)):
        train, objective = parts.data.splits["train"], parts.objective
        batch = objective.scorer.batch(train, np.arange(len(train)))
        mean = objective.loss(batch).total / batch.tokens
        gradients.append(torch.autograd.grad(mean, [*parts.model.parameters()]))
        risk = objective.scorer.risk(train)
        assert float(risk.structural) == pytest.approx(float(mean.detach()), rel=1e-5)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_row_weights_from_python_are_normalised_in_batches() -> None:
    parts = untrained()
    [batch] = islice(parts.objective.batches("train"), 1)
    assert isinstance(batch, TabularBatch) and batch.weights is None
    split = parts.data.splits["train"]
    count = len(split)
    given = np.arange(count, dtype=np.float64)
    parts.data.splits["train"] = with_row_weights(split, given)
    [batch] = islice(parts.objective.batches("train"), 1)
    lines = split.rows.lines.tolist()
    expected = [given[lines.index(line)] / given.mean() for line in batch.lines]
    np.testing.assert_allclose(batch.weights, expected, rtol=1e-6)
    for wrong in (np.ones(3), np.zeros(count), np.full(count, np.inf)):
        with pytest.raises(ValueError, match=f"got {len(wrong)} weights for {count} rows"):
            with_row_weights(split, wrong)


def test_row_weights_reject_a_split_of_zeros(tmp_path: Path) -> None:
    path = weighted_table(tmp_path / "table.csv", [0] * 79 + [1])
    changes = {"data__path": str(path), "data__synthetic": None, "data__target": "y"}
    with pytest.raises(DataError, match="got weight 0 .* rows of (train|dev|test);"):
        untrained(**changes, data__weight="w")


# --- evaluation and prediction --------------------------------------------------------------------


def test_evaluation_of_classes_has_a_confusion_matrix(runs: dict[str, Run]) -> None:
    scores = runs["softmax"].evaluate()
    assert set(scores) == {"loss", "accuracy", "macro_f1", "penalty", "risk", "examples"}
    confusion = scores.tables["confusion"]
    counts = np.array(confusion["counts"])
    assert confusion["classes"] == ["a", "b", "c"]
    assert counts.sum() == scores["examples"] == 36
    assert np.trace(counts) / counts.sum() == pytest.approx(scores["accuracy"])
    rows = runs["softmax"].split("test").rows
    logits = torch.from_numpy(outputs_of(runs["softmax"], rows.features))
    truth = torch.from_numpy(rows.target)
    mean = torch.nn.functional.cross_entropy(logits, truth)
    assert scores["loss"] == pytest.approx(float(mean), rel=1e-5)


def test_evaluation_of_numbers_is_in_units_of_the_table(runs: dict[str, Run]) -> None:
    run = runs["linear"]
    scores = run.evaluate()
    assert "confusion" not in scores.tables
    rows, y = run.split("test").rows, run.preprocessor.target
    predicted = y.inverse_transform(outputs_of(run, rows.features)[:, 0])
    errors = predicted - y.inverse_transform(rows.target)
    assert scores["rmse"] == pytest.approx(float(np.sqrt((errors**2).mean())))
    assert scores["mae"] == pytest.approx(float(np.abs(errors).mean()))
    assert scores["loss"] == pytest.approx(float(((errors / y.deviation) ** 2).mean()), rel=1e-4)


def test_predict_equals_evaluation_row_by_row(runs: dict[str, Run], flowers: Path) -> None:
    run = runs["softmax"]
    header, *lines = flowers.read_text().splitlines()
    rows = run.split("test").rows
    logits = outputs_of(run, rows.features)
    for row in range(6):
        line = lines[rows.lines[row] - 2]
        cells = dict(zip(header.split(","), line.split(","), strict=True))
        kind = cells.pop("kind")
        predictions = run.predict([line, line.removesuffix(f",{kind}"), cells], n_best=3)
        assert predictions[0] == predictions[1] == predictions[2]
        [predicted] = {prediction.text for prediction in predictions}
        assert predicted == "abc"[logits[row].argmax()]
        expected = torch.from_numpy(logits[row]).softmax(0)
        found = predictions[0].probabilities
        np.testing.assert_allclose([*found.values()], expected, atol=1e-6)
        ranked = (predictions[0], *predictions[0].alternatives)
        best = sorted(expected.tolist(), reverse=True)
        assert [prediction.score for prediction in ranked] == pytest.approx(best)


def test_predict_keeps_the_positions_of_headers_and_empty_lines(runs: dict[str, Run]) -> None:
    inputs = ["length,width,colour", "1,2,red", "", "0.1,,unseen"]
    texts = [prediction.text for prediction in runs["softmax"].predict(inputs)]
    assert texts[0] == "kind" and texts[2] == "" and {texts[1], texts[3]} < set("abc")
    assert [a.text for a in runs["linear"].predict(["a,b", ""])] == ["y", ""]


def test_predict_rejects_rows_that_do_not_fit_the_schema(runs: dict[str, Run]) -> None:
    run = runs["softmax"]
    with pytest.raises(
        DataError, match="input 2: got 2 cells; expected 3, with ',' between: length,"
    ):
        run.predict(["1,2,red", "1,2"])
    with pytest.raises(
        DataError, match=r"(?s)cannot be predicted.*input 1: got 'x' .*input 3: got 'long'"
    ):
        run.predict(["x,2,red", "1,2,red", "long,1,red"])
    with pytest.raises(
        DataError, match="input 8: got 'x' in the column 'width'; expected a number"
    ):
        run.predict(["1,x,red"], first=8)
    with pytest.raises(ConfigError, match="got n_best; expected no decoding options"):
        runs["linear"].predict("1,2", n_best=2)
    with pytest.raises(ConfigError, match="no setting 'beam'"):
        run.predict("1,2,red", beam=3)
    assert run.predict("1,2,red", beam=1) == run.predict("1,2,red")


def test_evaluate_finds_the_columns_of_another_file_by_name(
    runs: dict[str, Run], flowers: Path, tmp_path: Path
) -> None:
    run = runs["softmax"]
    test = run.evaluate()
    header, *lines = flowers.read_text().splitlines()
    held_out = [lines[line - 2].split(",") for line in run.split("test").rows.lines]
    other = tmp_path / "other.csv"
    other.write_text(
        "kind;extra;colour;width;length\n"
        + "".join(
            f"{kind};x;{colour};{width};{length}\n" for length, width, colour, kind in held_out
        )
    )
    given = run.evaluate(other)
    assert given.conventions and test.conventions
    assert replace(given, conventions={}) == replace(test, conventions={})
    other.write_text("kind;colour;width;length\nz;red;1;2\na;beige;1;2\n;red;1;2\n")
    given = run.evaluate(other)
    assert [note.partition(" in ")[2] for note in given.notes] == [
        "'colour' ('beige' 1).",
        "'kind' ('z' 1).",
    ]
    assert given.notes[1].startswith("1 row has an unseen class, which counts as wrong,")
    assert given["examples"] == 2 and given["accuracy"] <= 0.5
    assert "1 row of unseen classes" in given.conventions["accuracy"]
    other.write_text("kind;colour;width\na;red;x\n")
    with pytest.raises(
        DataError, match=r"(?s)no column 'length'.*line 2: got 'x' in the column 'width'"
    ):
        run.evaluate(other)


# --- invariants and runs --------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["linear", "softmax", "mlp"])
def test_tabular_models_satisfy_every_invariant(model: str, runs: dict[str, Run]) -> None:
    results = {result.invariant: result for result in runs[model].check(inputs=9)}
    for invariant in (
        "batch invariance",
        "manual backpropagation equals autograd",
        "reload consistency",
    ):
        result = results[invariant]
        assert (result.verdict, result.num_inputs) == ("passed", 9), result


def test_checks_find_broken_invariants() -> None:
    parts = untrained()
    inspector, split = parts.inspector, parts.data.splits["test"]
    network: Any = parts.model
    forward = network.forward
    network.forward = lambda x: forward(x) + x.mean()
    verdicts = {result.invariant: result.verdict for result in inspector.checks(split, 5)}
    assert verdicts["batch invariance"] == "FAILED"
    network.forward = lambda x: 1.5 * forward(x)
    verdicts = {result.invariant: result.verdict for result in inspector.checks(split, 5)}
    assert verdicts["manual backpropagation equals autograd"] == "FAILED"
    network.forward = forward
    other = untrained(train__seed=2).model
    assert inspector.compare_reloaded(other, split, 5).verdict == "FAILED"
    with_norm = untrained(model__norm="batch").inspector.checks(split, 5)
    assert {result.invariant: result.verdict for result in with_norm} == {
        "batch invariance": "passed",
        "manual backpropagation equals autograd": "skipped",
    }


class Killed(Exception):
    """Stands for a killed process."""


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("mlp", {"model__dropout": 0.3, "model__norm": "batch", "train__batch_tokens": 93}),
        ("linear", {"train__penalty": 0.1}),
    ],
)
def test_tabular_training_resumes_bit_exactly(
    model: str,
    changes: dict[str, Any],
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    no_report: None,
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
    assert one.preprocessor == two.preprocessor


def test_resume_rejects_a_changed_table(flowers: Path, tmp_path: Path, no_report: None) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(flowers.read_text())
    changes = {"data__path": str(path), "data__synthetic": None, "data__target": "kind"}
    train_recipe(
        recipe_of(**SMALL, **changes, train__checkpoint_seconds=0), tmp_path / "run", TrainOptions()
    )
    path.write_text(flowers.read_text().replace(",red,", ",blue,"))
    with pytest.raises(DataError, match="got other training data .*mine.csv"):
        resume(tmp_path / "run", {}, TrainOptions())


def test_objective_describes_a_batch_by_file_and_lines(flowers: Path) -> None:
    parts = untrained(data__path=str(flowers), data__synthetic=None, data__target="kind")
    objective, split = parts.objective, parts.data.splits["train"]
    batch = objective.scorer.batch(split, np.arange(7))
    lines = ", ".join(map(str, split.rows.lines[:5].tolist()))
    assert objective.describe_batch(batch) == f"{flowers}, lines {lines} and 2 more"


def test_evaluation_with_a_limit_spreads_over_the_split() -> None:
    parts = untrained()
    evaluator, split = parts.evaluator, parts.data.splits["test"]
    indices = split.spread(5)
    assert indices[0] == 0 and indices[-1] == len(split) - 1 and len(indices) == 5
    assert evaluator.evaluate(split, limit=5)["examples"] == 5
    whole = evaluator.evaluate(split)
    assert whole["examples"] == len(split)
    assert whole.metrics == evaluator.evaluate(split, limit=10_000).metrics


def test_batches_hold_every_row_and_batch_norm_no_single_row() -> None:
    for changes in ({}, {"model__norm": "batch"}):
        parts = untrained(**changes, train__batch_tokens=3)
        objective, lines = parts.objective, parts.data.splits["train"].rows.lines.tolist()
        count = len(lines)
        assert count % 3 == 1
        batches = list(islice(objective.batches("train"), -(-count // 3)))
        assert (min(batch.tokens for batch in batches) == 1) == (not changes)
        resumed = objective.batches("train", start=1)
        assert next(resumed).lines == batches[1].lines
    seen = [line for batch in batches for line in batch.lines][:count]
    assert sorted(seen) == lines


# --- inspection -----------------------------------------------------------------------------------


def test_gradient_descent_steps_on_every_row_once(tmp_path: Path, no_report: None) -> None:
    parts = untrained(train__batch_tokens=50)
    objective = parts.objective
    epoch = islice(objective.batches("train"), objective.batches_in_epoch())
    lines = [line for batch in epoch for line in batch.lines]
    assert len(lines) > 50
    assert sorted(lines) == sorted(parts.data.splits["train"].rows.lines.tolist())
    steps = {"train__optimizer": "gradient_descent", "train__clip_norm": 1e9, "train__steps": 3}
    steps |= {"train__evaluate_every": 3, "train__schedule": "constant", "train__warmup": 0}
    accumulated, whole = (
        train_recipe(
            recipe_of(train__batch_tokens=size, **steps), tmp_path / str(size), TrainOptions()
        ).run
        for size in (50, 10_000)
    )
    for name, weight in accumulated.model.state_dict().items():
        assert torch.allclose(weight, whole.model.state_dict()[name], atol=1e-6), name


def test_computation_graph_equals_autograd(runs: dict[str, Run], tmp_path: Path) -> None:
    run = runs["mlp"]
    graph = run.plot_graph(tmp_path / "graph.png", row=2)
    assert (tmp_path / "graph.png").stat().st_size > 10_000
    rows = run.split("test").rows
    x = torch.from_numpy(rows.features[1:2]).float().requires_grad_()
    z = run.model(x)
    loss = torch.nn.functional.cross_entropy(z, torch.from_numpy(rows.target[1:2]))
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
    np.testing.assert_array_equal(graph.weights[1], run.model.output.weight.detach().double())


def graph_of(parts: Untrained) -> ComputationGraph:
    return parts.inspector.computation_graph(parts.data.splits["test"], 1)


def test_computation_graph_rejects_large_networks(runs: dict[str, Run], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="layers of 32, 2; expected at most 12 inputs"):
        graph_of(untrained())
    with pytest.raises(ConfigError, match="got row 81 of test; expected 1 to 80"):
        runs["mlp"].plot_graph(tmp_path / "graph.png", row=81)
    with pytest.raises(ConfigError, match="got model.norm='layer'"):
        graph_of(untrained(model__norm="layer", model__hidden=4))
    with pytest.raises(ConfigError, match="a picture can be"):
        runs["mlp"].plot_graph(tmp_path / "graph.txt")
    assert runs["linear"].plot_graph(tmp_path / "line.svg").layers[1][0].name == "y"


def test_report_has_confusion_matrix_and_curves(runs: dict[str, Run]) -> None:
    drawn = {path.name for path in (runs["mlp"].folder / "report").iterdir()}
    assert drawn == {"confusion.png", "curves.png", "importance.png"}
