"""Dates of a table column: recognised by their form, and encoded as calendar features.

days     days since 1970, standardised; with the time of day as a fraction
year     standardised
month    one-hot
weekday  one-hot
hour     -1 at midnight to almost 1; only if a cell has a time of day
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from pydantic import FiniteFloat

from saccade.data.tables.csv import MISSING_VALUES
from saccade.io.documents import PositiveNumber
from saccade.types.arrays import FloatArray

ISO_FORM = "ISO 8601"
DATE_FORMS = (  # ISO 8601, then forms of strptime
    ISO_FORM,
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%m-%Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%B %d, %Y",
    "%b %d, %Y",
    "%Y年%m月%d日",
)
MIN_DATE_SHARE = 0.9  # of the cells of a date column; the others are errors
MONTHS, WEEKDAYS = 12, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_ISO = re.compile(r"\d{4}-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?)?")
_EPOCH = datetime(1970, 1, 1)


def parse_date(cell: str, form: str) -> datetime | None:
    """Return the date and time of a cell, without its time zone; None if it has another form."""
    try:
        if form != ISO_FORM:
            return datetime.strptime(cell, form)
        if not _ISO.fullmatch(cell):
            return None
        return datetime.fromisoformat(f"{cell}-01" if len(cell) == 7 else cell).replace(tzinfo=None)
    except ValueError:
        return None


def date_forms(cells: Sequence[str]) -> list[str]:
    """Return the forms in which nearly all cells with a value are dates.

    There are two forms if it is open which number is the month.
    """
    known = [cell for cell in cells if cell not in MISSING_VALUES]
    if not known or not any(parse_date(known[0], form) for form in DATE_FORMS):
        return []
    distinct = set(known)
    found = {
        form: count
        for form in DATE_FORMS
        if (count := sum(parse_date(cell, form) is not None for cell in distinct))
        >= MIN_DATE_SHARE * len(distinct)
    }
    return [form for form, count in found.items() if count == max(found.values())]


class DateColumn(NamedTuple):
    """A column of dates, and the means and deviations of its days and years."""

    name: str
    form: str  # one of DATE_FORMS
    mean: FiniteFloat  # in days since 1970
    deviation: PositiveNumber
    mean_year: FiniteFloat
    year_deviation: PositiveNumber
    missing: bool = False  # a feature marks missing values
    with_hour: bool = False

    @property
    def feature_names(self) -> list[str]:
        """The names of the features."""
        return [
            f"{self.name} days",
            f"{self.name} year",
            *(f"{self.name} month={month}" for month in range(1, MONTHS + 1)),
            *(f"{self.name} weekday={day}" for day in WEEKDAYS),
            *[f"{self.name} hour"] * self.with_hour,
            *[f"{self.name} missing"] * self.missing,
        ]

    def features(self, cells: Sequence[str]) -> FloatArray:
        """Return the features of cells, (N, features); 0 for a missing date."""
        rows = {cell: self._features_of(cell) for cell in set(cells)}
        return np.array([rows[cell] for cell in cells], np.float64).reshape(
            len(cells), len(self.feature_names)
        )

    def _features_of(self, cell: str) -> list[float]:
        date = parse_date(cell, self.form)
        count = len(self.feature_names)
        if date is None:
            return [0.0] * (count - self.missing) + [1.0] * self.missing
        found = [
            (days_since_1970(date) - self.mean) / self.deviation,
            (date.year - self.mean_year) / self.year_deviation,
            *(float(date.month == month) for month in range(1, MONTHS + 1)),
            *(float(date.weekday() == day) for day in range(len(WEEKDAYS))),
        ]
        hour = (date.hour + date.minute / 60) / 12 - 1
        return found + [hour] * self.with_hour + [0.0] * self.missing


def days_since_1970(date: datetime) -> float:
    """Return the days since 1970, with the time of day as a fraction."""
    return (date - _EPOCH).total_seconds() / 86_400


def fit_date_column(name: str, cells: Sequence[str], form: str) -> DateColumn:
    """Return the column with the means and deviations of its dates; a deviation of 0 becomes 1."""
    parsed = {cell: parse_date(cell, form) for cell in set(cells)}
    dates = [date for cell in cells if (date := parsed[cell]) is not None]
    days = np.array([days_since_1970(date) for date in dates] or [0.0])
    years = np.array([date.year for date in dates] or [1970], np.float64)
    return DateColumn(
        name,
        form,
        float(days.mean()),
        float(days.std()) or 1.0,
        float(years.mean()),
        float(years.std()) or 1.0,
        len(dates) < len(cells),
        any((date.hour, date.minute) != (0, 0) for date in dates),
    )
