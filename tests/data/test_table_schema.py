"""Column types, feature encoding and targets of tables."""

import json
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from saccade.data.synthetic.tables import SYNTHETIC_TABLES, generate_moons, generate_plane
from saccade.data.tables.csv import Table, table_from_columns
from saccade.data.tables.schema import (
    CategoricalColumn,
    NumericColumn,
    TableConfig,
    TableSchema,
    check_table,
    drop_missing_target,
    fit_categorical_column,
    fit_numeric_column,
    fit_schema,
    infer_target_type,
)
from saccade.errors import DataError, MissingPackageError

CARS: dict[str, list[Any]] = {
    "age": [1, 2, None, 4, 5, 9],
    "make": ["vw", "vw", "fiat", "fiat", "?", "lada"],
    "same": ["x"] * 6,
    "price": [10.0, 8.5, 9, 4, 3, 1],
}


def learned(
    columns: dict[str, list[Any]], target: str, train: int | None = None, **config: Any
) -> tuple[TableSchema, list[str]]:
    table = table_from_columns("cars", columns)
    rows = np.arange(train or len(table))
    settings = TableConfig(synthetic="x", **config)
    target_type = settings.target_type or infer_target_type(table.columns[target])
    check_table(table, settings, target, target_type)
    return fit_schema(table, rows, settings, target, target_type)


# --- features -------------------------------------------------------------------------------------


@given(arrays(np.float64, st.integers(2, 30), elements=st.floats(-1e6, 1e6, width=32)))
def test_numeric_column_standardises_and_inverts(values: np.ndarray) -> None:
    column = fit_numeric_column("x", [repr(float(value)) for value in values])
    inside = column.features([repr(float(value)) for value in values])[:, 0]
    spread = values.std()
    if spread > 1e-6 * (1 + np.abs(values).max()):
        np.testing.assert_allclose(inside, (values - values.mean()) / spread, atol=1e-9)
    np.testing.assert_allclose(column.inverse_transform(inside), values, rtol=1e-9, atol=1e-6)


