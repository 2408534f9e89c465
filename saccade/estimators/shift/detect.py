r"""Detection of distribution shift between two tables (source and target), and of its kind.

Four tests, each at a quarter of the significance level (Bonferroni), so that the family-wise error
rate is at most the level:

1. *columns*: marginal distributions. Kolmogorov–Smirnov for numbers, χ² for categories, with
   Holm's correction (1979) for the number of columns;
2. *domains*: classifier two-sample test. The AUC, on held-out rows, of a classifier of source
   versus target rows, against random permutations (Lopez-Paz and Oquab 2017);
3. *labels*: χ² of the class frequencies;
4. *answers*: the conditional p(y | x). A model trained on half of the source is evaluated on the
   other half, weighted by β(x) = p(x) / q(x), and on the target. Compared are the residuals
   1[y = k] - p(k | x) of each class, and -log p(y | x) minus its expectation under the model: both
   have mean 0 for a correct model on any rows, so that neither a wrong model nor a wrong β alone
   causes a difference.

The decision, with *within* (columns compared within each class) as a fifth test:

    labels differ, within does not  →  label shift: p(x | y) is unchanged, p(y) differs
    else answers differ             →  concept shift: p(y | x) differs, weights do not explain it
    else anything differs           →  covariate shift: p(y | x) is unchanged, p(x) differs
    else                            →  none
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.logistic_regression import LogisticModel, fit_logistic
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
from saccade.types.arrays import FloatArray, IntArray

TableColumns = Mapping[str, NDArray[Any]]
ShiftKind = Literal["none", "covariate", "label", "concept"]
LabelledRows = tuple[FloatArray, IntArray]

MIN_SHIFT_ROWS = 40  # rows of each table; fewer have too little power
MIN_SHIFT_CLASS_ROWS = 20  # rows of a class in each table, for the test within classes
MAX_SHIFT_ROWS = 20_000  # of each table; more would detect differences too small to matter
MAX_SHIFT_CATEGORIES = 30  # indicator features per categorical column; rarer values have none
MAX_QUADRATIC_COLUMNS = 10  # with more numeric columns, squares and products are left out


class ColumnShiftTest(NamedTuple):
    """Two-sample test of one column."""

    name: str
    test: Literal["kolmogorov-smirnov", "chi-squared"]
    statistic: float
    p: float
    adjusted_p: float  # p, corrected for the number of columns


class ShiftLosses(NamedTuple):
    """Mean -log p(y | x) per row of a model trained on the source."""

    source: float  # on its held-out half
    reweighted: float  # the same weighted by β(x): expected under covariate shift
    relabelled: float  # the same weighted by p(y) / q(y): expected under label shift
    target: float


class ShiftEvidence(NamedTuple):
    """Test results; those that need labels of both tables are None without them."""

    columns: tuple[ColumnShiftTest, ...]
    domains: AUCTestResult
    labels: TwoSampleResult | None
    within: float | None  # smallest corrected p over columns and classes
    answers: float | None  # smallest corrected p over the comparisons of residuals
    losses: ShiftLosses | None
    effective_rows: float  # effective sample size of the held-out source rows under β


class DetectedShift(NamedTuple):
    """The kind of shift, an explanation in sentences, and the test results."""

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
    """Test for shift between two tables of named columns, numeric or categorical.

    `level` is the probability of a false alarm. NaN in a numeric column is a missing value. Labels
    are classes; without those of both tables the kinds cannot be distinguished, and any shift is
    reported as "covariate".
    """
    sizes = _check_tables(source, target, source_labels, target_labels)
    source, source_labels = _sample_table(source, source_labels, sizes[0], seed)
    target, target_labels = _sample_table(target, target_labels, sizes[1], seed)
    x, u, num_linear = _features(source, target)
    # one half of each table for training, the other for evaluation
    (x_train, x_test), (u_train, u_test) = _halves(len(x), seed, 0), _halves(len(u), seed, 1)
    classifier = fit_domain_classifier(x[x_train], u[u_train])
    domains = auc_permutation_test(
        classifier.log_ratio(x[x_test]), classifier.log_ratio(u[u_test]), seed
    )
    beta = classifier.weights(x[x_test]).values
    columns = tuple(compare_columns(source, target))
    evidence = ShiftEvidence(columns, domains, None, None, None, None, effective_sample_size(beta))
    if source_labels is not None and target_labels is not None:
        both = np.concatenate([source_labels, target_labels])
        names, class_ids = np.unique(both, return_inverse=True)
        x_classes, u_classes = np.split(class_ids, [len(x)])
        model = _fit_source_model(x, x_classes, x_train, x_test, len(names), num_linear)
        held_out, shifted = (x[x_test], x_classes[x_test]), (u, u_classes)
        evidence = evidence._replace(
            labels=categorical_two_sample_test(x_classes, u_classes),
            within=_within(source, target, x_classes, u_classes),
            answers=_answers(model, held_out, shifted, beta),
            losses=_losses(model, held_out, shifted, beta),
        )
    kind = _decide(evidence, level / 4)
    return DetectedShift(kind, _explanation(kind, evidence, level / 4), evidence)


def fit_importance_weights(
    source: TableColumns, target: TableColumns, *, seed: int = 0
) -> ImportanceWeights:
    """Return β of each row of the source, from a classifier of source versus target rows.

    It uses the features of `detect_shift`. With large tables it is fitted to a sample of the rows,
    and all are weighted.
    """
    sizes = _check_tables(source, target, None, None)
    x, u, _ = _features(source, target)
    x_sample, u_sample = (_sample_rows(size, seed) for size in sizes)
    return fit_domain_classifier(x[x_sample], u[u_sample]).weights(x)


# --- tests ----------------------------------------------------------------------------------------


def compare_columns(source: TableColumns, target: TableColumns) -> Iterator[ColumnShiftTest]:
    """Test each column for a difference between the tables, with Holm's correction."""
    results = [(name, *_test_column(values, target[name])) for name, values in source.items()]
    adjusted_p = holm_correction([result.p for _, _, result in results]).tolist()
    for (name, test, result), p in zip(results, adjusted_p, strict=True):
        yield ColumnShiftTest(name, test, result.statistic, result.p, p)


