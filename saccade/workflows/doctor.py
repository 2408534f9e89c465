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

from saccade.data.tables.align import TablePair, align_tables
from saccade.data.tables.csv import Table, pluralise, read_table, write_table
from saccade.data.tables.schema import ColumnsConfig
from saccade.errors import ConfigError, DataError
from saccade.estimators.shift.detect import (
    MIN_SHIFT_ROWS,
    ColumnShiftTest,
    DetectedShift,
    ShiftKind,
    ShiftLosses,
    detect_shift,
    fit_importance_weights,
)
from saccade.estimators.shift.importance_weights import effective_sample_size
from saccade.metrics.two_samples import AUCTestResult
from saccade.plots.attention import image_format
from saccade.plots.shift import ColumnPair, save_column_distributions

FloatArray = NDArray[np.float64]

SHIFT_SIGNIFICANCE = 0.01  # how often a shift may be claimed where there is none
MAX_SHIFT_PANELS = 6  # panels of a picture
MIN_EFFECTIVE_SHARE = 0.1  # of the rows: with fewer, weights have done harm (docs/scores.md)

SHIFT_SUMMARIES: dict[ShiftKind, str] = {
    "none": "No shift: the two tables differ by no more than chance makes them.",
    "covariate": "Covariate shift: other inputs come now, and they mean what they meant.",
    "label": "Label shift: the classes come in other shares, and each looks as it did.",
    "concept": "Concept shift: the same inputs mean something else now.",
}
UNLABELLED_SUMMARIES: dict[ShiftKind, str] = {
    "none": "The inputs have not moved; of what they mean nothing is known without labels.",
    "covariate": "The inputs have moved; whether they mean what they meant only labels can say.",
}


class ColumnComparison(NamedTuple):
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


class ClassShift(NamedTuple):
    """How often a class comes, and what a row of it counts after a label shift."""

    name: str
    source: float
    target: float
    weight: float | None  # p(y) / q(y); None where the source has no row of it


