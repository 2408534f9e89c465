"""Diagnosis of distribution shift between a reference table and a current one.

Reports the kind of shift (`saccade.estimators.shift.detect`), the columns that give evidence for
it, and the next step.
"""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.records.base import ReadOptions
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
from saccade.inspection.figures import ColumnPair
from saccade.metrics.two_samples import AUCTestResult
from saccade.plots.shift import save_column_distributions
from saccade.plots.style import image_format
from saccade.types.arrays import FloatArray
from saccade.types.progress import Progress, ignore_progress

SHIFT_SIGNIFICANCE = 0.01  # probability of reporting a shift where there is none
MAX_SHIFT_PANELS = 6  # panels of the plot
MIN_EFFECTIVE_SHARE = 0.1  # effective share of rows below which weights do harm (docs/scores.md)

SHIFT_SUMMARIES: dict[ShiftKind, str] = {
    "none": "No shift: the two tables differ by no more than sampling noise.",
    "covariate": "Covariate shift: the inputs have changed; the labels given the inputs have not.",
    "label": "Label shift: the class shares have changed; the inputs of each class have not.",
    "concept": "Concept shift: the labels given the inputs have changed.",
}
UNLABELLED_SUMMARIES: dict[ShiftKind, str] = {
    "none": "The inputs have not shifted; without labels concept shift cannot be detected.",
    "covariate": "The inputs have shifted; without labels concept shift cannot be excluded.",
}


class ColumnComparison(NamedTuple):
    """Statistics of one column in both tables.

    `source` and `target` have mean, deviation and share missing of a numeric column, or the share
    of `value`, the category whose share changed most.
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
    """Share of a class in both tables, and its weight under label shift."""

    name: str
    source: float
    target: float
    weight: float | None  # p(y) / q(y); None if the source has no row of the class


class Diagnosis(NamedTuple):
    """Kind of shift, evidence, and the next step."""

    kind: ShiftKind
    summary: str
    reason: str
    rows: dict[str, int]  # number of rows compared, by file
    columns: list[ColumnComparison]  # the most different first
    domains: AUCTestResult
    classes: list[ClassShift]  # empty without labels
    p_values: dict[str, float | None]  # of labels, within and answers
    losses: ShiftLosses | None
    effective_share: float | None  # effective sample size by rows; None if weights do not help
    next_step: str
    commands: list[str]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis for JSON."""
        return {
            **self._asdict(),
            "columns": [column._asdict() for column in self.columns],
            "domains": self.domains._asdict(),
            "classes": [shift._asdict() for shift in self.classes],
            "losses": None if self.losses is None else self.losses._asdict(),
        }


def compare_tables(
    source: str | Path,
    target: str | Path,
    *,
    label_column: str | None = None,
    columns: ColumnsConfig | None = None,
    options: ReadOptions | None = None,
    save: Path | None = None,
    save_weights: Path | None = None,
    on_progress: Progress = ignore_progress,
) -> Diagnosis:
    """Compare the table that a model was trained on (source) with current data (target).

    Args:
        source: reference table.
        target: current table.
        label_column: column of labels; numeric labels are binned into classes.
        columns: which columns to ignore or to treat as categories.
        options: how the files are read.
        save: image of the most different columns.
        save_weights: file for the source with a column of importance weights, if they help.
        on_progress: receives the name of each part of the work.
    """
    _check_outputs(save, save_weights)
    on_progress("reading the tables", 0, None)
    pair = align_tables(
        read_table(source, options),
        read_table(target, options),
        columns or ColumnsConfig(),
        label_column,
    )
    for side in (pair.source, pair.target):
        if len(side.table) < MIN_SHIFT_ROWS:
            raise DataError(
                f"{side.table.name}: got {pluralise(len(side.table), 'row')} that can be compared; "
                f"expected {MIN_SHIFT_ROWS} or more to detect a shift."
            )
    on_progress("testing for shift", 0, None)
    detected = detect_shift(
        pair.source.columns,
        pair.target.columns,
        pair.source.labels,
        pair.target.labels,
        level=SHIFT_SIGNIFICANCE,
    )
    on_progress("fitting importance weights", 0, None)
    weights = _importance_weights(detected.kind, pair)
    diagnosis = _diagnose(detected, pair, weights)
    notes = list(pair.notes)
    if save is not None:
        notes += _plot_columns(diagnosis, pair, save)
    weight_column = None
    if save_weights is not None and weights is not None:
        weight_column = _write_weights(pair.source.table, weights, save_weights)
        notes.append(f"The weights are in the column {weight_column!r} of {save_weights}.")
    elif save_weights is not None:
        notes.append(f"Weights would not help, so {save_weights} was not written.")
    next_step, commands = _advice(
        diagnosis, (str(source), str(target)), label_column, weight_column, save_weights
    )
    return diagnosis._replace(next_step=next_step, commands=commands, notes=notes)


def _check_outputs(save: Path | None, save_weights: Path | None) -> None:
    """Refuse output files that cannot be written, before anything is computed."""
    try:
        if save is not None:
            image_format(save)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if save_weights is not None and save_weights.exists():
        raise ConfigError(f"{save_weights} already exists; choose a new file for the weights.")


# --- evidence -------------------------------------------------------------------------------------


