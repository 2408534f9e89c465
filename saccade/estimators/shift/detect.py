r"""Has the world moved, and how? Two tables, the source and the target, and the kind of shift.

Four questions, each with a p-value, at a quarter of the level each, so that all four together err
as seldom as the level says:

1. *columns*: does any column differ by itself? Kolmogorov–Smirnov for numbers, χ² for categories,
   corrected for their number (Holm 1979);
2. *domains*: can a model tell on rows it has not seen which table a row is from? Its AUC against
   those of random divisions (Lopez-Paz and Oquab 2017);
3. *labels*: do the classes come as often?
4. *answers*: does the same x still mean the same y? A model learned from one half of the source is
   held against the other half, weighted by β(x) = p(x) / q(x), and against the target. What is
   compared are 1[y = k] - p(k | x) of each class, and the surprise -log p(y | x) less its mean by
   the model's own word: both are 0 on average for a model that is right, whatever rows it is
   asked about, so that neither a wrong model nor a wrong β by itself makes a difference.

The decision, with *within* (do the columns differ inside of a class?) as the fifth:

    labels differ, within they do not  →  label: p(x | y) stands, p(y) moved
    else answers differ                →  concept: p(y | x) moved, and neither weights explain it
    else anything differs              →  covariate: p(y | x) stands, p(x) moved
    else                               →  none
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.logistic_regression import FloatArray, IntArray, LogisticModel, fit_logistic
from saccade.estimators.shift.importance_weights import (
    ImportanceWeights,
    effective_sample_size,
    fit_domain_classifier,
)
from saccade.metrics.two_samples import (
    AUCTestResult,
    TwoSampleResult,
    auc_permutation_test,
    categorical_two_sample_test,
    holm_correction,
    kolmogorov_smirnov_test,
)
from saccade.seeding import generator

TableColumns = Mapping[str, NDArray[Any]]
ShiftKind = Literal["none", "covariate", "label", "concept"]

MIN_SHIFT_ROWS = 40  # rows of each table; with fewer nothing could be said
MIN_SHIFT_CLASS_ROWS = 20
MAX_SHIFT_ROWS = 20_000  # of each table; more would show differences too small to matter
MAX_SHIFT_CATEGORIES = 30  # of a category; the rarer ones are one
MAX_QUADRATIC_COLUMNS = 10  # numbers whose squares and products a model gets as well


class ColumnShiftTest(NamedTuple):
    """One column in both tables."""

    name: str
    test: Literal["kolmogorov-smirnov", "chi-squared"]
    statistic: float
    p: float
    adjusted_p: float  # p, corrected for the number of columns


class ShiftLosses(NamedTuple):
    """-log p(y | x) of a model of the source, a row on average."""

    source: float  # its held-out half
    reweighted: float  # the same by β(x): what a covariate shift would make of it
    relabelled: float  # the same by p(y) / q(y): what a label shift would make of it
    target: float


class ShiftEvidence(NamedTuple):
    """What was found; what needs labels in both tables is None without."""

    columns: tuple[ColumnShiftTest, ...]
    domains: AUCTestResult
    labels: TwoSampleResult | None
    within: float | None  # p, corrected, of the column and class that differ most
    answers: float | None  # p, corrected, of the comparison that differs most
    losses: ShiftLosses | None
    effective_rows: float  # rows of the source that β leaves, of its held-out half


class DetectedShift(NamedTuple):
    """The kind of shift, in one word and in sentences, and what speaks for it."""

    kind: ShiftKind
    why: str
    evidence: ShiftEvidence


def detect_shift(
    source: TableColumns,
    target: TableColumns,
    source_labels: NDArray[Any] | None = None,
    target_labels: NDArray[Any] | None = None,
    *,
    level: float = 0.01,
    seed: int = 0,
) -> DetectedShift:
    """What kind of shift lies between two tables, named columns of numbers or of categories.

    `level` is how often a shift may be claimed where there is none. A column of numbers may have
    NaN where a value is missing. Labels are classes; without those of
    both tables a covariate shift cannot be told from the others, and is what `kind` then says.
    """
    sizes = _checked(source, target, source_labels, target_labels)
    source, source_labels = _some(source, source_labels, sizes[0], seed)
    target, target_labels = _some(target, target_labels, sizes[1], seed)
    x, u, plain = _features(source, target)
    # one half to learn from, the other to judge by
    (learned, held), (seen, unseen) = _halves(len(x), seed, 0), _halves(len(u), seed, 1)
    domains = fit_domain_classifier(x[learned], u[seen])
    told = auc_permutation_test(domains.log_ratio(x[held]), domains.log_ratio(u[unseen]), seed)
    beta = domains.weights(x[held]).values
    columns = tuple(compare_columns(source, target))
    evidence = ShiftEvidence(columns, told, None, None, None, None, effective_sample_size(beta))
    if source_labels is not None and target_labels is not None:
        both = np.concatenate([source_labels, target_labels])
        names, which = np.unique(both, return_inverse=True)
        here, there = np.split(which, [len(x)])
        model = _model(x, here, learned, held, len(names), plain)
        evidence = evidence._replace(
            labels=categorical_two_sample_test(here, there),
            within=_within(source, target, here, there),
            answers=_answers(model, (x[held], here[held]), (u, there), beta),
            losses=_losses(model, (x[held], here[held]), (u, there), beta),
        )
    kind = _decide(evidence, level / 4)
    return DetectedShift(kind, _why(kind, evidence, level / 4), evidence)


def fit_importance_weights(
    source: TableColumns, target: TableColumns, *, seed: int = 0
) -> ImportanceWeights:
    """β of each row of the source (`fitted.shift`), by what tells the two tables apart.

    It sees squares and products where `find_shift` does. Of long tables it learns from some rows,
    and weighs all.
    """
    sizes = _checked(source, target, None, None)
    x, u, _ = _features(source, target)
    some = [_rows_of(size, seed) for size in sizes]
    return fit_domain_classifier(x[some[0]], u[some[1]]).weights(x)


# --- the questions --------------------------------------------------------------------------------


def compare_columns(source: TableColumns, target: TableColumns) -> Iterator[ColumnShiftTest]:
    """Each column in both tables, by the test that fits what is in it."""
    found = [(name, *_column(values, target[name])) for name, values in source.items()]
    adjusted_p = holm_correction([tested.p for _, _, tested in found]).tolist()
    for (name, test, tested), p in zip(found, adjusted_p, strict=True):
        yield ColumnShiftTest(name, test, tested.statistic, tested.p, p)


def _column(
    here: NDArray[Any], there: NDArray[Any]
) -> tuple[Literal["kolmogorov-smirnov", "chi-squared"], TwoSampleResult]:
    if not (_is_number(here) and _is_number(there)):
        return "chi-squared", categorical_two_sample_test(here.astype(str), there.astype(str))
    a, b = (np.asarray(values, np.float64) for values in (here, there))
    gaps = np.isnan(a), np.isnan(b)
    if not (gaps[0].any() or gaps[1].any()):
        return "kolmogorov-smirnov", kolmogorov_smirnov_test(a, b)
    # two questions of one column: how often it is there, and what is there
    missing = categorical_two_sample_test(*gaps)
    if gaps[0].all() or gaps[1].all():
        return "chi-squared", missing
    values = kolmogorov_smirnov_test(a[~gaps[0]], b[~gaps[1]])
    p = min(2 * min(values.p, missing.p), 1.0)
    return "kolmogorov-smirnov", TwoSampleResult(values.statistic, p)


def _within(
    source: TableColumns, target: TableColumns, here: IntArray, there: IntArray
) -> float | None:
    """The smallest corrected p of all columns in all classes; None if no class has rows enough."""
    chances = []
    for k in np.unique(here).tolist():
        mine, theirs = here == k, there == k
        if min(mine.sum(), theirs.sum()) >= MIN_SHIFT_CLASS_ROWS:
            for name, values in source.items():
                chances.append(_column(values[mine], target[name][theirs])[1].p)
    return float(holm_correction(chances).min()) if chances else None


def _model(
    x: FloatArray, classes: IntArray, learned: IntArray, held: IntArray, size: int, plain: int
) -> LogisticModel:
    """Of one half of the source: with squares and products or without, as suits the other half."""
    models = []
    for width in sorted({plain, x.shape[1]}):
        linear = fit_logistic(x[learned, :width], classes[learned], size)
        rest = np.zeros((size, x.shape[1] - width))
        models.append(linear._replace(weights=np.hstack([linear.weights, rest])))
    return min(models, key=lambda model: _loss(model, x[held], classes[held]).mean())


def _loss(model: LogisticModel, inputs: FloatArray, classes: IntArray) -> FloatArray:
    return -model.predict_log_proba(inputs)[np.arange(len(inputs)), classes]


def _answers(
    model: LogisticModel,
    source: tuple[FloatArray, IntArray],
    target: tuple[FloatArray, IntArray],
    beta: FloatArray,
) -> float:
    """The smallest corrected p of all that is compared, by a z-test of the two means."""
    here, there = _residuals(model, *source), _residuals(model, *target)
    mean = beta @ here / beta.sum()
    spread = beta**2 @ (here - mean) ** 2 / beta.sum() ** 2 + there.var(axis=0) / len(there)
    apart = np.abs(mean - there.mean(axis=0))
    z = np.divide(apart, np.sqrt(spread), out=np.zeros_like(apart), where=spread > 0)
    return float(holm_correction([math.erfc(values / math.sqrt(2)) for values in z.tolist()]).min())


def _residuals(model: LogisticModel, inputs: FloatArray, classes: IntArray) -> FloatArray:
    """(N, K + 1): of each class, and of the surprise; with two classes the second's is enough."""
    logs = model.predict_log_proba(inputs)
    chances = np.exp(logs)
    first = 1 if chances.shape[1] == 2 else 0
    missed = (np.eye(chances.shape[1])[classes] - chances)[:, first:]
    surprise = (chances * logs).sum(axis=1) - logs[np.arange(len(logs)), classes]
    return np.column_stack([missed, surprise])