def _test_column(
    source: NDArray[Any], target: NDArray[Any]
) -> tuple[Literal["kolmogorov-smirnov", "chi-squared"], TwoSampleResult]:
    if not (_is_number(source) and _is_number(target)):
        return "chi-squared", categorical_two_sample_test(source.astype(str), target.astype(str))
    a, b = (np.asarray(values, np.float64) for values in (source, target))
    a_missing, b_missing = np.isnan(a), np.isnan(b)
    if not (a_missing.any() or b_missing.any()):
        return "kolmogorov-smirnov", kolmogorov_smirnov_test(a, b)
    # two tests of one column: how often a value is missing, and the values that are not
    missing = categorical_two_sample_test(a_missing, b_missing)
    if a_missing.all() or b_missing.all():
        return "chi-squared", missing
    values = kolmogorov_smirnov_test(a[~a_missing], b[~b_missing])
    p = min(2 * min(values.p, missing.p), 1.0)
    return "kolmogorov-smirnov", TwoSampleResult(values.statistic, p)


def _within(
    source: TableColumns, target: TableColumns, source_classes: IntArray, target_classes: IntArray
) -> float | None:
    """Return the smallest corrected p over columns and classes; None if all classes are small."""
    p_values = []
    for k in np.unique(source_classes).tolist():
        source_rows, target_rows = source_classes == k, target_classes == k
        if min(source_rows.sum(), target_rows.sum()) >= MIN_SHIFT_CLASS_ROWS:
            for name, values in source.items():
                p_values.append(_test_column(values[source_rows], target[name][target_rows])[1].p)
    return float(holm_correction(p_values).min()) if p_values else None


