"""The settings of a table's task, and a table made ready to be learned from."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from saccade.config import Config, flatten, set_paths
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
from saccade.data.tables import Indices, Table, counted, read_table, shortened, sides_of
from saccade.errors import ConfigError, DataError
from saccade.fitted.svm import SVMConfig
from saccade.lookup import pick
from saccade.models.tabular import LinearConfig, MLPConfig, SoftmaxConfig
from saccade.optim import WHOLE
from saccade.tasks.task import Choice, Progress, print_of
from saccade.training.settings import TrainConfig

ANSWERS: dict[str, Answer] = {
    "linear": "number",
    "softmax": "class",
    "svm": "class",
}  # the others say both
OF_NUMBERS = ("absolute", "huber", "square")
OF_CLASSES = ("cross_entropy", "exponential", "hinge")
OF_TWO = ("exponential", "hinge")


class TableTrainConfig(TrainConfig):
    """How long, how fast, and what is made small."""

    loss: Literal["absolute", "cross_entropy", "exponential", "hinge", "huber", "square"] | None = (
        None  # open: square for numbers, cross_entropy for classes
    )
    penalty: float = Field(0.0, ge=0)  # λ of λ/2 ‖W‖²; biases have none
    online: bool = False  # each row is answered, then learned from, in the file's order, once


class TableRecipe(Config):
    """A table in, a column of it foretold."""

    task: Literal["table"] = "table"
    data: TableConfig = TableConfig()
    model: Annotated[
        LinearConfig | SoftmaxConfig | MLPConfig | SVMConfig, Field(discriminator="name")
    ] = MLPConfig()
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
    unseen: list[str] = field(default_factory=list)  # complaints about classes of no weight

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
    sides = _sides(table, recipe, layout)
    if layout is None:
        layout, more = learn_layout(table, sides["train"], data, target, answer)
        notes += more
    rows = {side: layout.rows(table.take(some), side) for side, some in sides.items()}
    recipe, choices = _sized(recipe, layout, target, answer, why)
    sizes = ", ".join(f"{len(some.lines):,} for {side}" for side, some in rows.items())
    if recipe.train.online:
        recipe, more_choices = _once(recipe, len(table))
        choices += more_choices
        sizes = "each answered before it is learned from, so none is held out"
    notes.insert(0, f"{table.name}: {len(layout.places):,} inputs, {len(table):,} rows ({sizes}).")
    example = _typed(table.take(sides["test"][:1]), layout)
    return PreparedTable(recipe, layout, rows, example, choices, notes, _unseen(table, layout))


def _sides(table: Table, recipe: TableRecipe, layout: Layout | None) -> dict[str, Indices]:
    """The rows of train, dev and test; online, each is all of them."""
    data = recipe.data
    if not recipe.train.online:
        return sides_of(table, data.dev_share, data.test_share, data.seed)
    if layout is None:
        raise ConfigError(
            "train.online goes on from a run, which says what the columns mean before the first "
            "row is answered: saccade train RUN --on FILE --online."
        )
    if not len(table):
        raise DataError(f"{table.name} has no row with a {layout.target.name!r}.")
    return dict.fromkeys(("train", "dev", "test"), np.arange(len(table)))


def _unseen(table: Table, layout: Layout) -> list[str]:
    """A complaint for each row of a class that the layout does not know."""
    target = layout.target
    if not isinstance(target, Category):
        return []
    cells = table.columns[target.name]
    strange = np.flatnonzero(target.numbers(cells) < 0).tolist()
    known = ", ".join(target.values)
    return shortened(
        [
            f"{table.where(row)}: {cells[row][:40]!r} is no {target.name!r} that was learned; they "
            f"are: {known}"
            for row in strange
        ]
    )


def rows_together(recipe: TableRecipe, count: int) -> int:
    """Of so many rows, how many are in a batch."""
    size = -(-count // -(-count // recipe.train.batch_tokens))  # none is much smaller
    if getattr(recipe.model, "norm", "") == "batch":  # one row alone has no variance
        size = next(n for n in range(max(size, 2), count + 1) if count % n != 1)
    return size


LOOKS = 20  # at the running score: so often it is kept


def _once(recipe: TableRecipe, count: int) -> tuple[TableRecipe, list[Choice]]:
    """As many steps as learn from every row once; more are refused."""
    given = flatten(recipe, only_set=True)
    if recipe.train.optimizer == WHOLE:
        raise ConfigError(
            f"train.optimizer is {WHOLE}, whose every step takes all rows; online, take sgd."
        )
    batches = -(-count // rows_together(recipe, count))
    most = -(-batches // recipe.train.accumulate)
    if given.get("train.steps", 0) > most:
        raise ConfigError(
            f"train.steps is {recipe.train.steps}, and {counted(count, 'row')} are learned from "
            f"once, in {counted(most, 'step')}: say {most} or fewer."
        )
    steps = given.get("train.steps", most)
    wanted = [
        Choice("train.steps", steps, f"{counted(count, 'row')}, each once"),
        Choice("train.evaluate_every", max(1, steps // LOOKS), "the running score, twenty times"),
    ]
    choices = [choice for choice in wanted if choice.path not in given]
    return set_paths(recipe, {choice.path: choice.value for choice in choices}), choices


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
    model = recipe.model.model_dump(exclude_unset=True)
    if recipe.model.name != "svm":
        model["inputs"] = len(layout.places)
    if recipe.model.name in ("softmax", "mlp"):
        model["outputs"] = classes or 1
    choices = []
    data = recipe.data.model_dump(exclude_unset=True) | {"target": target, "answer": answer}
    if recipe.data.answer is None:
        choices.append(Choice("data.answer", answer, why))
    train = recipe.train.model_dump(exclude_unset=True)
    if recipe.model.name == "svm":
        _check_machine(recipe.train)
        return recipe.with_values(data=data, model=model, train={**train, "loss": "hinge"}), choices
    if recipe.train.loss is None:
        train["loss"] = "cross_entropy" if classes else "square"
        choices.append(Choice("train.loss", train["loss"], f"the answer is a {answer}"))
    _check_loss(train["loss"], recipe.train.smoothing, classes)
    return recipe.with_values(data=data, model=model, train=train), choices


def _check_machine(train: TableTrainConfig) -> None:
    if train.loss not in (None, "hinge") or train.penalty or train.smoothing:
        raise ConfigError(
            "svm makes ½‖w‖² and model.cost times the hinge loss small; leave train.loss, "
            "train.penalty and train.smoothing out."
        )


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
