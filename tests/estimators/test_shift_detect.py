"""Made shifts of every kind are found and named, and none is claimed where there is none."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from saccade.estimators.shift.detect import MAX_SHIFT_ROWS, compare_columns, detect_shift

PAGE = Path(__file__).parents[2] / "docs" / "shift.md"
ROWS = 400


def table(x, random):
    group = np.where(random.random(len(x)) < 0.3, "red", "blue")
    return {"age": x[:, 0], "height": x[:, 1], "noise": x[:, 2], "colour": group}


def by_answer(random, move=0.0, spread=1.0, turned=False, rows=ROWS):
    """p(y | x) from x, which may have moved; `turned`: the effect of one column is reversed."""
    x = random.normal(size=(rows, 3)) * spread
    x[:, 0] += move
    logit = (-2 if turned else 2) * x[:, 0] - x[:, 1]
    return table(x, random), (random.random(rows) < 1 / (1 + np.exp(-logit))).astype(int)


def by_class(random, share=0.5, rows=ROWS):
    """p(x | y) from y, which may come more or less often."""
    y = (random.random(rows) < share).astype(int)
    x = random.normal(size=(rows, 3)) + np.outer(y, [1.5, -1, 0])
    return table(x, random), y


def pair(kind, seed):
    random = np.random.default_rng(seed)
    return {
        "none": lambda: (by_answer(random), by_answer(random)),
        "covariate": lambda: (by_answer(random), by_answer(random, move=0.7)),
        "wider": lambda: (by_answer(random), by_answer(random, spread=1.5)),
        "label": lambda: (by_class(random), by_class(random, share=0.8)),
        "concept": lambda: (by_answer(random), by_answer(random, turned=True)),
    }[kind]()


@pytest.mark.parametrize("kind", ["none", "covariate", "wider", "label", "concept"])
def test_detect_shift_finds_kind_in_18_of_20(kind):
    found = []
    for seed in range(20):
        (source, here), (target, there) = pair(kind, seed)
        found.append(detect_shift(source, target, here, there).kind)
    expected_value = "covariate" if kind == "wider" else kind
    assert found.count(expected_value) >= 18, found


@pytest.mark.long
@pytest.mark.parametrize("kind", ["none", "covariate", "wider", "label", "concept"])
def test_detect_shift_finds_kind_in_19_of_20_of_many(kind):
    found = []
    for seed in range(1000, 1200):
        (source, here), (target, there) = pair(kind, seed)
        found.append(detect_shift(source, target, here, there).kind)
    print(f"\n{kind}: {dict(Counter(found))}")
    assert found.count("covariate" if kind == "wider" else kind) >= 190


def test_shift_docs_example_prints_documented_output(capsys):
    text = PAGE.read_text(encoding="utf-8")
    [(code, printed)] = re.findall(
        r"^```python\n(.*?)^```\n+```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == printed


def test_detect_shift_without_labels_reports_covariate():
    for kind, expected_value in (("none", "none"), ("covariate", "covariate"), ("concept", "none")):
        (source, _), (target, _) = pair(kind, 0)
        found = detect_shift(source, target)
        assert found.kind == expected_value
        assert found.evidence.labels is found.evidence.answers is found.evidence.losses is None
        assert ("Without labels" in found.why) == (expected_value == "covariate")


def test_detect_shift_finds_joint_shift():
    # the same columns, but they go together now
    random = np.random.default_rng(0)
    x, u = random.normal(size=(2, ROWS, 2))
    u[:, 1] = 0.9 * u[:, 0] + np.sqrt(1 - 0.81) * u[:, 1]
    found = detect_shift({"a": x[:, 0], "b": x[:, 1]}, {"a": u[:, 0], "b": u[:, 1]})
    assert all(column.adjusted_p > 0.05 for column in found.evidence.columns)
    assert found.evidence.domains.auc > 0.7 and found.kind == "covariate"
    assert found.evidence.domains.low < 0.5 < found.evidence.domains.high < 0.6


def test_detect_shift_explains_losses_and_auc():
    (source, here), (target, there) = pair("concept", 1)
    found = detect_shift(source, target, here, there)
    losses = found.evidence.losses
    assert losses.target > 1.3 * losses.reweighted > 0
    assert found.evidence.answers < 1e-3
    assert f"{losses.target:.3f} on the target" in found.why and "biased there" in found.why
    assert f"AUC of {found.evidence.domains.auc:.3f}" in found.why
    names = [(column.name, column.test) for column in found.evidence.columns]
    assert names[0] == ("age", "kolmogorov-smirnov") and names[3] == ("colour", "chi-squared")
    assert 1 < found.evidence.effective_rows <= ROWS / 2
    assert found == detect_shift(source, target, here, there)  # everything is seeded


def test_weights_make_the_loss_of_a_shift_that_they_explain():
    random = np.random.default_rng(0)
    source, here = by_answer(random, rows=4000)
    target, there = by_answer(random, move=1.5, rows=4000)
    losses = detect_shift(source, target, here, there).evidence.losses
    assert abs(losses.reweighted - losses.target) < 0.2 * abs(losses.source - losses.target)
    source, here = by_class(random, share=0.8, rows=4000)
    target, there = by_class(random, share=0.2, rows=4000)
    losses = detect_shift(source, target, here, there).evidence.losses
    assert abs(losses.relabelled - losses.target) < 0.2 * abs(losses.source - losses.target)


def test_detect_shift_finds_missing_values():
    (source, _), (target, _) = pair("none", 3)
    target["height"] = np.where(np.arange(ROWS) % 4 == 0, np.nan, target["height"])
    found = {column.name: column for column in compare_columns(source, target)}
    assert found["height"].adjusted_p < 1e-6 < 0.01 < found["age"].adjusted_p
    assert detect_shift(source, target).kind == "covariate"
    unchanged = {**target, "height": np.full(ROWS, np.nan)}
    assert detect_shift(source, unchanged).kind == "covariate"


def test_detect_shift_samples_long_tables():
    random = np.random.default_rng(0)
    rows = MAX_SHIFT_ROWS + 5000
    source, target = ({"a": random.normal(move, 1, rows)} for move in (0.0, 0.1))
    found = detect_shift(source, target, np.arange(rows) % 2, np.arange(rows) % 2)
    assert found.kind == "covariate" and found.evidence.effective_rows <= MAX_SHIFT_ROWS / 2


def test_shift_detect_refuses_invalid_input():
    (source, here), (target, there) = pair("none", 0)
    with pytest.raises(ValueError, match="try dropping or adding age"):
        detect_shift(source, {name: v for name, v in target.items() if name != "age"})
    with pytest.raises(ValueError, match="target columns of these lengths.*'labels': 399"):
        detect_shift(source, target, here, there[1:])
    with pytest.raises(ValueError, match="40 rows or more"):
        detect_shift({"a": np.ones(39)}, {"a": np.ones(40)})
    with pytest.raises(ValueError, match="infinite numbers in the column age"):
        detect_shift({**source, "age": np.full(ROWS, np.inf)}, target)