def _losses(
    model: LogisticModel,
    source: tuple[FloatArray, IntArray],
    target: tuple[FloatArray, IntArray],
    beta: FloatArray,
) -> ShiftLosses:
    (here, classes), (there, others) = source, target
    of_source, of_target = _loss(model, here, classes), _loss(model, there, others)
    size = len(model.biases)
    q, p = (np.bincount(part, minlength=size) / len(part) for part in (classes, others))
    relabel = np.divide(p, q, out=np.zeros(size), where=q > 0)[classes]
    return ShiftLosses(
        source=float(of_source.mean()),
        reweighted=float(beta @ of_source / beta.sum()),
        relabelled=float(relabel @ of_source / max(relabel.sum(), 1e-300)),
        target=float(of_target.mean()),
    )


# --- the decision ---------------------------------------------------------------------------------


def _decide(evidence: ShiftEvidence, level: float) -> ShiftKind:
    inputs = _inputs_differ(evidence, level)
    labels = evidence.labels is not None and evidence.labels.p < level
    within = evidence.within is not None and evidence.within < level
    answers = evidence.answers is not None and evidence.answers < level
    if labels and not within:
        return "label"
    if answers:
        return "concept"
    return "covariate" if inputs or labels else "none"


def _inputs_differ(evidence: ShiftEvidence, level: float) -> bool:
    columns = any(column.adjusted_p < level for column in evidence.columns)
    return columns or evidence.domains.p < level


