"""Alignment of two tables, and importance weights."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from saccade.data.tables.align import align_tables
from saccade.data.tables.csv import read_table, table_from_columns, write_table
from saccade.data.tables.schema import ColumnsConfig
from saccade.estimators.shift.detect import fit_importance_weights

PLAIN = ColumnsConfig()


def test_align_tables_gives_columns_one_type():
    a = table_from_columns(
        "a", {"n": [1, None, 3, 1], "c": ["x", "x", None, "x"], "y": [1, 0, 1, 0]}
    )
    b = table_from_columns("b", {"n": [None] * 4, "c": ["z"] * 4, "y": [1.0, 0.0, 0.0, 1.0]})
    pair = align_tables(a, b, ColumnsConfig(categories=("y",)))
    assert {name: v.dtype.kind for name, v in pair.source.columns.items()} == {
        "n": "f",
        "c": "U",
        "y": "U",
    }
    assert np.isnan(pair.target.columns["n"]).all()  # an empty column has the type of the other
    assert pair.source.columns["c"].tolist() == ["x", "x", "missing", "x"]


def test_align_tables_classes_ignore_the_number_format():
    a = table_from_columns("a", {"n": [3, 1, 2, 1] * 5, "y": ["1", "0", "1", "0"] * 5})
    b = table_from_columns("b", {"n": [3, 1, 2, 1] * 5, "y": ["1.0", "0.0", None, "1.0"] * 5})
    pair = align_tables(a, b, PLAIN, "y")
    assert set(pair.source.labels) == set(pair.target.labels) == {"0", "1"}
    assert pair.notes == ["5 rows of b without a 'y' are left out."]
    assert len(pair.target.table) == len(pair.target.columns["n"]) == 15


def test_align_tables_quartiles_are_those_of_the_source():
    a = table_from_columns("a", {"n": [3, 1] * 10, "y": [at + 0.5 for at in range(20)]})
    b = table_from_columns("b", {"n": [3, 1] * 10, "y": [-5.0] * 10 + [14.75] * 5 + [900.0] * 5})
    pair = align_tables(a, b, PLAIN, "y")
    low, middle, high = np.quantile(np.arange(20) + 0.5, [0.25, 0.5, 0.75])
    assert (
        pair.target.labels.tolist()
        == [f"up to {low:.4g}"] * 10
        + [f"{middle:.4g} to {high:.4g}"] * 5
        + [f"above {high:.4g}"] * 5
    )


def test_write_table_round_trip(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text('name;size\n"a;b";1,5\n"an ""x""";\nc;3\n')
    table = read_table(path)
    more = dataclasses.replace(table, columns={**table.columns, "weight": ["1", "0.5", "2"]})
    write_table(more, tmp_path / "new" / "b.csv")
    again = read_table(tmp_path / "new" / "b.csv")
    assert again.columns == more.columns and again.delimiter == ";"


def test_fit_importance_weights_matches_the_target_moments(monkeypatch: pytest.MonkeyPatch):
    random = np.random.default_rng(0)
    source = {"a": random.normal(0, 1, 3000), "c": random.choice(["x", "y"], 3000)}
    target = {
        "a": random.normal(0.7, 0.8, 2000),
        "c": random.choice(["x", "y"], 2000, p=[0.8, 0.2]),
    }
    found = fit_importance_weights(source, target)
    share = found.values / found.values.sum()
    assert share @ source["a"] == pytest.approx(target["a"].mean(), abs=0.06)
    spread = share @ (source["a"] - share @ source["a"]) ** 2
    assert spread == pytest.approx(0.64, abs=0.08)  # second moments match, too
    assert share @ (source["c"] == "x") == pytest.approx(0.8, abs=0.04)
    monkeypatch.setattr("saccade.estimators.shift.detect.MAX_SHIFT_ROWS", 1000)
    some = fit_importance_weights(source, target)
    assert len(some.values) == 3000 and np.corrcoef(some.values, found.values)[0, 1] > 0.95
