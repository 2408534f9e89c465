"""Contributions of the columns of a row, and importance of columns, for every tabular model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.cli.main import run as saccade
from saccade.data.tables.schema import CategoricalColumn, TableSchema
from saccade.errors import ConfigError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.explanation import Explanation
from saccade.runs.run import Run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.tabular.attributions import baseline_features, column_slices

MODELS = ("softmax", "mlp", "svm", "linear", "svr")
OF_NUMBERS = ("linear", "svr")
QUICK = {"train.steps": 30, "train.evaluate_every": 30, "train.batch_tokens": 200}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose class depends on size and colour; the noise column has no effect."""
    draw = np.random.default_rng(5)
    lines = ["size,colour,noise,kind,price"]
    for _ in range(240):
        size, noise = draw.normal(size=2)
        colour = ["red", "blue", "green"][int(draw.choice(3, p=[0.5, 0.3, 0.2]))]
        score = 2 * size + 2 * (colour == "blue") - 1
        lines.append(f"{size:.3f},{colour},{noise:.3f},{'yes' if score > 0 else 'no'},{score:.3f}")
    path = tmp_path_factory.mktemp("table") / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def runs(table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A short run of each model, which tests do not change."""
    root, found = tmp_path_factory.mktemp("runs"), {}
    for model in MODELS:
        target, other = ("price", "kind") if model in OF_NUMBERS else ("kind", "price")
        changes: dict[str, Any] = {"train.threads": 1, "data.target": target, "data.ignore": other}
        changes |= {} if model.startswith("sv") else {**QUICK, "train.learning_rate": 0.1}
        recipe = resolve_recipe("table", data=str(table), model=model, changes=changes).recipe
        found[model] = train_recipe(recipe, root / model, TrainOptions()).run
    return found


ROW = {"size": "1.5", "colour": "blue", "noise": "0.3"}


def features_of(run: Run, row: dict[str, str]) -> np.ndarray:
    return run.preprocessor.features({name: [cell] for name, cell in row.items()})


def test_baseline_row_has_means_and_frequent_categories(runs: dict[str, Run]) -> None:
    schema: TableSchema = runs["mlp"].preprocessor
    [colour] = [column for column in schema.columns if isinstance(column, CategoricalColumn)]
    assert colour.values[colour.mode] == "red"
    means = {column.name: str(getattr(column, "mean", "red")) for column in schema.columns}
    np.testing.assert_allclose(features_of(runs["mlp"], means)[0], baseline_features(schema))
    old = schema._replace(
        columns=tuple(c._replace(mode=-1) if c is colour else c for c in schema.columns)
    )
    assert not baseline_features(old).any()  # of a run that does not know the frequencies
    again = TableSchema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema


@pytest.mark.parametrize("model", ["softmax", "linear"])
def test_contributions_of_linear_models_are_their_terms(model: str, runs: dict[str, Run]) -> None:
    run = runs[model]
    found = run.explain(ROW).attribution
    weight = run.model.output.weight.detach().double().numpy()
    x, schema = features_of(run, ROW)[0], run.preprocessor
    if model == "softmax":
        chosen, other = (schema.target.values.index(c) for c in (found.output, found.against))
        terms = (weight[chosen] - weight[other]) * (x - baseline_features(schema))
    else:
        terms = weight[0] * (x - baseline_features(schema)) * schema.target.deviation
    expected = [terms[where].sum() for where in column_slices(schema)]
    assert found.method == "contributions"
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)
    assert found.residual == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("model", OF_NUMBERS)
def test_attributions_of_numbers_are_in_units_of_the_target(
    model: str, runs: dict[str, Run]
) -> None:
    found = runs[model].explain(ROW).attribution
    assert (found.output, found.unit, found.against) == ("price", "price", "")
    assert found.value == pytest.approx(runs[model].predict(ROW).value, abs=1e-2)


def test_integrated_gradients_of_a_network_add_up(runs: dict[str, Run]) -> None:
    found = runs["mlp"].explain(ROW).attribution
    assert found.method == "integrated_gradients" and found.unit == "log-odds"
    assert found.residual == pytest.approx(0, abs=0.02 * abs(found.value - found.base))
    assert found.output == "yes" and found.against == "no"
    by_name = dict(zip(found.parts, found.scores, strict=True))
    assert by_name["size"] > 0 and by_name["colour"] > 0
    assert abs(by_name["noise"]) < 0.3 * by_name["size"]
    probability = runs["mlp"].predict(ROW).probabilities["yes"]
    assert found.probability == pytest.approx(probability)
    assert found.value == pytest.approx(np.log(probability / (1 - probability)), rel=1e-3)


@pytest.mark.parametrize("model", ["mlp", "svm", "svr"])
def test_occlusion_replaces_one_column_by_the_baseline(model: str, runs: dict[str, Run]) -> None:
    run = runs[model]
    found = run.explain(ROW, method="occlusion").attribution
    schema: TableSchema = run.preprocessor
    means = {column.name: str(getattr(column, "mean", "red")) for column in schema.columns}
    whole = run.explain(ROW).attribution.value
    for name, score in zip(found.parts, found.scores, strict=True):
        answer = None if model in OF_NUMBERS else found.output
        without = run.explain(ROW | {name: means[name]}, answer=answer).attribution.value
        assert score == pytest.approx(whole - without, abs=1e-4)


def test_linear_svm_contributions_are_exact(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)
    changes = {"data.target": "kind", "data.ignore": "price", "model.kernel": "linear"}
    recipe = resolve_recipe("table", data=str(table), model="svm", changes=changes).recipe
    run = train_recipe(recipe, tmp_path / "svm", TrainOptions()).run
    assert run.inspector.attribution_methods == ("contributions", "occlusion")
    found = run.explain(ROW).attribution
    svm = run.model.svm
    weight = (svm.weights @ svm.vectors)[0]
    sign = 1.0 if found.output == "yes" else -1.0  # f is positive for the second class
    terms = sign * weight * (features_of(run, ROW)[0] - baseline_features(run.preprocessor))
    expected = [terms[where].sum() for where in column_slices(run.preprocessor)]
    np.testing.assert_allclose(found.scores, expected, atol=1e-9)
    assert found.residual == pytest.approx(0, abs=1e-9)
    assert (found.unit, found.probability) == ("decision function", None)


def test_attribution_of_another_class_has_the_opposite_sign(runs: dict[str, Run]) -> None:
    yes, no = (runs["mlp"].explain(ROW, answer=kind).attribution for kind in ("yes", "no"))
    np.testing.assert_allclose(yes.scores, -no.scores, atol=1e-5)
    with pytest.raises(ConfigError, match="no class 'maybe'"):
        runs["mlp"].explain(ROW, answer="maybe")
    with pytest.raises(ConfigError, match="attribution method of this model"):
        runs["mlp"].explain(ROW, method="contributions")


@pytest.mark.parametrize("model", MODELS)
def test_importance_finds_the_columns_that_matter(model: str, runs: dict[str, Run]) -> None:
    found = runs[model].importance().importance
    names = [found.names[row] for row in found.order()]
    assert names[0] == "size" and names[-1] == "noise"
    assert found.rows == len(runs[model].split("test"))
    metrics = runs[model].evaluate()
    expected = metrics["rmse" if model in OF_NUMBERS else "accuracy"]
    assert found.score == pytest.approx(expected)
    assert (runs[model].folder / "report" / "importance.png").exists()


def test_look_shows_columns_on_the_command_line(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(runs["mlp"].folder)
    line = "1.5,blue,0.3"
    assert saccade(["look", folder, line, "--save", str(tmp_path / "row.png")]) == 0
    out = capsys.readouterr().out
    assert "→ yes" in out and "size = 1.5" in out and "baseline: means" in out
    assert (tmp_path / "row.png").exists()
    assert saccade(["look", folder, "--importance", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["importance"][0]["column"] == "size" and value["metric"] == "accuracy"
    assert saccade(["look", folder, "--importance", "--save", str(tmp_path / "all.svg")]) == 0
    assert "size" in capsys.readouterr().out and (tmp_path / "all.svg").exists()
    assert saccade(["look", folder]) == 2
    message = capsys.readouterr().err
    assert f"saccade look {folder} ROW" in message and "--importance" in message
    assert isinstance(runs["mlp"].look(line), Explanation)


def test_explanations_and_importance_are_pictures_in_notebooks(runs: dict[str, Run]) -> None:
    for shown in (runs["softmax"].explain(ROW), runs["softmax"].importance()):
        assert shown._repr_png_().startswith(b"\x89PNG")
    assert repr(runs["softmax"].importance()).startswith("ColumnImportance(accuracy: size ")


def test_attributions_do_not_change_the_model(runs: dict[str, Run]) -> None:
    model = runs["mlp"].model
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    runs["mlp"].explain(ROW)
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
