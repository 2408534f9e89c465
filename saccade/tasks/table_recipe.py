"""The settings of a table's task, and a table made ready to be learned from."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from saccade.config import Config, flatten, override_settings
from saccade.data.synthetic.tables import SYNTHETIC_TABLES
from saccade.data.tables.csv import IntArray, Table, first_errors, pluralise, read_table, split_rows
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
from saccade.errors import ConfigError, DataError
from saccade.estimators.svm.svm import SVMConfig
from saccade.models.tabular import LinearRegressionConfig, MLPConfig, SoftmaxRegressionConfig
from saccade.optim import FULL_BATCH
from saccade.registry import lookup
from saccade.tasks.task import Choice, Progress, fingerprint_arrays
from saccade.training.config import TrainConfig

MODEL_TARGET_TYPES: dict[str, TargetType] = {
    "linear": "number",
    "softmax": "class",
    "svm": "class",
}  # the others say both
REGRESSION_LOSS_NAMES = ("absolute_error", "huber", "squared_error")
CLASSIFICATION_LOSS_NAMES = ("cross_entropy", "exponential", "hinge")
BINARY_LOSS_NAMES = ("exponential", "hinge")


class TableTrainConfig(TrainConfig):
    """How long, how fast, and what is made small."""

    loss: (
        Literal["absolute_error", "cross_entropy", "exponential", "hinge", "huber", "squared_error"]
        | None
    ) = None  # open: square for numbers, cross_entropy for classes
    penalty: float = Field(0.0, ge=0)  # λ of λ/2 ‖W‖²; biases have none
    online: bool = False  # each row is answered, then learned from, in the file's order, once


class TableRecipe(Config):
    """A table in, a column of it foretold."""

    task: Literal["table"] = "table"
    data: TableConfig = TableConfig()
    model: Annotated[
        LinearRegressionConfig | SoftmaxRegressionConfig | MLPConfig | SVMConfig,
        Field(discriminator="name"),
    ] = MLPConfig()
    train: TableTrainConfig = TableTrainConfig()


@dataclass
class PreparedTable:
    """The rows of a recipe on their three sides, and how the settings came about."""

    recipe: TableRecipe
    vocabulary: TableSchema
    rows: dict[str, EncodedRows]
    example: str  # a row that is not learned from, as people type it
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unknown_classes: list[str] = field(
        default_factory=list
    )  # complaints about classes of no weight

    def fingerprint(self) -> str:
        """A short hash of the rows to learn from."""
        train = self.rows["train"]
        weights = [] if train.weights is None else [train.weights]
        return fingerprint_arrays(train.features, train.target, *weights)


# --- preparing ------------------------------------------------------------------------------------


def load_table(config: TableConfig) -> Table:
    """Make or read it."""
    if (config.synthetic is None) == (config.path is None):
        raise ConfigError(
            "a recipe for a table needs data.synthetic (a table that is always there) or data.path (a "
            f"file), and not both; it has made={config.synthetic!r} and path={config.path!r}."
        )
    if config.path is not None:
        return read_table(config.path)
    return lookup(SYNTHETIC_TABLES, str(config.synthetic), "made table")()


def prepare_table(
    recipe: TableRecipe,
    on_progress: Progress,
    layout: TableSchema | None = None,
    auto_model: bool = False,
) -> PreparedTable:
    """Read the table, hold rows out, and learn what its columns mean from those that are left.

    With a `layout`, that of a run that is there is kept.
    """
    on_progress("reading the table", 0, 0)
    data = recipe.data
    whole = load_table(data)
    target = data.target or whole.target
    if target is None:
        raise ConfigError(
            f"which column of {whole.name} is to be foretold? Say --target NAME. It has: "
            f"{', '.join(whole.columns)}."
        )
    table = drop_missing_target(whole, target)
    notes = []
    if len(table) < len(whole):
        without = pluralise(len(whole) - len(table), "row")
        notes.append(f"{without} of {whole.name} without a {target!r} are left out.")
    target_type, why = _answer(recipe, table.columns[target])
    if layout is None:
        check_table(table, data, target, target_type)
    sides = _sides(table, recipe, layout)
    if layout is None:
        layout, more = fit_schema(table, sides["train"], data, target, target_type)
        notes += more
    rows = {side: layout.rows(table.take(some), side) for side, some in sides.items()}
    recipe, choices = _sized(recipe, layout, target, target_type, why)
    sizes = ", ".join(f"{len(some.lines):,} for {side}" for side, some in rows.items())
    if recipe.train.online:
        recipe, more_choices = _once(recipe, len(table))
        choices += more_choices
        sizes = "each answered before it is learned from, so none is held out"
    notes.insert(
        0, f"{table.name}: {len(layout.feature_names):,} inputs, {len(table):,} rows ({sizes})."
    )
    example = _typed(table.take(sides["test"][:1]), layout)
    return PreparedTable(recipe, layout, rows, example, choices, notes, _unseen(table, layout))


def _sides(table: Table, recipe: TableRecipe, layout: TableSchema | None) -> dict[str, IntArray]:
    """The rows of train, dev and test; online, each is all of them."""
    data = recipe.data
    if not recipe.train.online:
        return split_rows(table, data.dev_share, data.test_share, data.seed)
    if layout is None:
        raise ConfigError(
            "train.online goes on from a run, which says what the columns mean before the first "
            "row is answered: saccade train RUN --on FILE --online."
        )
    if not len(table):
        raise DataError(f"{table.name} has no row with a {layout.target.name!r}.")
    return dict.fromkeys(("train", "dev", "test"), np.arange(len(table)))


def _unseen(table: Table, layout: TableSchema) -> list[str]:
    """A complaint for each row of a class that the layout does not know."""
    target = layout.target
    if not isinstance(target, CategoricalColumn):
        return []
    cells = table.columns[target.name]
    strange = np.flatnonzero(target.codes(cells) < 0).tolist()
    known = ", ".join(target.values)
    return first_errors(
        [
            f"{table.where(row)}: {cells[row][:40]!r} is no {target.name!r} that was learned; they "
            f"are: {known}"
            for row in strange
        ]
    )


def rows_per_batch(recipe: TableRecipe, count: int) -> int:
    """Of so many rows, how many are in a batch."""
    size = -(-count // -(-count // recipe.train.batch_tokens))  # none is much smaller
    if getattr(recipe.model, "norm", "") == "batch":  # one row alone has no variance
        size = next(n for n in range(max(size, 2), count + 1) if count % n != 1)
    return size


ONLINE_EVALUATIONS = 20  # at the running score: so often it is kept


def _once(recipe: TableRecipe, count: int) -> tuple[TableRecipe, list[Choice]]:
    """As many steps as learn from every row once; more are refused."""
    given = flatten(recipe, exclude_unset=True)
    if recipe.train.optimizer == FULL_BATCH:
        raise ConfigError(
            f"train.optimizer is {FULL_BATCH}, whose every step takes all rows; online, take sgd."
        )
    batches = -(-count // rows_per_batch(recipe, count))
    limit = -(-batches // recipe.train.accumulate_steps)
    if given.get("train.steps", 0) > limit:
        raise ConfigError(
            f"train.steps is {recipe.train.steps}, and {pluralise(count, 'row')} are learned from "
            f"once, in {pluralise(limit, 'step')}: say {limit} or fewer."
        )
    steps = given.get("train.steps", limit)
    wanted = [
        Choice("train.steps", steps, f"{pluralise(count, 'row')}, each once"),
        Choice(
            "train.evaluate_every",
            max(1, steps // ONLINE_EVALUATIONS),
            "the running score, twenty times",
        ),
    ]
    choices = [choice for choice in wanted if choice.path not in given]
    return override_settings(recipe, {choice.path: choice.value for choice in choices}), choices


def _typed(table: Table, layout: TableSchema) -> str:
    """The first row, without the target and its weight."""
    apart = (layout.target.name, layout.weight_column)
    cells = [cells[0] for name, cells in table.columns.items() if name not in apart]
    written = io.StringIO()
    csv.writer(written, delimiter=layout.delimiter, lineterminator="").writerow(cells)
    text = written.getvalue()
    return f" {text}" if text.startswith("-") else text  # no option of a command line


def _answer(recipe: TableRecipe, cells: Sequence[str]) -> tuple[TargetType, str]:
    """What is to be said, and why."""
    model = recipe.model.name
    only, said = MODEL_TARGET_TYPES.get(model), recipe.data.target_type
    if only is not None and said is not None and only != said:
        raise ConfigError(
            f"{model} says a {only}, and data.target_type is {said!r}; mlp says both. Leave one out."
        )
    if only is not None:
        return only, f"{model} says nothing else"
    if said is not None:
        return said, ""
    found = infer_target_type(cells)
    different = len(set(cells))
    return found, f"{pluralise(different, 'different value')} in {pluralise(len(cells), 'row')}"


def _sized(
    recipe: TableRecipe, layout: TableSchema, target: str, target_type: TargetType, why: str
) -> tuple[TableRecipe, list[Choice]]:
    """The settings that follow from the data; a loss that does not fit is refused."""
    classes = len(layout.target.values) if isinstance(layout.target, CategoricalColumn) else 0
    model = recipe.model.model_dump(exclude_unset=True)
    if recipe.model.name != "svm":
        model["inputs"] = len(layout.feature_names)
    if recipe.model.name in ("softmax", "mlp"):
        model["outputs"] = classes or 1
    choices = []
    data = recipe.data.model_dump(exclude_unset=True) | {
        "target": target,
        "target_type": target_type,
    }
    if recipe.data.target_type is None:
        choices.append(Choice("data.target_type", target_type, why))
    train = recipe.train.model_dump(exclude_unset=True)
    if recipe.model.name == "svm":
        _check_machine(recipe.train)
        return recipe.with_values(data=data, model=model, train={**train, "loss": "hinge"}), choices
    if recipe.train.loss is None:
        train["loss"] = "cross_entropy" if classes else "squared_error"
        choices.append(Choice("train.loss", train["loss"], f"the answer is a {target_type}"))
    _check_loss(train["loss"], recipe.train.label_smoothing, classes)
    return recipe.with_values(data=data, model=model, train=train), choices


def _check_machine(train: TableTrainConfig) -> None:
    if train.loss not in (None, "hinge") or train.penalty or train.label_smoothing:
        raise ConfigError(
            "svm makes ½‖w‖² and model.cost times the hinge loss small; leave train.loss, "
            "train.penalty and train.label_smoothing out."
        )


def _check_loss(loss: str, label_smoothing: float, classes: int) -> None:
    fitting = CLASSIFICATION_LOSS_NAMES if classes else REGRESSION_LOSS_NAMES
    if loss not in fitting:
        what = f"{classes} classes" if classes else "numbers"
        raise ConfigError(f"train.loss is {loss!r}; for {what} take one of {', '.join(fitting)}.")
    if loss in BINARY_LOSS_NAMES and classes != 2:
        raise ConfigError(
            f"train.loss is {loss!r}, which is for two classes; there are {classes}: take "
            "cross_entropy."
        )
    if label_smoothing and loss != "cross_entropy":
        raise ConfigError(f"train.label_smoothing is for cross_entropy; train.loss is {loss!r}.")