class Diagnosis(NamedTuple):
    """The kind of shift, the evidence, and what to do."""

    kind: ShiftKind
    summary: str
    reason: str
    rows: dict[str, int]  # compared, by file
    columns: list[ColumnComparison]  # what differs most stands first
    domains: AUCTestResult
    classes: list[ClassShift]  # none without labels
    p_values: dict[str, float | None]  # p of labels, within and answers
    losses: ShiftLosses | None
    effective_share: (
        float | None
    )  # the share of rows that weights leave, where weights are the remedy
    next_step: str
    commands: list[str]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
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
    label_column: str | None = None,
    columns: ColumnsConfig | None = None,
    save: Path | None = None,
    save_weights: Path | None = None,
) -> Diagnosis:
    """Hold a file of rows to learn from (the source) against one of rows that come now.

    `asked` is the column of labels; of numbers it is cut into classes. `save` draws the columns
    that differ most, `save_weights` writes the source with a column of weights, if they help.
    """
    _check_places(save, save_weights)
    pair = align_tables(
        read_table(source), read_table(target), columns or ColumnsConfig(), label_column
    )
    for side in (pair.source, pair.target):
        if len(side.table) < MIN_SHIFT_ROWS:
            raise DataError(
                f"{side.table.name} has {pluralise(len(side.table), 'row')} that can be compared; "
                f"{MIN_SHIFT_ROWS} or more are needed to tell a shift from chance."
            )
    found = detect_shift(
        pair.source.columns,
        pair.target.columns,
        pair.source.labels,
        pair.target.labels,
        level=SHIFT_SIGNIFICANCE,
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
    next_step, commands = _advice(
        diagnosis, (str(source), str(target)), label_column, written, save_weights
    )
    return diagnosis._replace(next_step=next_step, commands=commands, notes=notes)


def _check_places(save: Path | None, save_weights: Path | None) -> None:
    """Before anything is computed, whether what is to be written can be."""
    try:
        if save is not None:
            image_format(save)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if save_weights is not None and save_weights.exists():
        raise ConfigError(f"{save_weights} is there already; name a new file for the weights.")


# --- evidence -------------------------------------------------------------------------------------


def _diagnosis(found: DetectedShift, pair: TablePair, weights: FloatArray | None) -> Diagnosis:
    """All but the advice."""
    evidence = found.evidence
    ordered = sorted(evidence.columns, key=lambda column: (column.p, -column.statistic))
    known = pair.source.labels is not None
    return Diagnosis(
        kind=found.kind,
        summary=SHIFT_SUMMARIES[found.kind] if known else UNLABELLED_SUMMARIES[found.kind],
        reason=found.why,
        rows={side.table.name: len(side.table) for side in (pair.source, pair.target)},
        columns=[_compared(column, pair) for column in ordered],
        domains=evidence.domains,
        classes=_classes(pair),
        p_values={
            "labels": evidence.labels.p if evidence.labels else None,
            "within": evidence.within,
            "answers": evidence.answers,
        },
        losses=evidence.losses,
        effective_share=None if weights is None else effective_sample_size(weights) / len(weights),
        next_step="",
        commands=[],
        notes=[],
    )


def _compared(column: ColumnShiftTest, pair: TablePair) -> ColumnComparison:
    here, there = (side.columns[column.name] for side in (pair.source, pair.target))
    value = None
    if here.dtype.kind == "U":
        value = max(
            np.unique(np.concatenate([here, there])).tolist(),
            key=lambda each: abs(float(np.mean(here == each) - np.mean(there == each))),
        )
    return ColumnComparison(
        column.name,
        column.test,
        column.statistic,
        column.adjusted_p,
        column.adjusted_p < SHIFT_SIGNIFICANCE / 4,  # as find_shift asks each of its four questions
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


def _classes(pair: TablePair) -> list[ClassShift]:
    here, there = pair.source.labels, pair.target.labels
    if here is None or there is None:
        return []
    found = []
    for name in np.unique(np.concatenate([here, there])).tolist():
        q, p = float(np.mean(here == name)), float(np.mean(there == name))
        found.append(ClassShift(name, q, p, p / q if q else None))
    return found


# --- weights --------------------------------------------------------------------------------------


def _weights(kind: ShiftKind, pair: TablePair) -> FloatArray | None:
    """Of each row of the source, where they are the remedy."""
    if kind == "covariate":
        return fit_importance_weights(pair.source.columns, pair.target.columns).values
    labels = pair.source.labels
    if kind != "label" or labels is None:
        return None
    each = {one.name: one.weight for one in _classes(pair)}
    weights = np.array([each[name] for name in labels.tolist()], np.float64)
    return weights if weights.any() else None  # no class of the source is left


def _write_weights(table: Table, weights: FloatArray, path: Path) -> str:
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
    label_column: str | None,
    written: str | None,
    place: Path | None,
) -> tuple[str, list[str]]:
    """The one thing to do next, and how to type it."""
    source, target = (shlex.quote(file) for file in files)
    column = shlex.quote(label_column or "COLUMN")
    again = f"saccade doctor --compare {source} {target} --target {column}"
    if not found.classes:
        return (
            f"Label some rows of {files[1]}, {MIN_SHIFT_ROWS} at least and better some hundreds, name the "
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
    if found.effective_share is None or found.effective_share < MIN_EFFECTIVE_SHARE:
        effective_share = 0.0 if found.effective_share is None else found.effective_share
        return (
            f"Weights would leave {effective_share:.0%} of the rows of {files[0]}, too little to learn from: "
            f"go on training your model (its folder for RUN) with rows of {files[1]}."
        ), [go_on]
    ratio = "how much likelier it is" if found.kind == "covariate" else "p(y) / q(y) of its class"
    train = "saccade train table --data {} --target {} --set data.weight_column={}"
    name = written or "weight"
    commands = [train.format(shlex.quote(str(place or "weighted.csv")), column, shlex.quote(name))]
    if written is None:
        commands.insert(0, f"{again} --save-weights weighted.csv")
    return (
        f"Learn from {files[0]} again, each row weighed by {ratio} in {files[1]}. The weights "
        f"leave as much as {found.effective_share:.0%} of its rows."
    ), commands


# --- picture --------------------------------------------------------------------------------------


def _draw(found: Diagnosis, pair: TablePair, path: Path) -> list[str]:
    """The classes, and the columns that differ most."""
    panels = []
    here, there = pair.source.labels, pair.target.labels
    if here is not None and there is not None:
        panels.append(ColumnPair("classes", here, there, f"p {found.p_values['labels']:.2g}"))
    for column in found.columns[: MAX_SHIFT_PANELS - len(panels)]:
        parts = [side.columns[column.name] for side in (pair.source, pair.target)]
        panels.append(ColumnPair(column.name, parts[0], parts[1], f"p {column.p:.2g}"))
    names = pair.source.table.name, pair.target.table.name
    said = save_column_distributions(panels, names, path)
    return [*said, f"The columns that differ most are drawn in {path}."]
