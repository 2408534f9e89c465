"""What is wrong, and the one thing to do next.

So far of two tables, the one that was learned from and the one a model is asked about: which kind
of shift lies between them (`fitted.shift_kind`), what speaks for it by name, and what helps.
"""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.layout import ColumnsConfig
from saccade.data.tables import Table, counted, read_table, write_table
from saccade.data.two_tables import Pair, pair_tables
from saccade.errors import ConfigError, DataError
from saccade.fitted.shift import effective_size
from saccade.fitted.shift_kind import FEWEST, Column, Kind, Losses, Shift, find_shift, row_weights
from saccade.look.draw import format_of
from saccade.look.draw_shift import Both, save_both
from saccade.metrics.two_samples import Told

Floats = NDArray[np.float64]

LEVEL = 0.01  # how often a shift may be claimed where there is none
DRAWN = 6  # panels of a picture
LEAST_LEFT = 0.1  # of the rows: with fewer, weights have done harm (docs/scores.md)

WORDS: dict[Kind, str] = {
    "none": "No shift: the two tables differ by no more than chance makes them.",
    "covariate": "Covariate shift: other inputs come now, and they mean what they meant.",
    "label": "Label shift: the classes come in other shares, and each looks as it did.",
    "concept": "Concept shift: the same inputs mean something else now.",
}
UNLABELLED: dict[Kind, str] = {
    "none": "The inputs have not moved; of what they mean nothing is known without labels.",
    "covariate": "The inputs have moved; whether they mean what they meant only labels can say.",
}


class Compared(NamedTuple):
    """One column in both tables.

    `source` and `target` have mean, deviation and missing (a share) of numbers, or the share of
    `value`, the category that moved most.
    """

    name: str
    test: str
    statistic: float
    p: float  # corrected for the number of columns
    differs: bool
    value: str | None
    source: dict[str, float | None]
    target: dict[str, float | None]


class Class(NamedTuple):
    """How often a class comes, and what a row of it counts after a label shift."""

    name: str
    source: float
    target: float
    weight: float | None  # p(y) / q(y); None where the source has no row of it


class Diagnosis(NamedTuple):
    """The kind of shift, the evidence, and what to do."""

    kind: Kind
    words: str
    why: str
    rows: dict[str, int]  # compared, by file
    columns: list[Compared]  # what differs most stands first
    domains: Told
    classes: list[Class]  # none without labels
    chances: dict[str, float | None]  # p of labels, within and answers
    losses: Losses | None
    left: float | None  # the share of rows that weights leave, where weights are the remedy
    todo: str
    commands: list[str]
    notes: list[str]

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            **self._asdict(),
            "columns": [column._asdict() for column in self.columns],
            "domains": self.domains._asdict(),
            "classes": [each._asdict() for each in self.classes],
            "losses": None if self.losses is None else self.losses._asdict(),
        }


def compare_tables(
    source: str | Path,
    target: str | Path,
    *,
    asked: str | None = None,
    columns: ColumnsConfig | None = None,
    save: Path | None = None,
    save_weights: Path | None = None,
) -> Diagnosis:
    """Hold a file of rows to learn from (the source) against one of rows that come now.

    `asked` is the column of labels; of numbers it is cut into classes. `save` draws the columns
    that differ most, `save_weights` writes the source with a column of weights, if they help.
    """
    _check_places(save, save_weights)
    pair = pair_tables(read_table(source), read_table(target), columns or ColumnsConfig(), asked)
    for side in (pair.source, pair.target):
        if len(side.table) < FEWEST:
            raise DataError(
                f"{side.table.name} has {counted(len(side.table), 'row')} that can be compared; "
                f"{FEWEST} or more are needed to tell a shift from chance."
            )
    found = find_shift(
        pair.source.columns,
        pair.target.columns,
        pair.source.labels,
        pair.target.labels,
        level=LEVEL,
    )
    weights = _weights(found.kind, pair)
    diagnosis = _diagnosis(found, pair, weights)
    notes = list(pair.notes)
    if save is not None:
        notes += _draw(diagnosis, pair, save)
    written = None
    if save_weights is not None and weights is not None:
        written = _write_weights(pair.source.table, weights, save_weights)
        notes.append(f"The weights are in the column {written!r} of {save_weights}.")
    elif save_weights is not None:
        notes.append(f"Weights would not help, so {save_weights} was not written.")
    todo, commands = _advice(diagnosis, (str(source), str(target)), asked, written, save_weights)
    return diagnosis._replace(todo=todo, commands=commands, notes=notes)


def _check_places(save: Path | None, save_weights: Path | None) -> None:
    """Before anything is computed, whether what is to be written can be."""
    try:
        if save is not None:
            format_of(save)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if save_weights is not None and save_weights.exists():
        raise ConfigError(f"{save_weights} is there already; name a new file for the weights.")


# --- evidence -------------------------------------------------------------------------------------


def _diagnosis(found: Shift, pair: Pair, weights: Floats | None) -> Diagnosis:
    """All but the advice."""
    evidence = found.evidence
    ordered = sorted(evidence.columns, key=lambda column: (column.p, -column.statistic))
    known = pair.source.labels is not None
    return Diagnosis(
        kind=found.kind,
        words=WORDS[found.kind] if known else UNLABELLED[found.kind],
        why=found.why,
        rows={side.table.name: len(side.table) for side in (pair.source, pair.target)},
        columns=[_compared(column, pair) for column in ordered],
        domains=evidence.domains,
        classes=_classes(pair),
        chances={
            "labels": evidence.labels.p if evidence.labels else None,
            "within": evidence.within,
            "answers": evidence.answers,
        },
        losses=evidence.losses,
        left=None if weights is None else effective_size(weights) / len(weights),
        todo="",
        commands=[],
        notes=[],
    )


