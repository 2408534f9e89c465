"""Assignment of roles to columns: given by name, by usual names, then by contents.

Every choice has its reason. What cannot be decided is asked, if there is a function that asks, or
refused with the command that decides it. Columns that cannot be what they are named, such as labels
of which each occurs once, are refused before training.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from saccade.data.records.base import RecordChunk, Records
from saccade.data.records.cell_forms import cell_form
from saccade.data.records.names import normalise_name
from saccade.data.records.profile import ColumnProfile, profile_records
from saccade.data.records.role_names import (
    LABEL_ROLE,
    TEXT_ROLE,
    Role,
    is_language_name,
    is_time_name,
    match_names,
)
from saccade.data.records.suggest import (
    UNUSED_KINDS,
    Profiles,
    class_columns,
    has_image_paths,
    longest_text,
    names_splits,
    suggest_task,
    train_command_line,
)
from saccade.errors import DataError

ROLE_SAMPLE_ROWS = 5000  # by which roles are inferred
MIN_CLASS_ROWS = 50  # fewer rows do not show that a column of texts has classes
MAX_PROPOSED_CLASSES = 20  # a target with more distinct values may be a translation
MAX_CLASS_SHARE = 0.1  # the same where the text is long, of the rows
MAX_HEADER_WORDS = 6  # a longer name of a column is data
MAX_NAMED_COLUMNS = 8

AskColumn = Callable[[str, Sequence[str]], str | None]  # question, columns → column


class RoleChoice(NamedTuple):
    """A role, its column, and the reason."""

    role: str
    column: str
    reason: str


def resolve_roles(
    records: Records,
    roles: Sequence[Role],
    given: Mapping[str, str | None],
    task: str,
    ask: AskColumn | None = None,
    is_other: bool = False,
) -> list[RoleChoice]:
    """Return the column of each role: all required ones, and the optional ones that are found.

    Args:
        records: the data; its first rows are read.
        roles: roles of the task.
        given: column by role, where the user named one; a number is a position, counted from 1.
        task: name of the task, for the command in a message.
        ask: function that asks the user; None: an ambiguous case is an error.
        is_other: True for data of a model that is trained: it may have one of the classes only.

    Raises:
        DataError: with the command to type, if a role is ambiguous or has no column, if the columns
            cannot have their roles, or if the file suits another task.
    """
    sample = records.head(ROLE_SAMPLE_ROWS)
    profiles = profile_records(sample)
    check_header(records, sample, profiles)
    is_whole = len(sample) < ROLE_SAMPLE_ROWS and not is_other
    return assign_roles(records, profiles, roles, given, task, ask, is_whole)


def assign_roles(
    records: Records,
    profiles: Profiles,
    roles: Sequence[Role],
    given: Mapping[str, str | None],
    task: str,
    ask: AskColumn | None = None,
    is_whole: bool = True,
) -> list[RoleChoice]:
    """Return the column of each role by the profiles of the columns; see `resolve_roles`.

    `is_whole` is False if the profiles are those of the first rows only: a file that is sorted by
    class shows one class there.
    """
    resolution = _Resolution(records, profiles, roles, task, ask)
    for role in roles:
        if (name := given.get(role.name)) is not None:
            resolution.take(role.name, find_column(records, name), "given")
    resolution.refuse_repeated()
    resolution.by_name()
    resolution.by_content()
    resolution.check_contents(is_whole)
    return [resolution.chosen[r.name] for r in roles if r.name in resolution.chosen]


def find_column(records: Records, name: str) -> str:
    """Return the column of a name, or at a position counted from 1 if no column has that name."""
    at_position = records.column_at(name)
    if name not in records.columns and at_position is not None:
        return at_position
    records.check_column(name)
    return name


class _Resolution:
    """The roles chosen so far."""

    def __init__(
        self,
        records: Records,
        profiles: Profiles,
        roles: Sequence[Role],
        task: str,
        ask: AskColumn | None,
    ):
        self.records, self.profiles, self.task, self.ask = records, profiles, task, ask
        self.roles = roles
        self.chosen: dict[str, RoleChoice] = {}
        self.inferred: set[str] = set()  # roles chosen by contents alone

    def take(self, role: str, column: str, reason: str, is_inferred: bool = False) -> None:
        self.chosen[role] = RoleChoice(role, column, reason)
        if is_inferred:
            self.inferred.add(role)

    def open_roles(self, kind: str | None = None) -> list[Role]:
        """Return the required roles without a column, all or those of a kind."""
        return [
            role
            for role in self.roles
            if role.required and role.name not in self.chosen and kind in (None, role.kind)
        ]

    def free_columns(self) -> list[str]:
        """Return the columns without a role."""
        taken = {choice.column for choice in self.chosen.values()}
        return [column for column in self.records.columns if column not in taken]

    def command(self, guess: Mapping[str, str] | None = None) -> str:
        """Return the command with the roles chosen so far and some guessed ones."""
        columns = {**{r: c.column for r, c in self.chosen.items()}, **(guess or {})}
        named = {
            role.name: columns.get(role.name, "COLUMN") for role in self.roles if role.required
        }
        return train_command_line(self.task, self.records.name, named)

    def refuse_repeated(self) -> None:
        roles_of: dict[str, list[str]] = {}
        for role, choice in self.chosen.items():
            roles_of.setdefault(choice.column, []).append(role)
        for column, roles in roles_of.items():
            if len(roles) > 1:
                raise DataError(
                    f"{self.records.name}: got the column {column!r} for {' and '.join(roles)}; "
                    f"expected a column of its own for each; try another --{roles[-1]} (columns: "
                    f"{_listed(self.records.columns)})."
                )

    # --- names ------------------------------------------------------------------------------------

    def by_name(self) -> None:
        """Take the columns with usual names: closest matches of all roles first."""
        for rank in range(3):
            for role in self.roles:
                if role.name in self.chosen:
                    continue
                if not role.required and (rank == 2 or not role.aliases):
                    continue
                matches = [
                    match.column
                    for match in match_names(role, self.free_columns())
                    if match.rank == rank and (rank == 0 or self.suits(role, match.column))
                ]
                column = self._only(role, matches)
                if column is not None:
                    self.take(role.name, column, f"named {column!r}")

    def _only(self, role: Role, columns: Sequence[str]) -> str | None:
        """Return the one column, or the one with by far the longest texts."""
        if role.kind == "text" and len(self.open_roles("text")) == 1:
            return longest_text(self.profiles, columns)
        return columns[0] if len(columns) == 1 else None

    def suits(self, role: Role, column: str) -> bool:
        """Return True if the contents of a column are of the role's kind."""
        profile = self.profiles[column]
        match role.kind:
            case "text":
                return profile.kind in ("text", "category")
            case "label":
                is_small = profile.rows < MIN_CLASS_ROWS and profile.kind not in ("number", "date")
                may_repeat = profile.kind in ("constant", "integer") and not profile.is_unique
                return profile.is_class or may_repeat or is_small
            case "number":
                return profile.kind in ("integer", "number")
            case "time":
                return profile.kind == "date" or is_time_name(column)
        return True

    # --- contents ---------------------------------------------------------------------------------

    def by_content(self) -> None:
        """Fill the required roles that are still open."""
        if len(self.open_roles("text")) > 0 and self._has_pair_roles():
            self._pair()
        for kind, describe in _REASONS.items():
            for role in self.open_roles(kind):
                columns = self._candidates(role)
                column = self._only(role, columns)
                if column is not None:
                    reason = describe(self.profiles[column], len(columns))
                    self.take(role.name, column, reason, is_inferred=True)
        self._by_position()
        # a role without any candidate first: the file may suit another task
        for role in sorted(self.open_roles(), key=lambda role: bool(self._candidates(role))):
            self._ask_or_refuse(role)

    def _has_pair_roles(self) -> bool:
        return sum(role.kind == "text" and role.required for role in self.roles) == 2

    def _candidates(self, role: Role) -> list[str]:
        return [column for column in self.free_columns() if self._is_candidate(role, column)]

    def _is_candidate(self, role: Role, column: str) -> bool:
        profile = self.profiles[column]
        match role.kind:
            case "text":
                return profile.kind == "text"
            case "label":
                return profile.is_class and not names_splits(profile)
            case "path":
                return has_image_paths(profile)
            case "any":
                return False  # any column may be the target
        return self.suits(role, column) and profile.kind not in UNUSED_KINDS

    def _pair(self) -> None:
        """Take two columns of texts in the order of the file."""
        free = self.free_columns()
        needed = self.open_roles("text")
        used = [column for column in free if self.profiles[column].kind not in UNUSED_KINDS]
        languages = [column for column in used if is_language_name(column)]
        texts = [column for column in used if self.profiles[column].kind == "text"]
        candidates = [
            (languages, "columns named after languages"),
            (list(free), "columns"),
            (texts, "columns of texts"),
            (used, "columns that are neither ids nor constant"),
        ]
        for columns, which in candidates:
            if len(columns) == len(needed):
                ordinals = _ordinals(len(needed))
                for role, column, ordinal in zip(needed, columns, ordinals, strict=True):
                    self.take(role.name, column, f"{ordinal}{which}", is_inferred=True)
                return

    def _by_position(self) -> None:
        """Take the only column, or the text and the label of a file of two columns."""
        free, needed = self.free_columns(), self.open_roles()
        if len(self.records.columns) == 1 and len(needed) == 1 and free:
            self.take(needed[0].name, free[0], "the only column", is_inferred=True)
            return
        if len(self.records.columns) != 2 or not needed or len(free) != len(needed):
            return
        kinds = {role.kind for role in self.roles if role.required}
        if kinds not in ({"label", "text"}, {"path", "text"}):
            return
        if len(needed) == 1 and needed[0].kind != "path":
            self.take(needed[0].name, free[0], "the other of two columns", is_inferred=True)
        if len(needed) == 1 or "path" in kinds:
            return
        profiles = [self.profiles[column] for column in free]
        if profiles[0].rows < MIN_CLASS_ROWS:
            # too few rows to show which values repeat
            label, text = sorted(free, key=lambda column: self.profiles[column].words.mean)
            reason = "of two columns, with {} words"
        elif all(profile.is_class for profile in profiles):
            label, text = sorted(free, key=lambda column: self.profiles[column].distinct)
            reason = "of two columns, with {} distinct values"
        else:
            return
        for role in needed:
            column, which = (label, "fewer") if role.kind == "label" else (text, "more")
            self.take(role.name, column, reason.format(which), is_inferred=True)

    def _ask_or_refuse(self, role: Role) -> None:
        free = self.free_columns()
        suited = self._candidates(role)
        candidates = suited or [c for c in free if self.profiles[c].kind not in UNUSED_KINDS]
        if self.ask is not None and candidates:
            answer = self.ask(f"Which column is the {role.name}?", candidates)
            if answer is not None:
                self.take(role.name, find_column(self.records, answer), "answered")
                return
        raise self._no_column(role, suited)

    def _no_column(self, role: Role, suited: Sequence[str]) -> DataError:
        name = self.records.name
        columns = f"columns: {_listed(self.records.columns)}"
        if len(suited) > 1:
            names = [other.name for other in self.open_roles(role.kind)]
            guess = dict(zip(names, suited, strict=False))
            return DataError(
                f"{name}: got {len(suited)} columns that may be the {role.name} "
                f"({_listed(suited)}); expected one; try {self.command(guess)}"
            )
        suggestion = suggest_task(self.profiles, self.records)
        if suggestion is not None and suggestion.task != self.task:
            return DataError(
                f"{name}: got no column that may be the {role.name} of {self.task} ({columns}); "
                f"{suggestion.reason}; try {suggestion.command}"
            )
        guess = {} if suggestion is None else suggestion.roles
        return DataError(
            f"{name}: got no column that is by its name or contents the {role.name} ({columns}); "
            f"expected {_EXPECTED[role.kind]}; try {self.command(guess)}"
        )

    # --- checks -----------------------------------------------------------------------------------

    def check_contents(self, is_whole: bool) -> None:
        """Refuse columns that cannot have their roles."""
        label = self.chosen.get("label")
        if label is not None:
            self._check_label(label, self.chosen.get("text"), is_whole)
        if self._has_pair_roles():
            self._propose_classify()

    def _check_label(self, label: RoleChoice, text: RoleChoice | None, is_whole: bool) -> None:
        profile, name = self.profiles[label.column], self.records.name
        if profile.is_unique:
            found = (
                f"{name}: got {profile.distinct:,} distinct values in {profile.known:,} rows of "
                f"{label.column!r}, the label"
            )
            if text is not None and self.profiles[text.column].is_class:
                swapped = {"text": label.column, "label": text.column}
                raise DataError(
                    f"{found}, and {self.profiles[text.column].distinct:,} in {text.column!r}, the "
                    "text; expected labels that repeat: the two columns are swapped; try "
                    f"{self.command(swapped)}"
                )
            raise DataError(f"{found}; expected labels that repeat; {self._other_label()}")
        if is_whole and profile.kind in ("constant", "empty"):
            value = (
                f"the same value ({profile.examples[0][:40]!r})" if profile.examples else "no value"
            )
            missing = profile.rows - profile.known if profile.known else 0
            rows = f"{'' if missing else 'all '}{profile.rows - missing:,} rows"
            empty = f", and none in the other {missing:,}" if missing else ""
            raise DataError(
                f"{name}: got {value} in {rows} of {label.column!r}, the label{empty}; expected "
                f"two classes or more; {self._other_label()}"
            )

    def _other_label(self) -> str:
        """Return advice that names another column, or another task."""
        classes = [c for c in class_columns(self.profiles) if c in self.free_columns()]
        if classes:
            return f"try {self.command({'label': classes[0]})}"
        suggestion = suggest_task(self.profiles, self.records)
        if suggestion is not None and suggestion.task != self.task:
            return f"{suggestion.reason}; try {suggestion.command}"
        return f"try another column with --label NAME (columns: {_listed(self.records.columns)})."

    def _propose_classify(self) -> None:
        """Refuse a pair of which one column has classes, if it was inferred from contents."""
        if len(self.inferred) < 2:
            return
        profiles = [self.profiles[self.chosen[role].column] for role in self.inferred]
        texts = [p for p in profiles if p.kind == "text"]
        limit = MAX_PROPOSED_CLASSES
        if texts and texts[0].is_long:  # a long text is not translated into one of some words
            limit = max(limit, int(MAX_CLASS_SHARE * texts[0].rows))
        classes = [
            p for p in profiles if p.is_class and p.known >= MIN_CLASS_ROWS and p.distinct <= limit
        ]
        if len(classes) == 1 and len(texts) == 1:
            roles = {"text": texts[0].name, "label": classes[0].name}
            command = train_command_line("classify", self.records.name, roles)
            raise DataError(
                f"{self.records.name}: got {classes[0].distinct} distinct values in "
                f"{classes[0].known:,} rows of {classes[0].name!r}: they are classes of "
                f"{texts[0].name!r}; try {command}, or {self.command()} to translate one into the "
                "other."
            )


