"""The settings of a table's task, and a table made ready to be learned from."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.layout import (
    Answer,
    Category,
    Layout,
    Rows,
    TableConfig,
    answer_of,
    check_table,
    learn_layout,
    with_target,
)
from saccade.data.made_tables import TABLES
from saccade.data.tables import Table, counted, read_table, sides_of
from saccade.errors import ConfigError
from saccade.lookup import pick
from saccade.models.tabular import LinearConfig, MLPConfig, SoftmaxConfig
from saccade.tasks.task import Choice, Progress, print_of
from saccade.training.settings import TrainConfig

ANSWERS: dict[str, Answer] = {"linear": "number", "softmax": "class"}  # the others say both
OF_NUMBERS = ("absolute", "huber", "square")
OF_CLASSES = ("cross_entropy", "exponential", "hinge")
OF_TWO = ("exponential", "hinge")


class TableTrainConfig(TrainConfig):
    """How long, how fast, and what is made small."""

    loss: Literal["absolute", "cross_entropy", "exponential", "hinge", "huber", "square"] | None = (
        None  # open: square for numbers, cross_entropy for classes
    )
    penalty: float = Field(0.0, ge=0)  # λ of λ/2 ‖W‖²; biases have none


class TableRecipe(Config):
    """A table in, a column of it foretold."""

    task: Literal["table"] = "table"
    data: TableConfig = TableConfig()
    model: Annotated[LinearConfig | SoftmaxConfig | MLPConfig, Field(discriminator="name")] = (
        MLPConfig()
    )
    train: TableTrainConfig = TableTrainConfig()


@dataclass
class PreparedTable:
    """The rows of a recipe on their three sides, and how the settings came about."""

    recipe: TableRecipe
    vocabulary: Layout
    rows: dict[str, Rows]
    example: str  # a row that is not learned from, as people type it
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self) -> str:
        """A short hash of the rows to learn from."""
        train = self.rows["train"]
        weights = [] if train.weights is None else [train.weights]
        return print_of(train.features, train.target, *weights)


# --- preparing ------------------------------------------------------------------------------------


def load_table(config: TableConfig) -> Table:
    """Make or read it."""
    if (config.made is None) == (config.path is None):
        raise ConfigError(
            "a recipe for a table needs data.made (a table that is always there) or data.path (a "
            f"file), and not both; it has made={config.made!r} and path={config.path!r}."
        )
    if config.path is not None:
        return read_table(config.path)
    return pick(TABLES, str(config.made), "made table")()


def prepare(
    recipe: TableRecipe, tell: Progress, layout: Layout | None = None, name_model: bool = False
) -> PreparedTable:
    """Read the table, hold rows out, and learn what its columns mean from those that are left.

    With a `layout`, that of a run that is there is kept.
    """
    tell("reading the table", 0, 0)
    data = recipe.data
    whole = load_table(data)
    target = data.target or whole.target
    if target is None:
        raise ConfigError(
            f"which column of {whole.name} is to be foretold? Say --target NAME. It has: "
            f"{', '.join(whole.columns)}."
        )
    table = with_target(whole, target)
    notes = []
    if len(table) < len(whole):
        without = counted(len(whole) - len(table), "row")
        notes.append(f"{without} of {whole.name} without a {target!r} are left out.")
    answer, why = _answer(recipe, table.columns[target])
    if layout is None:
        check_table(table, data, target, answer)
    sides = sides_of(table, data.dev_share, data.test_share, data.seed)
    if layout is None:
        layout, more = learn_layout(table, sides["train"], data, target, answer)
        notes += more
    rows = {side: layout.rows(table.take(some), side) for side, some in sides.items()}
    recipe, choices = _sized(recipe, layout, target, answer, why)
    sizes = ", ".join(f"{len(some.lines):,} for {side}" for side, some in rows.items())
    notes.insert(0, f"{table.name}: {len(layout.places):,} inputs, {len(table):,} rows ({sizes}).")
    example = _typed(table.take(sides["test"][:1]), layout)
    return PreparedTable(recipe, layout, rows, example, choices, notes)


def _typed(table: Table, layout: Layout) -> str:
    """The first row, without the target and its weight."""
    apart = (layout.target.name, layout.weights)
    cells = [cells[0] for name, cells in table.columns.items() if name not in apart]
    written = io.StringIO()
    csv.writer(written, delimiter=layout.mark, lineterminator="").writerow(cells)
    text = written.getvalue()
    return f" {text}" if text.startswith("-") else text  # no option of a command line


def _answer(recipe: TableRecipe, cells: Sequence[str]) -> tuple[Answer, str]:
    """What is to be said, and why."""
    model = recipe.model.name
    only, said = ANSWERS.get(model), recipe.data.answer
    if only is not None and said is not None and only != said:
        raise ConfigError(
            f"{model} says a {only}, and data.answer is {said!r}; mlp says both. Leave one out."
        )
    if only is not None:
        return only, f"{model} says nothing else"
    if said is not None:
        return said, ""
    found = answer_of(cells)
    different = len(set(cells))
    return found, f"{counted(different, 'different value')} in {counted(len(cells), 'row')}"


def _sized(
    recipe: TableRecipe, layout: Layout, target: str, answer: Answer, why: str
) -> tuple[TableRecipe, list[Choice]]:
    """The settings that follow from the data; a loss that does not fit is refused."""
    classes = len(layout.target.values) if isinstance(layout.target, Category) else 0
    model = recipe.model.model_dump(exclude_unset=True) | {"inputs": len(layout.places)}
    if recipe.model.name != "linear":
        model["outputs"] = classes or 1
    choices = []
    data = recipe.data.model_dump(exclude_unset=True) | {"target": target, "answer": answer}
    if recipe.data.answer is None:
        choices.append(Choice("data.answer", answer, why))
    train = recipe.train.model_dump(exclude_unset=True)
    if recipe.train.loss is None:
        train["loss"] = "cross_entropy" if classes else "square"
        choices.append(Choice("train.loss", train["loss"], f"the answer is a {answer}"))
    _check_loss(train["loss"], recipe.train.smoothing, classes)
    return recipe.with_values(data=data, model=model, train=train), choices


def _check_loss(loss: str, smoothing: float, classes: int) -> None:
    fitting = OF_CLASSES if classes else OF_NUMBERS
    if loss not in fitting:
        what = f"{classes} classes" if classes else "numbers"
        raise ConfigError(f"train.loss is {loss!r}; for {what} take one of {', '.join(fitting)}.")
    if loss in OF_TWO and classes != 2:
        raise ConfigError(
            f"train.loss is {loss!r}, which is for two classes; there are {classes}: take "
            "cross_entropy."
        )
    if smoothing and loss != "cross_entropy":
        raise ConfigError(f"train.smoothing is for cross_entropy; train.loss is {loss!r}.")