def _compared(column: Column, pair: Pair) -> Compared:
    here, there = (side.columns[column.name] for side in (pair.source, pair.target))
    value = None
    if here.dtype.kind == "U":
        value = max(
            np.unique(np.concatenate([here, there])).tolist(),
            key=lambda each: abs(float(np.mean(here == each) - np.mean(there == each))),
        )
    return Compared(
        column.name,
        column.test,
        column.statistic,
        column.adjusted,
        column.adjusted < LEVEL / 4,  # as find_shift asks each of its four questions
        value,
        _figures(here, value),
        _figures(there, value),
    )


def _figures(values: NDArray[Any], value: str | None) -> dict[str, float | None]:
    if value is not None:
        return {"share": float(np.mean(values == value))}
    known = values[~np.isnan(values)]
    return {
        "mean": float(known.mean()) if len(known) else None,
        "deviation": float(known.std()) if len(known) else None,
        "missing": 1 - len(known) / len(values),
    }


def _classes(pair: Pair) -> list[Class]:
    here, there = pair.source.labels, pair.target.labels
    if here is None or there is None:
        return []
    found = []
    for name in np.unique(np.concatenate([here, there])).tolist():
        q, p = float(np.mean(here == name)), float(np.mean(there == name))
        found.append(Class(name, q, p, p / q if q else None))
    return found


# --- weights --------------------------------------------------------------------------------------


def _weights(kind: Kind, pair: Pair) -> Floats | None:
    """Of each row of the source, where they are the remedy."""
    if kind == "covariate":
        return row_weights(pair.source.columns, pair.target.columns).each
    labels = pair.source.labels
    if kind != "label" or labels is None:
        return None
    each = {one.name: one.weight for one in _classes(pair)}
    weights = np.array([each[name] for name in labels.tolist()], np.float64)
    return weights if weights.any() else None  # no class of the source is left


def _write_weights(table: Table, weights: Floats, path: Path) -> str:
    """The table with one more column; its name is returned."""
    name = "weight"
    while name in table.columns:
        name += "_"
    cells = [f"{weight:.6g}" for weight in weights.tolist()]
    write_table(replace(table, columns={**table.columns, name: cells}), path)
    return name


# --- advice ---------------------------------------------------------------------------------------


def _advice(
    found: Diagnosis,
    files: tuple[str, str],
    asked: str | None,
    written: str | None,
    place: Path | None,
) -> tuple[str, list[str]]:
    """The one thing to do next, and how to type it."""
    source, target = (shlex.quote(file) for file in files)
    column = shlex.quote(asked or "COLUMN")
    again = f"saccade doctor --compare {source} {target} --target {column}"
    if not found.classes:
        return (
            f"Label some rows of {files[1]}, {FEWEST} at least and better some hundreds, name the "
            "column of the labels, and ask again."
        ), [again]
    if found.kind == "none":
        return "Nothing has to be done; ask again when more rows have come.", []
    go_on = f"saccade train RUN --on {target}"
    if found.kind == "concept":
        return (
            f"No weights help: go on training your model (its folder for RUN) with rows of "
            f"{files[1]}."
        ), [go_on]
    strange = [each.name for each in found.classes if each.weight is None]
    if strange:
        return (
            f"{files[0]} has no row of {', '.join(strange)}, which no weight can make up for: "
            f"learn from rows of {files[1]} as well."
        ), [go_on]
    if found.left is None or found.left < LEAST_LEFT:
        left = 0.0 if found.left is None else found.left
        return (
            f"Weights would leave {left:.0%} of the rows of {files[0]}, too little to learn from: "
            f"go on training your model (its folder for RUN) with rows of {files[1]}."
        ), [go_on]
    ratio = "how much likelier it is" if found.kind == "covariate" else "p(y) / q(y) of its class"
    train = "saccade train table --data {} --target {} --set data.weights={}"
    name = written or "weight"
    commands = [train.format(shlex.quote(str(place or "weighted.csv")), column, shlex.quote(name))]
    if written is None:
        commands.insert(0, f"{again} --save-weights weighted.csv")
    return (
        f"Learn from {files[0]} again, each row weighed by {ratio} in {files[1]}. The weights "
        f"leave as much as {found.left:.0%} of its rows."
    ), commands


# --- picture --------------------------------------------------------------------------------------


def _draw(found: Diagnosis, pair: Pair, path: Path) -> list[str]:
    """The classes, and the columns that differ most."""
    panels = []
    here, there = pair.source.labels, pair.target.labels
    if here is not None and there is not None:
        panels.append(Both("classes", here, there, f"p {found.chances['labels']:.2g}"))
    for column in found.columns[: DRAWN - len(panels)]:
        parts = [side.columns[column.name] for side in (pair.source, pair.target)]
        panels.append(Both(column.name, parts[0], parts[1], f"p {column.p:.2g}"))
    names = pair.source.table.name, pair.target.table.name
    said = save_both(panels, names, path)
    return [*said, f"The columns that differ most are drawn in {path}."]