def _why(kind: ShiftKind, evidence: ShiftEvidence, level: float) -> str:
    """A sentence for each thing that was found."""
    differ = [c for c in sorted(evidence.columns, key=lambda c: c.p) if c.adjusted_p < level]
    told = evidence.domains
    said = [
        f"Columns that differ: {', '.join(f'{c.name} (p {c.adjusted_p:.2g})' for c in differ[:5])}."
        if differ
        else "No column differs by itself.",
        f"Rows that were not seen are told apart with an AUC of {told.auc:.3f}; by chance it would "
        f"be {told.low:.3f} to {told.high:.3f}.",
    ]
    if evidence.labels and evidence.losses and evidence.answers is not None:
        losses = evidence.losses
        said += [
            f"The classes come in {'other' if evidence.labels.p < level else 'the same'} shares "
            f"(p {evidence.labels.p:.2g}).",
            f"A model of the source loses {losses.source:.3f} a row on its own held-out rows, "
            f"{losses.reweighted:.3f} if they are weighted as the target's inputs, "
            f"{losses.relabelled:.3f} as its classes, and {losses.target:.3f} on the target; "
            f"its answers are {'off' if evidence.answers < level else 'as right'} there "
            f"(p {evidence.answers:.2g}).",
        ]
    elif kind == "covariate":
        said.append("Without labels of both tables it may also be a shift of labels or of concept.")
    return " ".join(said)


