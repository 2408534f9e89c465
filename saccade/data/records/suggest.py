"""Suggestion of a task for a data set, by the names and contents of its columns."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from saccade.data.records.base import Records
from saccade.data.records.parallel import PARALLEL_FORMAT
from saccade.data.records.profile import ColumnProfile
from saccade.data.records.role_names import (
    CAPTION_ROLE,
    IMAGE_FILE_SUFFIXES,
    LABEL_ROLE,
    SERIES_ROLE,
    SOURCE_ROLE,
    SPLIT_ALIASES,
    TABLE_TARGET_ROLE,
    TARGET_ROLE,
    TEXT_ROLE,
    Role,
    is_language_name,
    is_time_name,
    match_names,
)
from saccade.data.tagging.config import CONLL_SUFFIXES
from saccade.io.byte_source import plain_suffix

LONGER_TEXT_RATIO = 2.0  # of median lengths: the longest of several texts is the text
UNUSED_KINDS = ("id", "constant", "empty")

Profiles = Mapping[str, ColumnProfile]


class TaskSuggestion(NamedTuple):
    """A task that suits a data set, its roles, and the command that trains it."""

    task: str
    roles: dict[str, str]  # role to column
    reason: str
    command: str


def train_command_line(task: str, data: str, roles: Mapping[str, str]) -> str:
    """Return the command that trains a task with these roles, quoted for a shell."""
    options = [f"--{role} {shlex.quote(column)}" for role, column in roles.items()]
    return " ".join([f"saccade train {task} --data {shlex.quote(data)}", *options])


def suggested_command(task: str, records: Records, roles: Mapping[str, str]) -> str:
    """Return the command that trains a task; the columns of plain text have no name."""
    is_plain = records.format in ("text", PARALLEL_FORMAT)
    return train_command_line(task, records.name, {} if is_plain else roles)


def suggest_task(profiles: Profiles, records: Records) -> TaskSuggestion | None:
    """Return the task that the columns suggest; None without a column that can be used.

    A name of a CoNLL file: tag. Paths of images and a class: image; and a text: caption; alone:
    contrastive. Columns named "text" and "label": classify. Two texts: translate. A text and a
    class: classify. A text alone: language. A time and a number: forecast. Anything else with two
    columns or more: table.
    """
    if (suffix := plain_suffix(records.name)) in CONLL_SUFFIXES:
        reason = f"its name ends with {suffix}"
        return TaskSuggestion("tag", {}, reason, suggested_command("tag", records, {}))
    used = {column: p for column, p in profiles.items() if p.kind not in UNUSED_KINDS}
    images = _image_rule(profiles) or _caption_rule(profiles) or _unlabelled_rule(profiles)
    if images is not None:
        task, roles, reason = images
        return TaskSuggestion(task, roles, reason, suggested_command(task, records, roles))
    rules = _named_classify_rule, _pair_rule, _classify_rule, _language_rule, _forecast_rule
    for rule in (*rules, _table_rule):
        if (found := rule(used)) is not None:
            task, roles, reason = found
            return TaskSuggestion(task, roles, reason, suggested_command(task, records, roles))
    return None


_Found = tuple[str, dict[str, str], str] | None


def _image_rule(profiles: Profiles) -> _Found:
    """Paths of images, which may be unique as an id is, and a class."""
    images = [column for column, profile in profiles.items() if has_image_paths(profile)]
    others = {column: p for column, p in profiles.items() if column not in images}
    labels = _label_columns({c: p for c, p in others.items() if p.kind not in UNUSED_KINDS})
    if len(images) != 1 or not labels:
        return None
    label = named_column(LABEL_ROLE, labels) or labels[0]
    reason = f"{images[0]!r} has paths of images and {label!r} classes"
    return "image", {"image": images[0], "label": label}, reason


def _caption_rule(profiles: Profiles) -> _Found:
    """Paths of images and a text."""
    images = [column for column, profile in profiles.items() if has_image_paths(profile)]
    texts = text_columns({c: p for c, p in profiles.items() if c not in images})
    if len(images) != 1 or not texts:
        return None
    caption = named_column(CAPTION_ROLE, texts) or texts[0]
    reason = f"{images[0]!r} has paths of images and {caption!r} texts"
    return "caption", {"image": images[0], "caption": caption}, reason


def _unlabelled_rule(profiles: Profiles) -> _Found:
    """Paths of images alone."""
    images = [column for column, profile in profiles.items() if has_image_paths(profile)]
    if len(images) != 1:
        return None
    reason = f"{images[0]!r} has paths of images, and no column classes or captions"
    return "contrastive", {"image": images[0]}, reason


def _named_classify_rule(used: Profiles) -> _Found:
    """Columns that are called text and label, however short the texts are."""
    found = {}
    for role in (TEXT_ROLE, LABEL_ROLE):
        exact = [match.column for match in match_names(role, used) if match.rank == 0]
        if len(exact) != 1 or used[exact[0]].kind in ("number", "date"):
            return None
        found[role.name] = exact[0]
    if used[found["text"]].kind == "integer":
        return None
    return _classify(used, **found)


def _pair_rule(used: Profiles) -> _Found:
    texts = text_columns(used)
    pair = language_pair(used) or _named_pair(texts)
    if pair is None and len(texts) == 2 and not _label_columns(used):
        pair = (texts[0], texts[1])
    if pair is None:
        return None
    return (
        "translate",
        {"source": pair[0], "target": pair[1]},
        f"{pair[0]!r} and {pair[1]!r} are two texts",
    )


def _named_pair(texts: Sequence[str]) -> tuple[str, str] | None:
    """Return two columns named like source and target, if there are exactly two."""
    pair = []
    for role in (SOURCE_ROLE, TARGET_ROLE):
        close = [match.column for match in match_names(role, texts) if match.rank < 2]
        if len(close) != 1:
            return None
        pair += close
    return (pair[0], pair[1]) if pair[0] != pair[1] else None


def _classify_rule(used: Profiles) -> _Found:
    texts, classes = text_columns(used), _label_columns(used)
    if not texts or not classes:
        return None
    text = named_column(TEXT_ROLE, texts) or longest_text(used, texts) or texts[0]
    label = named_column(LABEL_ROLE, classes) or classes[0]
    return _classify(used, text, label)


def _classify(used: Profiles, text: str, label: str) -> _Found:
    count = f"{used[label].distinct:,} distinct values"
    reason = f"{text!r} is a text and {label!r} has {count}"
    return "classify", {"text": text, "label": label}, reason


def _label_columns(used: Profiles) -> list[str]:
    """Return the columns of classes, and short values with the usual name of a label."""
    close = {match.column for match in match_names(LABEL_ROLE, used) if match.rank < 2}
    classes = class_columns(used)
    return [c for c, p in used.items() if c in classes or (c in close and p.kind == "integer")]


def _language_rule(used: Profiles) -> _Found:
    texts = text_columns(used)
    if not texts:
        return None
    text = named_column(TEXT_ROLE, texts) or longest_text(used, texts) or texts[0]
    return "language", {"text": text}, f"{text!r} is the only text, and no column is a class"


def _forecast_rule(used: Profiles) -> _Found:
    times = [column for column, p in used.items() if p.kind == "date" or is_time_name(column)]
    numbers = [c for c, p in used.items() if p.kind in ("integer", "number") and c not in times]
    is_series = (times and 0 < len(numbers) <= 2) or (len(numbers) == 1 and len(used) == 1)
    if not is_series or class_columns({c: p for c, p in used.items() if c not in times}):
        return None
    value = named_column(SERIES_ROLE, numbers) or numbers[0]
    reason = f"{value!r} is a number" + (f" at the times of {times[0]!r}" if times else "")
    return "forecast", {"target": value}, reason


def _table_rule(used: Profiles) -> _Found:
    if len(used) < 2:
        return None
    targets = [c for c, p in used.items() if p.kind != "date" and not names_splits(p)]
    target = named_column(TABLE_TARGET_ROLE, targets)
    if target is not None:
        return "table", {"target": target}, f"{target!r} is to be predicted from the others"
    last = targets[-1] if targets else list(used)[-1]
    return "table", {"target": last}, f"{last!r} is the last of {len(used)} columns without texts"


# --- columns by content ---------------------------------------------------------------------------


def has_image_paths(profile: ColumnProfile) -> bool:
    """Return True if the examples of a column are file names of images."""
    return bool(profile.examples) and all(
        plain_suffix(example) in IMAGE_FILE_SUFFIXES for example in profile.examples
    )


def text_columns(profiles: Profiles) -> list[str]:
    """Return the columns of texts."""
    return [column for column, profile in profiles.items() if profile.kind == "text"]


def class_columns(profiles: Profiles) -> list[str]:
    """Return the columns whose values repeat as classes do, without a column of splits."""
    return [c for c, p in profiles.items() if p.is_class and not names_splits(p)]


def names_splits(profile: ColumnProfile) -> bool:
    """Return True if the values of a column are names of splits: train, validation, test."""
    values = {value.strip().casefold() for value in profile.counts or ()}
    return "train" in values and len(values) > 1 and values <= SPLIT_ALIASES.keys()


def language_pair(profiles: Profiles) -> tuple[str, str] | None:
    """Return the two columns that are named after languages, if there are exactly two."""
    found = [c for c, p in profiles.items() if is_language_name(c) and p.kind not in UNUSED_KINDS]
    return (found[0], found[1]) if len(found) == 2 else None


def named_column(role: Role, columns: Collection[str]) -> str | None:
    """Return the column with the closest name for a role; None if there is none, or a tie."""
    matches = match_names(role, columns)
    best = [match.column for match in matches if match.rank == matches[0].rank]
    return best[0] if len(best) == 1 else None


def longest_text(profiles: Profiles, columns: Sequence[str]) -> str | None:
    """Return the column with by far the longest texts; None if there is no such column."""
    if len(columns) < 2:
        return columns[0] if columns else None
    by_length = sorted(columns, key=lambda c: -profiles[c].characters.median)
    first, second = (profiles[column].characters.median for column in by_length[:2])
    return by_length[0] if first >= LONGER_TEXT_RATIO * second else None
