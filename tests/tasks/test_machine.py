"""Support vector machines on tables: parity with scikit-learn, files, votes, figures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saccade
from saccade.cli.main import run as command
from saccade.errors import ConfigError
from saccade.workflows import compare_models

KINDS = ("cat", "dog", "owl")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three classes on concentric rings, with a categorical column."""
    draw = np.random.default_rng(4)
    lines = ["x,y,side,kind"]
    for row in range(240):
        kind = row % 3
        angle, radius = draw.uniform(0, 6.28), 1 + kind + 0.45 * draw.normal()
        side = "left" if np.cos(angle) < 0 else "right"
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        lines.append(f"{x:.4f},{y:.4f},{side},{KINDS[kind]}")
    path = tmp_path_factory.mktemp("table") / "rings.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained_svm(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("runs") / "svm"
    call: dict[str, Any] = {"data": str(table), "target": "kind", "model": "svm"}
    return saccade.train("table", **call, set={"model.cost": 3.0}, out=out, progress=False)


def test_svm_equals_scikit_learn_on_held_out_rows(trained_svm: Any) -> None:
    svc = pytest.importorskip("sklearn.svm")
    train, test = trained_svm.split("train").rows, trained_svm.split("test").rows
    theirs = svc.SVC(C=3.0, gamma="scale", kernel="rbf").fit(train.features, train.target)
    expected = theirs.predict(test.features)
    votes = trained_svm.inspector.scorer.outputs(test.features)
    assert votes.argmax(1).tolist() == expected.tolist()
    scores = trained_svm.evaluate()
    assert scores["accuracy"] == pytest.approx(theirs.score(test.features, test.target))
    assert scores["accuracy"] > 0.7
    one_vs_one = svc.SVC(C=3.0, gamma="scale", decision_function_shape="ovo")
    f = one_vs_one.fit(train.features, train.target).decision_function(test.features)
    hinge_losses = []
    for column, (first, second) in enumerate([(0, 1), (0, 2), (1, 2)]):
        for row, truth in enumerate(test.target):
            if truth in (first, second):
                hinge_losses.append(max(0.0, 1 - (1 if truth == first else -1) * f[row, column]))
    assert scores["loss"] == pytest.approx(np.mean(hinge_losses), abs=2e-3)


def test_svm_reloads_identically_and_satisfies_its_invariants(
    trained_svm: Any, table: Path
) -> None:
    reloaded = saccade.load(trained_svm.folder)
    features = trained_svm.split("test").rows.features
    assert np.array_equal(
        reloaded.model.svm.decision_function(features),
        trained_svm.model.svm.decision_function(features),
    )
    assert reloaded.evaluate() == trained_svm.evaluate()
    verdicts = {result.invariant: result.verdict for result in reloaded.check(inputs=5)}
    assert verdicts.pop("export consistency") == "skipped"
    assert len(verdicts) == 2 and {*verdicts.values()} == {"passed"}
    assert reloaded.evaluate(data=str(table))["accuracy"] > 0.7


def test_svm_predicts_votes_and_no_probabilities(trained_svm: Any) -> None:
    (prediction,) = trained_svm.predict(["0.1,1.0,right"], n_best=3)
    assert (
        prediction.text == "cat"
        and prediction.votes["cat"] == 2
        and sum(prediction.votes.values()) == 3
    )
    assert prediction.probabilities is None and "probabilities" not in prediction.to_dict()
    assert [one.score for one in (prediction, *prediction.alternatives)] == sorted(
        prediction.votes.values(), reverse=True
    )
    assert [one.text for one in trained_svm.predict(["", "x,y,side,kind"])] == ["", "kind"]


