"""A support vector machine on a table: as scikit-learn's, kept and reopened, without chances."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saccade
from saccade.cli.main import run as command
from saccade.errors import ConfigError
from saccade.workflows import compare

KINDS = ("cat", "dog", "owl")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three kinds that lie in rings, with a column of words."""
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
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("runs") / "svm"
    call: dict[str, Any] = {"data": str(table), "target": "kind", "model": "svm"}
    return saccade.train("table", **call, set={"model.cost": 3.0}, out=out, progress=False)


def test_it_answers_as_scikit_learns_on_rows_held_out(trained: Any) -> None:
    svc = pytest.importorskip("sklearn.svm")
    train, test = trained.task.rows["train"], trained.task.rows["test"]
    theirs = svc.SVC(C=3.0, gamma="scale", kernel="rbf").fit(train.features, train.target)
    wanted = theirs.predict(test.features)
    assert trained.task.answers(test.features).argmax(1).tolist() == wanted.tolist()
    scores = trained.evaluate()
    assert scores["accuracy"] == pytest.approx(theirs.score(test.features, test.target))
    assert scores["accuracy"] > 0.7
    two = svc.SVC(C=3.0, gamma="scale", decision_function_shape="ovo")
    f = two.fit(train.features, train.target).decision_function(test.features)
    short = []
    for column, (first, second) in enumerate([(0, 1), (0, 2), (1, 2)]):
        for row, truth in enumerate(test.target):
            if truth in (first, second):
                short.append(max(0.0, 1 - (1 if truth == first else -1) * f[row, column]))
    assert scores["loss"] == pytest.approx(np.mean(short), abs=2e-3)


def test_saved_and_reopened_it_is_the_same_and_keeps_the_laws(trained: Any, table: Path) -> None:
    again = saccade.load(trained.folder)
    features = trained.task.rows["test"].features
    assert np.array_equal(
        again.task.machine.decision_function(features),
        trained.task.machine.decision_function(features),
    )
    assert again.evaluate() == trained.evaluate()
    verdicts = {finding.invariant: finding.verdict for finding in again.check(inputs=5)}
    assert verdicts.pop("exported equals original") == "skipped"
    assert len(verdicts) == 2 and {*verdicts.values()} == {"passed"}
    assert again.evaluate(data=str(table))["accuracy"] > 0.7


def test_votes_are_said_and_no_chances(trained: Any) -> None:
    (answer,) = trained.predict(["0.1,1.0,right"], n_best=3)
    assert answer.text == "cat" and answer.votes["cat"] == 2 and sum(answer.votes.values()) == 3
    assert not hasattr(answer, "probabilities")
    assert [one.score for one in (answer, *answer.alternatives)] == sorted(answer.votes.values())[
        ::-1
    ]
    assert [one.text for one in trained.predict(["", "x,y,side,kind"])] == ["", "kind"]


def test_the_command_draws_the_margin_of_two_inputs(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "moons"
    arguments = ["train", "table", "--model", "svm", "--set", "model.kernel=gaussian"]
    assert command([*arguments, "--set", "model.cost=10", "--out", str(out)]) == 0
    assert (out / "report" / "margin.png").stat().st_size > 5000
    assert (out / "report" / "confusion.png").exists()
    assert command(["evaluate", str(out), "--json"]) == 0
    assert command(["look", str(out), "--graph", "--save", str(tmp_path / "graph.png")]) == 2
    assert "a small network of a table has" in " ".join(capsys.readouterr().err.split())


def test_what_cannot_be_is_said(table: Path, tmp_path: Path) -> None:
    call: dict[str, Any] = {"data": str(table), "model": "svm", "out": tmp_path / "new"}
    with pytest.raises(ConfigError, match="svm says a class, and data.target_type is 'number'"):
        saccade.train("table", target="x", set={"data.target_type": "number"}, **call)
    with pytest.raises(
        ConfigError, match="leave train.loss, train.penalty and train.label_smoothing"
    ):
        saccade.train("table", target="kind", set={"train.penalty": 0.1}, **call)
    with pytest.raises(ConfigError, match="svm has no model.activation, so there is nothing"):
        compare("activations", data="table", models=["svm"])
    with pytest.raises(ConfigError, match="fits itself and takes no steps: train.init"):
        compare("inits", data="table", models=["svm"])
    with pytest.raises(ConfigError, match="svm makes the hinge loss small and the others do not"):
        compare("table", models=["svm", "mlp"])
