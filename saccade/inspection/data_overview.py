"""The figure of a data set: lengths of its texts, class balance, missing values."""

import numpy as np

from saccade.data.records.profile import ColumnProfile
from saccade.data.records.summary import DataSummary
from saccade.inspection.figures import DataOverview, LengthDistribution

MAX_LENGTH_COLUMNS = 4  # of texts in one panel
MAX_CLASS_BARS = 15
MAX_MISSING_BARS = 20


def data_overview(summary: DataSummary) -> DataOverview:
    """Return the figure of a data set."""
    columns = summary.profile.columns
    texts = [c for c in columns.values() if c.kind == "text"]
    texts.sort(key=lambda column: not summary.role_of(column.name))  # those with a role first
    label = summary.label
    missing = {name: c.missing / c.rows for name, c in columns.items() if c.missing}
    worst = sorted(missing, key=lambda name: -missing[name])[:MAX_MISSING_BARS]
    return DataOverview(
        summary.records.name,
        summary.profile.rows,
        [_lengths(column) for column in texts[:MAX_LENGTH_COLUMNS]],
        "" if label is None else label.name,
        {} if label is None else _classes(label),
        {name: missing[name] for name in worst},
    )


def _lengths(column: ColumnProfile) -> LengthDistribution:
    lengths = np.array(list(column.length_counts), np.int64)
    counts = np.array(list(column.length_counts.values()), np.int64)
    return LengthDistribution(column.name, lengths, counts, column.characters.median)


def _classes(label: ColumnProfile) -> dict[str, int]:
    """Return the counts of the classes; the rarest of many share one entry."""
    counts = label.counts or {}
    kept = dict(list(counts.items())[:MAX_CLASS_BARS])
    others = sum(counts.values()) - sum(kept.values())
    return kept | ({f"{len(counts) - len(kept):,} others": others} if others else {})