def _fit_source_model(
    x: FloatArray,
    classes: IntArray,
    train: IntArray,
    held_out: IntArray,
    num_classes: int,
    num_linear: int,
) -> LogisticModel:
    """Fit with and without quadratic features; return the model with the lower held-out loss."""
    models = []
    for width in sorted({num_linear, x.shape[1]}):
        linear = fit_logistic(x[train, :width], classes[train], num_classes)
        rest = np.zeros((num_classes, x.shape[1] - width))
        models.append(linear._replace(weights=np.hstack([linear.weights, rest])))
    return min(models, key=lambda model: _loss(model, x[held_out], classes[held_out]).mean())


def _loss(model: LogisticModel, inputs: FloatArray, classes: IntArray) -> FloatArray:
    return -model.predict_log_proba(inputs)[np.arange(len(inputs)), classes]


def _answers(
    model: LogisticModel, source: LabelledRows, target: LabelledRows, beta: FloatArray
) -> float:
    """Return the smallest corrected p over z-tests of the mean residuals."""
    source_residuals, target_residuals = _residuals(model, *source), _residuals(model, *target)
    mean = beta @ source_residuals / beta.sum()
    variance = beta**2 @ (source_residuals - mean) ** 2 / beta.sum() ** 2 + target_residuals.var(
        axis=0
    ) / len(target_residuals)
    difference = np.abs(mean - target_residuals.mean(axis=0))
    z = np.divide(difference, np.sqrt(variance), out=np.zeros_like(difference), where=variance > 0)
    return float(holm_correction([math.erfc(value / math.sqrt(2)) for value in z.tolist()]).min())


def _residuals(model: LogisticModel, inputs: FloatArray, classes: IntArray) -> FloatArray:
    """Return the residuals of each class and of -log p, (N, K + 1); (N, 2) with two classes."""
    log_p = model.predict_log_proba(inputs)
    p = np.exp(log_p)
    first = 1 if p.shape[1] == 2 else 0  # the two residuals differ only in sign
    class_residuals = (np.eye(p.shape[1])[classes] - p)[:, first:]
    surprisal = (p * log_p).sum(axis=1) - log_p[np.arange(len(log_p)), classes]
    return np.column_stack([class_residuals, surprisal])


def _losses(
    model: LogisticModel, source: LabelledRows, target: LabelledRows, beta: FloatArray
) -> ShiftLosses:
    source_loss, target_loss = _loss(model, *source), _loss(model, *target)
    size = len(model.biases)
    q, p = (np.bincount(classes, minlength=size) / len(classes) for _, classes in (source, target))
    class_weights = np.divide(p, q, out=np.zeros(size), where=q > 0)[source[1]]
    return ShiftLosses(
        source=float(source_loss.mean()),
        reweighted=float(beta @ source_loss / beta.sum()),
        relabelled=float(class_weights @ source_loss / max(class_weights.sum(), 1e-300)),
        target=float(target_loss.mean()),
    )


# --- decision -------------------------------------------------------------------------------------


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


def _explanation(kind: ShiftKind, evidence: ShiftEvidence, level: float) -> str:
    """Return one sentence per test."""
    differ = [c for c in sorted(evidence.columns, key=lambda c: c.p) if c.adjusted_p < level]
    domains = evidence.domains
    sentences = [
        f"Columns that differ: {', '.join(f'{c.name} (p {c.adjusted_p:.2g})' for c in differ[:5])}."
        if differ
        else "No column differs by itself.",
        f"A classifier of source versus target rows has a held-out AUC of {domains.auc:.3f}; "
        f"without shift it would be {domains.low:.3f} to {domains.high:.3f}.",
    ]
    if evidence.labels and evidence.losses and evidence.answers is not None:
        losses = evidence.losses
        sentences += [
            f"The class frequencies {'differ' if evidence.labels.p < level else 'are the same'} "
            f"(p {evidence.labels.p:.2g}).",
            f"A model trained on the source has a loss of {losses.source:.3f} per row on held-out "
            f"source rows, {losses.reweighted:.3f} with these weighted by the target's inputs, "
            f"{losses.relabelled:.3f} by its classes, and {losses.target:.3f} on the target; its "
            f"predictions are {'biased' if evidence.answers < level else 'as accurate'} there "
            f"(p {evidence.answers:.2g}).",
        ]
    elif kind == "covariate":
        sentences.append(
            "Without labels of both tables, it may also be label shift or concept shift."
        )
    return " ".join(sentences)