def test_svm_report_draws_the_margin_of_two_inputs(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "moons"
    arguments = ["train", "table", "--model", "svm", "--set", "model.kernel=gaussian"]
    assert command([*arguments, "--set", "model.cost=10", "--out", str(out)]) == 0
    assert (out / "report" / "margin.png").stat().st_size > 5000
    assert (out / "report" / "confusion.png").exists()
    assert command(["evaluate", str(out), "--json"]) == 0
    assert command(["look", str(out), "--graph", "--save", str(tmp_path / "graph.png")]) == 2
    assert "expected a small tabular network" in " ".join(capsys.readouterr().err.split())


@pytest.fixture(scope="module")
def trained_svr(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("runs") / "svr"
    call: dict[str, Any] = {"data": str(table), "target": "x", "model": "svr"}
    changes = {"model.cost": 3.0, "model.epsilon": 0.2}
    return saccade.train("table", **call, set=changes, out=out, progress=False)


def test_svr_equals_scikit_learn_on_held_out_rows(trained_svr: Any) -> None:
    sklearn_svm = pytest.importorskip("sklearn.svm")
    train, test = trained_svr.split("train").rows, trained_svr.split("test").rows
    theirs = sklearn_svm.SVR(C=3.0, epsilon=0.2, gamma="scale").fit(train.features, train.target)
    expected = theirs.predict(test.features)
    column = trained_svr.preprocessor.target
    outputs = trained_svr.inspector.scorer.outputs(test.features)[:, 0]
    np.testing.assert_allclose(outputs, expected, atol=5e-3)
    scores = trained_svr.evaluate()
    errors = np.abs(expected - test.target)
    assert scores["rmse"] == pytest.approx(column.deviation * np.sqrt((errors**2).mean()), rel=1e-2)
    assert scores["loss"] == pytest.approx(np.maximum(errors - 0.2, 0).mean(), rel=2e-2)
    assert scores["r2"] > 0.5
    assert scores.conventions["loss"] == (
        "mean ε-insensitive loss of a row, in standard deviations of 'x'"
    )


def test_svr_reloads_identically_and_satisfies_its_invariants(
    trained_svr: Any, table: Path, capsys: Any
) -> None:
    reloaded = saccade.load(trained_svr.folder)
    features = trained_svr.split("test").rows.features
    assert np.array_equal(
        reloaded.model.svm.predict(features), trained_svr.model.svm.predict(features)
    )
    assert reloaded.evaluate() == trained_svr.evaluate()
    verdicts = {result.invariant: result.verdict for result in reloaded.check(inputs=5)}
    assert verdicts.pop("export consistency") == "skipped"
    assert len(verdicts) == 2 and {*verdicts.values()} == {"passed"}
    left, right = reloaded.predict(["1.0,left,owl", "1.0,right,owl"])
    assert left.value < 0 < right.value
    assert command(["train", "--resume", str(trained_svr.folder)]) == 0
    assert "the fit is complete" in " ".join(capsys.readouterr().err.split())
    assert (trained_svr.folder / "report" / "importance.png").exists()
    assert not (trained_svr.folder / "report" / "confusion.png").exists()


def test_svm_rejects_incompatible_settings(table: Path, tmp_path: Path) -> None:
    call: dict[str, Any] = {"data": str(table), "model": "svm", "out": tmp_path / "new"}
    with pytest.raises(
        ConfigError, match="got data.target_type='number' with svm, which predicts a class"
    ):
        saccade.train("table", target="x", set={"data.target_type": "number"}, **call)
    with pytest.raises(
        ConfigError, match="got train.loss, train.penalty or train.label_smoothing with svm"
    ):
        saccade.train("table", target="kind", set={"train.penalty": 0.1}, **call)
    with pytest.raises(
        ConfigError, match="got data.target_type='class' with svr, which predicts a number"
    ):
        saccade.train("table", set={"data.target_type": "class"}, **{**call, "model": "svr"})
    with pytest.raises(
        ConfigError, match=r"label_smoothing with svr, .*model\.cost · ε-insensitive"
    ):
        saccade.train("table", target="x", set={"train.loss": "huber"}, **{**call, "model": "svr"})
    with pytest.raises(ConfigError, match="svr minimises the ε-insensitive loss .* the RMSE of"):
        compare_models("table", models=["linear", "svr"])
    with pytest.raises(ConfigError, match="the model svm has no model.activation"):
        compare_models("activations", data="table", models=["svm"])
    with pytest.raises(
        ConfigError, match="svm is not trained by gradient descent, so train.init has no effect"
    ):
        compare_models("inits", data="table", models=["svm"])
    with pytest.raises(ConfigError, match="svm minimises the hinge loss and the others do not"):
        compare_models("table", models=["svm", "mlp"])