# --- rows -----------------------------------------------------------------------------------------


def _is_number(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "fiu"


def _features(source: TableColumns, target: TableColumns) -> tuple[FloatArray, FloatArray, int]:
    """Both tables as numbers: standardised, categories as 0/1; then squares and products of a few.

    The third is how many there are without those.

    The logarithm of the ratio of two Gaussians is a sum of squares and products: with them, a
    change of spread or of correlation can be seen, which no single mean shows.
    """
    numbers, others = [], []
    for name, values in source.items():
        both = np.concatenate([values, target[name]])
        if _is_number(values) and _is_number(target[name]):
            column = both.astype(np.float64)
            gap = np.isnan(column)
            if np.isinf(column).any():
                raise ValueError(f"the column {name} has infinite numbers; wanted finite ones.")
            known = column[: len(values)][~gap[: len(values)]]
            mean, spread = (known.mean(), known.std()) if len(known) else (0.0, 1.0)
            numbers.append(np.where(gap, 0.0, (column - mean) / (spread or 1.0)))
            others += [gap.astype(np.float64)] if gap.any() else []
        else:
            kinds, which, counts = np.unique(
                both.astype(str), return_inverse=True, return_counts=True
            )
            for k in np.argsort(-counts, kind="stable")[
                : min(MAX_SHIFT_CATEGORIES, len(kinds) - 1)
            ]:
                others.append((which == k).astype(np.float64))
    plain = [*numbers, *others] or [np.zeros(len(both))]
    few = numbers if len(numbers) <= MAX_QUADRATIC_COLUMNS else []
    products = [a * b for i, a in enumerate(few) for b in few[i:]]
    here, there = np.split(np.column_stack([*plain, *products]), [len(values)])
    return here, there, len(plain)


def _some(
    table: TableColumns, labels: NDArray[Any] | None, size: int, seed: int
) -> tuple[TableColumns, NDArray[Any] | None]:
    """A table, or as many of its rows as are looked at."""
    if size <= MAX_SHIFT_ROWS:
        return table, labels
    rows = _rows_of(size, seed)
    some = {name: values[rows] for name, values in table.items()}
    return some, None if labels is None else labels[rows]


def _rows_of(size: int, seed: int) -> IntArray:
    """As many as are looked at, in their order."""
    if size <= MAX_SHIFT_ROWS:
        return np.arange(size)
    return np.sort(generator(seed, "some rows").permutation(size)[:MAX_SHIFT_ROWS])


def _halves(size: int, seed: int, which: int) -> tuple[IntArray, IntArray]:
    order = generator(seed, "halves", which).permutation(size)
    return order[: size // 2], order[size // 2 :]


def _checked(
    source: TableColumns,
    target: TableColumns,
    source_labels: NDArray[Any] | None,
    target_labels: NDArray[Any] | None,
) -> tuple[int, int]:
    """How many rows each table has."""
    if not source or set(source) != set(target):
        only = sorted(set(source) ^ set(target))
        raise ValueError(
            f"got the columns {sorted(source)} and {sorted(target)}; wanted the same in both"
            + (f": drop or add {', '.join(only)}." if only else ", one at least.")
        )
    sizes = []
    for what, table, labels in (
        ("source", source, source_labels),
        ("target", target, target_labels),
    ):
        lengths = {name: len(values) for name, values in table.items()}
        if labels is not None:
            lengths["labels"] = len(labels)
        if len(set(lengths.values())) != 1 or min(lengths.values()) < MIN_SHIFT_ROWS:
            raise ValueError(
                f"got {what} columns of these lengths: {lengths}; wanted all of one length, "
                f"{MIN_SHIFT_ROWS} rows or more."
            )
        sizes.append(next(iter(lengths.values())))
    return sizes[0], sizes[1]
