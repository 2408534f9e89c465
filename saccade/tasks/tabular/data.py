"""A table, split into rows for training and held-out rows, with its schema fitted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.config import flatten, override_settings
from saccade.data.records.open import open_records
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.source import SyntheticSource, resolve_source
from saccade.data.split_keys import Division, dev_without_test, divide_table, hash_rows
from saccade.data.splits import SPLIT_NAMES
from saccade.data.synthetic.tables import SYNTHETIC_TABLES
from saccade.data.tables.csv import (
    Table,
    first_errors,
    join_row,
    pluralise,
    table_from_records,
)
from saccade.data.tables.schema import (
    CategoricalColumn,
    EncodedRows,
    TableConfig,
    TableSchema,
    TargetType,
    check_table,
    drop_missing_target,
    fit_schema,
    infer_target_type,
)
from saccade.data.task_records import open_task_records
from saccade.errors import ConfigError, DataError
from saccade.optim import FULL_BATCH
from saccade.tasks.base import (
    Choice,
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.tabular.config import SUPPORT_VECTOR_MODELS, TableRecipe
from saccade.types.arrays import FloatArray, IntArray

MODEL_TARGET_TYPES: dict[str, TargetType] = {  # mlp predicts both
    "linear": "number",
    "softmax": "class",
    "svm": "class",
    "svr": "number",
}
REGRESSION_LOSS_NAMES = ("absolute_error", "huber", "squared_error")
CLASSIFICATION_LOSS_NAMES = ("cross_entropy", "exponential", "hinge")
BINARY_LOSS_NAMES = ("exponential", "hinge")
MIN_STEPS, MAX_EPOCHS = 1000, 40  # limits of a training with a time budget
ONLINE_EVALUATIONS = 20  # evaluations of the running score


@dataclass(frozen=True, eq=False)
class TableSplit:
    """Encoded rows of a split."""

    rows: EncodedRows
    name: str  # of the split, for messages
    example: str = ""  # a row as users type it
    was_trained_on: bool = False  # online: no row is held out
    notes: tuple[str, ...] = ()  # categories and classes that training had not

    def __len__(self) -> int:
        return len(self.rows.lines)

    def spread(self, limit: int | None) -> IntArray:
        """Return at most `limit` row indices, evenly spread: a file may be sorted."""
        count = len(self)
        return evenly_spaced_rows(count, min(limit or count, count))


PreparedTable = PreparedData[TableRecipe, TableSchema, TableSplit]


def with_row_weights(split: TableSplit, weights: FloatArray | None) -> TableSplit:
    """Return the split with these row weights in place of those of the table."""
    if weights is not None:
        is_valid = np.isfinite(weights) & (weights >= 0)
        if len(weights) != len(split) or not is_valid.all() or not weights.any():
            raise ValueError(
                f"got {len(weights)} weights for {len(split)} rows; expected one of 0 or more for "
                "each, and not all 0."
            )
    return replace(split, rows=split.rows._replace(weights=weights))


class LoadedTable(NamedTuple):
    """A table, its settings with the column of each role, and the choices that were left open."""

    table: Table
    config: TableConfig
    choices: list[Choice]


def load_table(config: TableConfig) -> LoadedTable:
    """Generate or read the table."""
    source = resolve_source(config, SYNTHETIC_TABLES, what="table")
    if isinstance(source, SyntheticSource):
        table = source.generate()
        return LoadedTable(table, config.with_values(target=config.target or table.target), [])
    opened = open_task_records(source.name, config, "table")
    table = table_from_records(opened.records)
    return LoadedTable(table, config.with_values(**opened.columns), role_choices(opened.choices))


def prepare_table(recipe: TableRecipe, context: PrepareContext[TableSchema]) -> PreparedTable:
    """Read the table, hold rows out, and fit the schema to the others; a given one is kept."""
    context.on_progress("reading the table", 0, None)
    schema = context.preprocessor
    whole, data, choices = load_table(recipe.data)
    recipe = recipe.with_values(data=data.model_dump(exclude_unset=True))
    target = str(data.target)
    table = drop_missing_target(whole, target)
    notes = [f"{whole.name}: {note}." for note in whole.notes]
    if len(table) < len(whole):
        dropped = pluralise(len(whole) - len(table), "row")
        notes.append(f"{dropped} of {whole.name} without a {target!r} are dropped.")
    target_type, reason = _target_type(recipe, table.columns[target])
    if schema is None:
        check_table(table, data, target, target_type)
    online = recipe.train.online
    if online:
        _check_online(table, schema)
    given = {} if online else _given_tables(data, table, target)
    names = list(table.columns)
    kept = dev_without_test({name: hash_rows(part, 0, names) for name, part in given.items()})
    if kept.rows is not None:
        given["dev"] = given["dev"].take(kept.rows)
        notes += kept.notes
    division = None if online else _divide(table, data, target, target_type, given)
    indices = _all_rows(table) if division is None else division.rows()
    notes += [] if division is None else division.notes
    if schema is None:
        schema, more = fit_schema(table, indices["train"], data, target, target_type)
        notes += more
    parts = {name: given.get(name, table.take(rows)) for name, rows in indices.items()}
    example = _as_typed(parts["test"].take(np.arange(1)), schema)
    splits = {
        name: TableSplit(schema.rows(part, name), name, example, online)
        for name, part in parts.items()
    }
    recipe, more_choices = _with_sizes(recipe, schema, target, target_type, reason)
    choices += more_choices
    sizes = ", ".join(f"{len(split):,} for {name}" for name, split in splits.items())
    if online:
        recipe, more_choices = _with_online_steps(recipe, len(table))
        choices += more_choices
        sizes = "each predicted before it is trained on, so none is held out"
    elif recipe.train.minutes is not None and recipe.model_name not in SUPPORT_VECTOR_MODELS:
        recipe, more_choices = _with_step_limit(recipe, len(splits["train"]), recipe.train.minutes)
        choices += more_choices
    inputs = len(schema.feature_names)
    notes.insert(0, f"{table.name}: {inputs:,} inputs, {len(table):,} rows ({sizes}).")
    train = splits["train"].rows
    arrays = [train.features, train.target, *([] if train.weights is None else [train.weights])]
    return PreparedData(
        recipe,
        schema,
        splits,
        lambda: fingerprint_arrays(*arrays),
        choices,
        notes,
        incompatible=_unknown_classes(table, schema),
    )


def _divide(
    table: Table, data: TableConfig, target: str, target_type: TargetType, given: dict[str, Table]
) -> Division:
    """Divide the rows into train, dev and test."""
    classes = table.columns[target] if target_type == "class" else None
    return divide_table(table, data, data.seed, classes, given)


def _given_tables(data: TableConfig, table: Table, target: str) -> dict[str, Table]:
    """Read the held-out files that are given; their columns are those of the table."""
    given = {}
    for name in SPLIT_NAMES[1:]:
        if (path := getattr(data, name)) is not None:
            records = open_records(path, data)
            other = table_from_records(records)
            if not records.has_header and len(other.columns) == len(table.columns):
                cells = other.columns.values()
                other = replace(other, columns=dict(zip(table.columns, cells, strict=True)))
            if missing := [column for column in table.columns if column not in other.columns]:
                raise DataError(
                    f"{path}: got no column {missing[0]!r}; expected the columns of {table.name}: "
                    f"{', '.join(table.columns)}."
                )
            given[name] = drop_missing_target(other, target)
    return given


def _check_online(table: Table, schema: TableSchema | None) -> None:
    if schema is None:
        raise ConfigError(
            "got train.online without a trained run; expected a run, whose schema is known before "
            "the first row is predicted; try saccade finetune RUN --data FILE --online."
        )
    if not len(table):
        raise DataError(f"got no row with a {schema.target.name!r} in {table.name}.")


def _all_rows(table: Table) -> dict[str, IntArray]:
    """Return all rows for each split: online, no row is held out."""
    return dict.fromkeys(SPLIT_NAMES, np.arange(len(table)))


def _unknown_classes(table: Table, schema: TableSchema) -> list[str]:
    """Return a complaint for each row of a class that the schema does not have."""
    target = schema.target
    if not isinstance(target, CategoricalColumn):
        return []
    cells = table.columns[target.name]
    unknown = np.flatnonzero(target.codes(cells) < 0).tolist()
    known = ", ".join(target.values)
    return first_errors(
        [
            f"{table.where(row)}: got {cells[row][:40]!r} as {target.name!r}; expected one of the "
            f"trained classes: {known}"
            for row in unknown
        ]
    )


def rows_per_batch(recipe: TableRecipe, count: int) -> int:
    """Return how many of `count` rows are in a batch."""
    size = -(-count // -(-count // recipe.train.batch_tokens))  # no batch is much smaller
    if recipe.model.model_dump().get("norm") == "batch":  # a single row has no variance
        size = next(n for n in range(max(size, 2), count + 1) if count % n != 1)
    return size


def _with_online_steps(recipe: TableRecipe, count: int) -> tuple[TableRecipe, list[Choice]]:
    """Set the number of steps that train on every row once; refuse more."""
    given = flatten(recipe, exclude_unset=True)
    if recipe.train.optimizer == FULL_BATCH:
        raise ConfigError(
            f"got train.optimizer={FULL_BATCH}, whose every step takes all rows; expected a "
            "stochastic one for online training; try sgd."
        )
    batches = -(-count // rows_per_batch(recipe, count))
    limit = -(-batches // recipe.train.accumulate_steps)
    if given.get("train.steps", 0) > limit:
        raise ConfigError(
            f"got train.steps={recipe.train.steps}, but {pluralise(count, 'row')} are trained on "
            f"once, in {pluralise(limit, 'step')}; try {limit} or fewer."
        )
    steps = given.get("train.steps", limit)
    every = max(1, steps // ONLINE_EVALUATIONS)
    possible = [
        Choice("train.steps", steps, f"{pluralise(count, 'row')}, each once"),
        Choice("train.evaluate_every", every, "the running score, twenty times"),
    ]
    choices = [choice for choice in possible if choice.path not in given]
    return override_settings(recipe, {choice.path: choice.value for choice in choices}), choices


def _with_step_limit(
    recipe: TableRecipe, count: int, minutes: float
) -> tuple[TableRecipe, list[Choice]]:
    """Limit the steps of a time budget, unless they are given: more epochs would overfit."""
    if recipe.train.steps is not None:
        return recipe, []
    epoch = -(-count // rows_per_batch(recipe, count))
    steps = max(MIN_STEPS, MAX_EPOCHS * epoch)
    rows = pluralise(count, "row")
    reason = f"{steps / epoch:,.0f} epochs of {rows}, if {minutes:g} min are enough"
    choice = Choice("train.steps", steps, reason)
    return override_settings(recipe, {choice.path: steps}), [choice]


def _as_typed(table: Table, schema: TableSchema) -> str:
    """Return the first row as a user would type it, without target and weight."""
    excluded = (schema.target.name, schema.weight_column)
    cells = [cells[0] for name, cells in table.columns.items() if name not in excluded]
    text = join_row(cells, schema.delimiter)
    return f" {text}" if text.startswith("-") else text  # not an option of a command


def _target_type(recipe: TableRecipe, cells: Sequence[str]) -> tuple[TargetType, str]:
    """Return the type of the target, and the reason."""
    model = recipe.model_name
    only, given = MODEL_TARGET_TYPES.get(model), recipe.data.target_type
    if only is not None and given is not None and only != given:
        raise ConfigError(
            f"got data.target_type={given!r} with {model}, which predicts a {only}; try without "
            "one of them, or mlp, which predicts both."
        )
    if only is not None:
        return only, f"{model} predicts nothing else"
    if given is not None:
        return given, ""
    different = len(set(cells))
    reason = f"{pluralise(different, 'different value')} in {pluralise(len(cells), 'row')}"
    return infer_target_type(cells), reason


def _with_sizes(
    recipe: TableRecipe, schema: TableSchema, target: str, target_type: TargetType, reason: str
) -> tuple[TableRecipe, list[Choice]]:
    """Set the settings that follow from the data; refuse a loss that does not fit."""
    classes = len(schema.target.values) if isinstance(schema.target, CategoricalColumn) else 0
    model = recipe.model.model_dump(exclude_unset=True)
    fields = type(recipe.model).model_fields
    model |= {name: size for name, size in schema.model_sizes().items() if name in fields}
    choices = []
    chosen = {"target": target, "target_type": target_type}
    data = recipe.data.model_dump(exclude_unset=True) | chosen
    if recipe.data.target_type is None:
        choices.append(Choice("data.target_type", target_type, reason))
    train = recipe.train.model_dump(exclude_unset=True)
    if recipe.model_name in SUPPORT_VECTOR_MODELS:
        _check_support_vector_settings(recipe)
        train |= {"loss": "hinge"} if classes else {}
        return recipe.with_values(data=data, model=model, train=train), choices
    if recipe.train.loss is None:
        train["loss"] = "cross_entropy" if classes else "squared_error"
        choices.append(Choice("train.loss", train["loss"], f"the target is a {target_type}"))
    _check_loss(train["loss"], recipe.train.label_smoothing, classes)
    return recipe.with_values(data=data, model=model, train=train), choices


def _check_support_vector_settings(recipe: TableRecipe) -> None:
    own = "hinge" if recipe.model_name == "svm" else "ε-insensitive"
    train = recipe.train
    if train.loss not in (None, own) or train.penalty or train.label_smoothing:
        raise ConfigError(
            f"got train.loss, train.penalty or train.label_smoothing with {recipe.model_name}, "
            f"which minimises ½‖w‖² + model.cost · {own} loss; try without them."
        )


def _check_loss(loss: str, label_smoothing: float, classes: int) -> None:
    fitting = CLASSIFICATION_LOSS_NAMES if classes else REGRESSION_LOSS_NAMES
    if loss not in fitting:
        what = f"{classes} classes" if classes else "numbers"
        raise ConfigError(
            f"got train.loss={loss!r} for {what}; expected one of {', '.join(fitting)}."
        )
    if loss in BINARY_LOSS_NAMES and classes != 2:
        raise ConfigError(
            f"got train.loss={loss!r}, which is for two classes, with {classes} classes; try "
            "cross_entropy."
        )
    if label_smoothing and loss != "cross_entropy":
        raise ConfigError(
            f"got train.label_smoothing with train.loss={loss!r}; label smoothing is for "
            "cross_entropy; try without it."
        )


def load_table_split(
    recipe: TableRecipe, schema: TableSchema, data: str | Path | object
) -> TableSplit:
    """Read another table; columns are found by name, or by position if it has no header."""
    records = open_records(data, recipe.data)
    table = table_from_records(records)
    columns = table.columns
    if not records.has_header and len(columns) == len(schema.names):
        columns = dict(zip(schema.names, columns.values(), strict=True))
    renamed = {recipe.data.target: schema.target.name}  # another name of the target was given
    columns = {renamed.get(name, name): cells for name, cells in columns.items()}
    table = drop_missing_target(replace(table, columns=columns), schema.target.name)
    split = TableSplit(schema.rows(table), table.name)
    if not len(split):
        raise DataError(f"got no row with a {schema.target.name!r} in {table.name}.")
    return replace(split, notes=tuple(schema.unseen_counts(table.columns)))