def _diagnose(detected: DetectedShift, pair: TablePair, weights: FloatArray | None) -> Diagnosis:
    """Return the diagnosis without the next step."""
    evidence = detected.evidence
    ordered = sorted(evidence.columns, key=lambda column: (column.p, -column.statistic))
    labelled = pair.source.labels is not None
    return Diagnosis(
        kind=detected.kind,
        summary=(SHIFT_SUMMARIES if labelled else UNLABELLED_SUMMARIES)[detected.kind],
        reason=detected.why,
        rows={side.table.name: len(side.table) for side in (pair.source, pair.target)},
        columns=[_compare_column(column, pair) for column in ordered],
        domains=evidence.domains,
        classes=_class_shifts(pair),
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


def _compare_column(column: ColumnShiftTest, pair: TablePair) -> ColumnComparison:
    source, target = (side.columns[column.name] for side in (pair.source, pair.target))
    value = None
    if source.dtype.kind == "U":
        value = max(
            np.unique(np.concatenate([source, target])).tolist(),
            key=lambda category: abs(
                float(np.mean(source == category) - np.mean(target == category))
            ),
        )
    return ColumnComparison(
        column.name,
        column.test,
        column.statistic,
        column.adjusted_p,
        column.adjusted_p < SHIFT_SIGNIFICANCE / 4,  # detect_shift makes four tests
        value,
        _statistics(source, value),
        _statistics(target, value),
    )


def _statistics(values: NDArray[Any], value: str | None) -> dict[str, float | None]:
    if value is not None:
        return {"share": float(np.mean(values == value))}
    known = values[~np.isnan(values)]
    return {
        "mean": float(known.mean()) if len(known) else None,
        "deviation": float(known.std()) if len(known) else None,
        "missing": 1 - len(known) / len(values),
    }


def _class_shifts(pair: TablePair) -> list[ClassShift]:
    source, target = pair.source.labels, pair.target.labels
    if source is None or target is None:
        return []
    shifts = []
    for name in np.unique(np.concatenate([source, target])).tolist():
        q, p = float(np.mean(source == name)), float(np.mean(target == name))
        shifts.append(ClassShift(name, q, p, p / q if q else None))
    return shifts


# --- weights --------------------------------------------------------------------------------------


def _importance_weights(kind: ShiftKind, pair: TablePair) -> FloatArray | None:
    """Return a weight for each row of the source; None if weights do not help."""
    if kind == "covariate":
        return fit_importance_weights(pair.source.columns, pair.target.columns).values
    labels = pair.source.labels
    if kind != "label" or labels is None:
        return None
    class_weights = {shift.name: shift.weight for shift in _class_shifts(pair)}
    weights = np.array([class_weights[name] for name in labels.tolist()], np.float64)
    return weights if weights.any() else None  # no class of the source occurs in the target


def _write_weights(table: Table, weights: FloatArray, path: Path) -> str:
    """Write the table with a column of weights; return the name of the column."""
    name = "weight"
    while name in table.columns:
        name += "_"
    cells = [f"{weight:.6g}" for weight in weights.tolist()]
    write_table(replace(table, columns={**table.columns, name: cells}), path)
    return name


# --- next step ------------------------------------------------------------------------------------


def _advice(
    diagnosis: Diagnosis,
    files: tuple[str, str],
    label_column: str | None,
    weight_column: str | None,
    weights_file: Path | None,
) -> tuple[str, list[str]]:
    """Return the next step as a sentence, and the commands for it."""
    source, target = (shlex.quote(file) for file in files)
    column = shlex.quote(label_column or "COLUMN")
    repeat = f"saccade doctor --compare {source} {target} --target {column}"
    if not diagnosis.classes:
        return (
            f"Label some rows of {files[1]} ({MIN_SHIFT_ROWS} at least, better some hundreds), "
            "name the label column, and repeat."
        ), [repeat]
    if diagnosis.kind == "none":
        return "Nothing to do; repeat when there are more rows.", []
    finetune = f"saccade finetune RUN --data {target}"
    if diagnosis.kind == "concept":
        return (
            f"Weights do not help: fine-tune your model (RUN is its folder) on rows of {files[1]}."
        ), [finetune]
    new_classes = [shift.name for shift in diagnosis.classes if shift.weight is None]
    if new_classes:
        return (
            f"{files[0]} has no row of {', '.join(new_classes)}, which weights cannot make up "
            f"for: train on rows of {files[1]} as well."
        ), [finetune]
    share = diagnosis.effective_share or 0.0
    if share < MIN_EFFECTIVE_SHARE:
        return (
            f"With weights the effective sample size is {share:.0%} of the rows of {files[0]}, too "
            f"few to train on: fine-tune your model (RUN is its folder) on rows of {files[1]}."
        ), [finetune]
    ratio = "its density ratio" if diagnosis.kind == "covariate" else "p(y) / q(y) of its class"
    weighted = shlex.quote(str(weights_file or "weighted.csv"))
    name = shlex.quote(weight_column or "weight")
    train = f"saccade train table --data {weighted} --target {column}"
    commands = [f"{train} --weight {name}"]
    if weight_column is None:
        commands.insert(0, f"{repeat} --save-weights weighted.csv")
    return (
        f"Train on {files[0]} again, each row weighted by {ratio} in {files[1]}. The effective "
        f"sample size is {share:.0%} of its rows."
    ), commands


# --- plot -----------------------------------------------------------------------------------------


def _plot_columns(diagnosis: Diagnosis, pair: TablePair, path: Path) -> list[str]:
    """Plot the classes and the most different columns; return messages for the user."""
    panels = []
    source, target = pair.source.labels, pair.target.labels
    if source is not None and target is not None:
        caption = f"p {diagnosis.p_values['labels']:.2g}"
        panels.append(ColumnPair("classes", source, target, caption))
    for column in diagnosis.columns[: MAX_SHIFT_PANELS - len(panels)]:
        values = [side.columns[column.name] for side in (pair.source, pair.target)]
        panels.append(ColumnPair(column.name, values[0], values[1], f"p {column.p:.2g}"))
    names = pair.source.table.name, pair.target.table.name
    messages = save_column_distributions(panels, names, path)
    return [*messages, f"Wrote the most different columns to {path}."]