def test_numeric_column_encodes_missing_values() -> None:
    column = fit_numeric_column("age", ["1", "3", "", "NA"])
    assert column == NumericColumn("age", 2.0, 1.0, True)
    assert column.feature_names == ["age", "age missing"]
    np.testing.assert_array_equal(
        column.features(["5", "?", "nan"]), [[3.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    )
    # without missing values in training there is no such feature: it is the mean
    assert fit_numeric_column("age", ["1", "3"]).features([""]).tolist() == [[0.0]]


def test_categorical_column_is_one_hot_with_missing_and_other() -> None:
    column = fit_categorical_column(
        "make", ["b", "a", "a", "b", "c", "", "10", "10", "9", "9"], min_count=2
    )
    assert column == CategoricalColumn("make", ("9", "10", "a", "b"), True, True, mode=0)
    assert column.feature_names == [
        "make=9",
        "make=10",
        "make=a",
        "make=b",
        "make missing",
        "make=other",
    ]
    features = column.features(["a", "c", "never", "?", "10"])
    assert features.argmax(1).tolist() == [2, 5, 5, 4, 1]
    assert features.sum(1).tolist() == [1] * 5
    # without rare categories in training there is no feature for unseen ones
    plain = fit_categorical_column("make", ["a", "b"], min_count=1)
    np.testing.assert_array_equal(plain.features(["b", "never", ""]), [[0, 1], [0, 0], [0, 0]])


def test_fit_schema_uses_training_rows_only() -> None:
    layout, notes = learned(CARS, "price", train=4)
    assert layout.columns[0] == NumericColumn("age", 7 / 3, float(np.std([1, 2, 4])), True)
    assert layout.columns[1] == CategoricalColumn("make", ("fiat", "vw"), mode=0)
    assert notes == ["The column 'same' has one value (x) and is left out."]
    assert layout.target == NumericColumn("price", 7.875, float(np.std([10, 8.5, 9, 4])))
    rows = layout.rows(table_from_columns("more", CARS))
    assert rows.features.shape == (6, len(layout.feature_names)) == (6, 4)
    np.testing.assert_allclose(rows.features[5], [(9 - 7 / 3) / np.std([1, 2, 4]), 0, 0, 0])
    np.testing.assert_allclose(layout.target.inverse_transform(rows.target), CARS["price"])


def test_table_schema_json_round_trip_is_exact() -> None:
    columns = {**CARS, "w": [1, 2, 3, 4, 5, 0.1]}
    layout, _ = learned(columns, "price", weight="w", ignore="same")
    again = TableSchema.from_json(json.loads(json.dumps(layout.to_json())))
    assert again == layout
    table = table_from_columns("cars", {**CARS, "w": [1] * 6})
    np.testing.assert_array_equal(again.rows(table).features, layout.rows(table).features)
    np.testing.assert_array_equal(layout.rows(table).weights, np.ones(6))


def test_fit_schema_drops_uninformative_columns_with_a_note() -> None:
    names = [f"person {at}" for at in range(6)]
    columns = {**CARS, "who": names, "empty": [None] * 6, "code": [7] * 6}
    layout, notes = learned(columns, "price")
    assert [column.name for column in layout.columns] == ["age", "make"]
    assert notes == [
        "The column 'same' has one value (x) and is left out.",
        "The column 'who' has no category with 2 rows or more and is left out.",
        "The column 'empty' is empty and is left out.",
        "The column 'code' has one value (7) and is left out.",
    ]
    with pytest.raises(
        DataError, match="got no usable input column for the target 'price'. The column 'same'"
    ):
        learned({"same": ["x"] * 6, "price": CARS["price"]}, "price")


def test_fit_schema_follows_categories_and_ignore() -> None:
    columns = {"zip": [1, 1, 2, 2, 3, 3], "n": [1, 2, 3, 4, 5, 6], "y": [1.5, 2, 3, 4, 5, 6]}
    layout, _ = learned(columns, "y", categories="zip", ignore=["n"])
    assert layout.columns == (CategoricalColumn("zip", ("1", "2", "3"), mode=0),)
    assert TableConfig(ignore="a, b").ignore == ("a", "b")


# --- targets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "target_type"),
    [
        (["yes", "no"] * 5, "class"),
        (["0", "1"] * 5, "class"),
        (["0", "1", ""] * 5, "class"),
        ([str(n) for n in range(10)] * 5, "class"),
        ([str(n) for n in range(11)] * 5, "number"),
        ([str(n) for n in range(8)], "number"),  # none repeats
        (["0.5", "1.5"] * 5, "number"),
    ],
)
def test_infer_target_type_of_text_and_integers(cells: list[str], target_type: str) -> None:
    assert infer_target_type(cells) == target_type


@pytest.mark.parametrize(
    ("changes", "target", "message"),
    [
        ({}, "prise", "got no column 'prise', the target. Did you mean 'price'"),
        ({}, "same", r"cars: the target 'same' has only one value \(x\); expected two or more"),
        ({"price": [None] * 6}, "price", "the target 'price' is missing in every row"),
        (
            {"id": list("abcdef")},
            "id",
            "'id' has 6 different values in 6 rows; expected classes that repeat",
        ),
        (
            {"age": [1, 2, 3, 4, "old", 6]},
            "price",
            r"line 5: got 'old' in the column 'age'; expected a number, as in 5 of 6",
        ),
        ({"price": [1, 2, 3, 4, "much", 6]}, "price", "line 5: got 'much' in the column 'price'"),
    ],
)
def test_check_table_rejects_unusable_targets_and_cells(
    changes: dict[str, Any], target: str, message: str
) -> None:
    table = replace(table_from_columns("cars", {**CARS, **changes}), unit="line")
    with pytest.raises(DataError, match=message):
        table = drop_missing_target(table, target)
        check_table(table, TableConfig(), target, infer_target_type(table.columns[target]))


def test_check_table_rejects_text_for_a_numeric_target() -> None:
    table = table_from_columns("cars", {name: cells * 2 for name, cells in CARS.items()})
    with pytest.raises(
        DataError, match=r"got text in the target 'make' \('vw'\); expected a number"
    ):
        check_table(table, TableConfig(), "make", "number")
    check_table(table, TableConfig(), "make", "class")


def test_check_table_lists_all_errors() -> None:
    bad = {**CARS, "age": [1, 2, 3, 4, "x", 6], "w": [1, 1, -1, "b", None, 1]}
    table = replace(table_from_columns("cars", bad), unit="line")
    config = TableConfig(weight="w", ignore="sam", categories=("mkae",))
    with pytest.raises(DataError) as caught:
        check_table(table, config, "same", "class")
    error = str(caught.value)
    assert error.startswith("cars cannot be used as it is:\n  - no column 'sam'")
    for part in (
        "no column 'sam' (data.ignore). Did you mean 'same'?",
        "no column 'mkae' (data.categories). Did you mean 'make'?",
        "line 5: got 'x' in the column 'age'; expected a number, as in 5 of 6 rows",
        "correct these cells, or try --set data.categories=age",
        "the target 'same' has only one value (x)",
        "line 3: got '-1' in the column 'w'; expected a weight of 0 or more",
        "line 4: got 'b'",
        "line 5: got ''",
    ):
        assert part in error


# --- rows as text ---------------------------------------------------------------------------------


@pytest.fixture
def layout() -> TableSchema:
    return learned(CARS, "price", train=4)[0]


@pytest.mark.parametrize(
    "row",
    ["3,vw", "3;vw", "3\tvw", "3,vw,x", "3, vw ,x,12.5", {"age": 3, "make": "vw"}],
)
def test_schema_cells_accept_several_formats(row: Any, layout: TableSchema) -> None:
    found = layout.cells(row, 1)
    assert (found["age"], found["make"]) == ("3", "vw")


def test_schema_cells_reject_wrong_lengths_and_names(layout: TableSchema) -> None:
    with pytest.raises(
        DataError, match="input 7: got 5 cells; expected 3, with ',' between: age,make"
    ):
        layout.cells("1,2,3,4,5", 7)
    with pytest.raises(DataError, match="input 2: got a row that cannot be parsed"):
        layout.cells('1,"2', 2)
    with pytest.raises(
        DataError, match="(?s)no column 'mak'. Did you mean 'make'.*no value for 'make'"
    ):
        layout.cells({"age": 1, "mak": "vw"}, 1)
    assert layout.cells({"age": None, "make": "vw", "price": 3}, 1)["age"] == ""
    assert layout.is_header("age,make,same") and not layout.is_header("1,vw,x")


def test_schema_rows_match_columns_by_name(layout: TableSchema) -> None:
    mixed = {name: CARS[name] for name in ("price", "make", "age")}
    rows = layout.rows(table_from_columns("mixed", mixed))
    np.testing.assert_array_equal(
        rows.features, layout.rows(table_from_columns("c", CARS)).features
    )
    with pytest.raises(DataError, match="mixed: no column 'age'. Did you mean 'aged'"):
        layout.rows(table_from_columns("mixed", {"aged": [1], "make": ["vw"], "price": [1]}))
    extreme = Table("far", {"age": ["1e40"], "make": [""], "price": ["1"]}, np.array([2]))
    with pytest.raises(
        DataError, match="far, line 2: got 1e40 in the column 'age'; expected a number near"
    ):
        layout.rows(extreme)


# --- built-in tables ------------------------------------------------------------------------------


def test_synthetic_tables_match_their_equations() -> None:
    columns = {name: np.array(cells, float) for name, cells in generate_plane(2000).columns.items()}
    table = np.column_stack([columns["a"], columns["b"], np.ones(2000)])
    found, *_ = np.linalg.lstsq(table, columns["y"], rcond=None)
    np.testing.assert_allclose(found, [2.0, -3.4, 4.2], atol=0.05)
    cells = generate_moons(2000, noise=0.0).columns
    x, y = (np.array(cells[name], float) for name in ("x", "y"))
    upper = np.array(cells["moon"]) == "upper"
    np.testing.assert_allclose(np.hypot(x, y)[upper], 1.0)
    np.testing.assert_allclose(np.hypot(x - 1, y - 0.5)[~upper], 1.0)
    assert (
        generate_moons().columns == generate_moons().columns and generate_moons().target == "moon"
    )


def test_sklearn_tables_without_sklearn_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(
        MissingPackageError, match=r"iris is a dataset of scikit-learn.*saccade\[tables\]"
    ):
        SYNTHETIC_TABLES["iris"]()


def test_load_sklearn_table_converts_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in of the same form: data, target, feature_names and perhaps target_names."""
    flowers = SimpleNamespace(
        data=np.array([[1.5, 2.0], [0.1, 3.0]]),
        target=np.array([1, 0]),
        feature_names=["length (cm)", "width (cm)"],
        target_names=np.array(["setosa", "virginica"]),
    )
    amounts = SimpleNamespace(**{**vars(flowers), "target": np.array([151.0, 75.0])})
    del amounts.target_names
    stand_in = ModuleType("sklearn")
    stand_in.datasets = SimpleNamespace(  # type: ignore[attr-defined]
        load_iris=lambda: flowers, load_diabetes=lambda scaled: amounts
    )
    monkeypatch.setitem(sys.modules, "sklearn", stand_in)
    assert SYNTHETIC_TABLES["iris"]().columns == {
        "length (cm)": ["1.5", "0.1"],
        "width (cm)": ["2.0", "3.0"],
        "target": ["virginica", "setosa"],
    }
    assert SYNTHETIC_TABLES["diabetes"]().columns["target"] == ["151.0", "75.0"]


@pytest.mark.parametrize(
    ("name", "rows", "columns", "target_type"),
    [
        ("iris", 150, 4, "class"),
        ("wine", 178, 13, "class"),
        ("breast_cancer", 569, 30, "class"),
        ("diabetes", 442, 10, "number"),
        ("digits", 1797, 64, "class"),
    ],
)
def test_sklearn_tables_have_their_published_sizes(
    name: str, rows: int, columns: int, target_type: str
) -> None:
    pytest.importorskip("sklearn")
    table = SYNTHETIC_TABLES[name]()
    assert (len(table), len(table.columns) - 1) == (rows, columns)
    assert infer_target_type(table.columns["target"]) == target_type