_EXPECTED = {
    "text": "a column of texts",
    "label": "a column whose values repeat",
    "number": "a column of numbers",
    "path": "a column of paths of images",
    "time": "a column of dates",
    "any": "the column to predict",
}


def _ordinals(count: int) -> tuple[str, ...]:
    return ("the first of two ", "the second of two ") if count == 2 else ("the other of the ",)


def _class_reason(profile: ColumnProfile, candidates: int) -> str:
    return f"the only column of classes ({profile.distinct:,} values in {profile.known:,} rows)"


def _text_reason(profile: ColumnProfile, candidates: int) -> str:
    which = "the only text" if candidates == 1 else "the longest of the texts"
    return f"{which} (median of {profile.characters.median:,} characters)"


def _number_reason(profile: ColumnProfile, candidates: int) -> str:
    return "the only column of numbers"


def _listed(columns: Sequence[str]) -> str:
    more = len(columns) - MAX_NAMED_COLUMNS
    listed = ", ".join(f"{name!r:.100}" for name in columns[:MAX_NAMED_COLUMNS])
    return f"{listed} and {more} more" if more > 0 else listed


def _path_reason(profile: ColumnProfile, candidates: int) -> str:
    return f"paths of images such as {profile.examples[0]!r:.100}"


_REASONS = {
    "path": _path_reason,
    "label": _class_reason,
    "text": _text_reason,
    "number": _number_reason,
}