# --- features and rows ----------------------------------------------------------------------------


def _is_number(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "fiu"


def _features(source: TableColumns, target: TableColumns) -> tuple[FloatArray, FloatArray, int]:
    """Return both tables as feature matrices, and the number of linear features.

    Numbers are standardised, categories one-hot. Then come squares and products of the numbers, if
    there are few columns: the log-ratio of two Gaussians is quadratic, so with them a change of
    variance or correlation is detected, which changes no mean.
    """
    numbers, indicators = [], []
    for name, values in source.items():
        both = np.concatenate([values, target[name]])
        if _is_number(values) and _is_number(target[name]):
            column = both.astype(np.float64)
            missing = np.isnan(column)
            if np.isinf(column).any():
                raise ValueError(
                    f"got infinite numbers in the column {name}; expected finite ones, or NaN for "
                    "missing values."
                )
            known = column[: len(values)][~missing[: len(values)]]
            mean, deviation = (known.mean(), known.std()) if len(known) else (0.0, 1.0)
            numbers.append(np.where(missing, 0.0, (column - mean) / (deviation or 1.0)))
            indicators += [missing.astype(np.float64)] if missing.any() else []
        else:
            categories, codes, counts = np.unique(
                both.astype(str), return_inverse=True, return_counts=True
            )
            frequent = np.argsort(-counts, kind="stable")
            for k in frequent[: min(MAX_SHIFT_CATEGORIES, len(categories) - 1)]:
                indicators.append((codes == k).astype(np.float64))
    linear = [*numbers, *indicators] or [np.zeros(len(both))]
    factors = numbers if len(numbers) <= MAX_QUADRATIC_COLUMNS else []
    products = [a * b for i, a in enumerate(factors) for b in factors[i:]]
    x, u = np.split(np.column_stack([*linear, *products]), [len(values)])
    return x, u, len(linear)


def _sample_table(
    table: TableColumns, labels: NDArray[Any] | None, size: int, seed: int
) -> tuple[TableColumns, NDArray[Any] | None]:
    """Return at most `MAX_SHIFT_ROWS` rows of a table and its labels."""
    if size <= MAX_SHIFT_ROWS:
        return table, labels
    rows = _sample_rows(size, seed)
    sample = {name: values[rows] for name, values in table.items()}
    return sample, None if labels is None else labels[rows]


def _sample_rows(size: int, seed: int) -> IntArray:
    """Return at most `MAX_SHIFT_ROWS` random row numbers, in order."""
    if size <= MAX_SHIFT_ROWS:
        return np.arange(size)
    return np.sort(generator(seed, "some rows").permutation(size)[:MAX_SHIFT_ROWS])


def _halves(size: int, seed: int, table: int) -> tuple[IntArray, IntArray]:
    order = generator(seed, "halves", table).permutation(size)
    return order[: size // 2], order[size // 2 :]


def _check_tables(
    source: TableColumns,
    target: TableColumns,
    source_labels: NDArray[Any] | None,
    target_labels: NDArray[Any] | None,
) -> tuple[int, int]:
    """Return the number of rows of each table."""
    if not source or set(source) != set(target):
        only = sorted(set(source) ^ set(target))
        raise ValueError(
            f"got the columns {sorted(source)} and {sorted(target)}; expected the same in both"
            + (f"; try dropping or adding {', '.join(only)}." if only else ", at least one.")
        )
    sizes = []
    for table_name, table, labels in (
        ("source", source, source_labels),
        ("target", target, target_labels),
    ):
        lengths = {name: len(values) for name, values in table.items()}
        if labels is not None:
            lengths["labels"] = len(labels)
        if len(set(lengths.values())) != 1 or min(lengths.values()) < MIN_SHIFT_ROWS:
            raise ValueError(
                f"got {table_name} columns of these lengths: {lengths}; expected equal lengths "
                f"of {MIN_SHIFT_ROWS} rows or more."
            )
        sizes.append(next(iter(lengths.values())))
    return sizes[0], sizes[1]