# --- headers --------------------------------------------------------------------------------------


def check_header(records: Records, sample: RecordChunk, profiles: Profiles) -> None:
    """Raise a DataError if a header was read as a row, or a row as the header."""
    if records.delimiter is None or not len(sample):
        return
    if not records.has_header:
        first = [cells[0] or "" for cells in sample.columns.values()]
        if _is_header(first, profiles):
            raise DataError(
                f"{records.where(int(sample.numbers[0]))}: got {_listed(first)}, which are names "
                "of columns, in a file read without a header; try --set data.header=true"
            )
    elif _is_row(records.columns, profiles):
        raise DataError(
            f"{records.name}: got {_listed(records.columns)} in the header, which is a row like "
            "those below it; expected names of columns; try --set data.header=false"
        )


def _is_header(first: Sequence[str], profiles: Profiles) -> bool:
    """Return True if the first row has usual names of columns that are no values below."""
    names = {normalise_name(cell) for cell in first}
    usual = {
        name
        for role in (LABEL_ROLE, TEXT_ROLE)
        for name in (role.name, *role.aliases)
        if name in names
    }
    once = all(
        (profile.counts or {}).get(cell.strip(), 1) == 1
        for cell, profile in zip(first, profiles.values(), strict=True)
    )
    return len(usual) >= 2 and len(names) == len(first) and once


def _is_row(names: Sequence[str], profiles: Profiles) -> bool:
    """Return True if a name is a class of its own column, or all names look like its values."""
    if any(_is_own_class(name, profiles[name]) for name in names):
        return True
    positions = [str(position) for position in range(len(names))]
    return list(names) != positions and all(_looks_like(name, profiles[name]) for name in names)


def _is_own_class(name: str, profile: ColumnProfile) -> bool:
    is_usual = normalise_name(name) in (LABEL_ROLE.name, *LABEL_ROLE.aliases)
    return not is_usual and profile.is_class and (profile.counts or {}).get(name, 0) >= 2


def _looks_like(name: str, profile: ColumnProfile) -> bool:
    if profile.kind in ("integer", "number"):
        return cell_form(name) in ("integer", "number")
    return profile.kind == "text" and len(name.split()) > MAX_HEADER_WORDS
