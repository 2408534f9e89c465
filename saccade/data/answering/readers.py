r"""Readers of questions, contexts and answers: SQuAD files, JSON lines and tables. No torch.

SQuAD (v1.1, v2.0, XQuAD) is one JSON object with `data`: articles with `title` and `paragraphs`,
each a `context` and questions `qas` with `id`, `question`, `answers` (`text`, `answer_start`) and,
in v2.0, `is_impossible`. JSON lines have `question`, `context` and `answers`, as in SQuAD or as two
lists (`{"text": [...], "answer_start": [...]}`), and may have `id` and `title`. An answer without
`answer_start` is the first occurrence of its text.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from saccade.data.records.base import ReadOptions
from saccade.data.records.open import open_records
from saccade.data.records.roles import find_column
from saccade.data.tagging.readers import MAX_SIGNATURE_BYTES
from saccade.data.task_records import is_in_memory
from saccade.errors import DataError, bullet_list
from saccade.io.byte_source import STANDARD_INPUT, byte_source, plain_suffix
from saccade.io.documents import parse_json
from saccade.io.signatures import binary_kind
from saccade.io.text_files import MAX_LISTED_ERRORS, read_lines

QUESTION_LINE_SUFFIXES = (".jsonl", ".ndjson")
MAX_QUOTED_CHARS = 40  # of a text in a message
QUESTION_FILES = (
    "expected SQuAD's JSON (data, paragraphs, context, qas), or JSON lines with question, context "
    "and answers"
)


class Answer(NamedTuple):
    """A reference: the characters context[start : start + len(text)]."""

    text: str
    start: int


class Question(NamedTuple):
    """A question about a context; without answers, it has none there."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    article: str  # title; without one, the context


def read_questions(
    data: str | Path | object, options: ReadOptions, needs_answers: bool = True
) -> list[Question]:
    """Return the questions of a file or of a list of objects in memory.

    Args:
        data: path of SQuAD's JSON or of JSON lines, or objects as in JSON lines.
        options: how the file is read.
        needs_answers: check that each answer is at its position; False: answers are left out.

    Raises:
        DataError: with the ids of questions whose answer is not in the context.
    """
    name = "data in memory" if is_in_memory(data) else str(data)
    try:
        given: Any = data if is_in_memory(data) else _parse(name, options)
        rows = list(_walk(given))
    except ValueError as error:
        raise DataError(f"{name}: got {error}; {QUESTION_FILES}.") from None
    if not rows:
        raise DataError(f"{name}: got no questions; {QUESTION_FILES}.")
    errors: list[str] = []
    questions = [_question(row, n, needs_answers, errors) for n, row in enumerate(rows, 1)]
    if errors:
        more = len(errors) - MAX_LISTED_ERRORS
        listed = [*errors[:MAX_LISTED_ERRORS], *([f"… and {more:,} more"] if more > 0 else [])]
        raise DataError(
            bullet_list(listed, f"{name}: got questions that cannot be used:")
            + "\nTry to correct them, or to leave them out."
        )
    return questions


def read_question_rows(path: str, options: ReadOptions) -> list[Question]:
    """Return the questions of a file whose answers are not needed; it may be a table."""
    if plain_suffix(path) in (*QUESTION_LINE_SUFFIXES, ".json"):
        return read_questions(path, options, needs_answers=False)
    records = open_records(path, options)
    keys = ("question", "context", *(["id"] if "id" in records.columns else []))
    names = [find_column(records, key) for key in keys]
    rows = [
        dict(zip(keys, cells, strict=True))
        for chunk in records.chunks()
        for cells in zip(*(chunk.columns[name] for name in names), strict=True)
    ]
    return read_questions(rows, options, needs_answers=False)


def _parse(name: str, options: ReadOptions) -> Any:
    if name != STANDARD_INPUT:
        with byte_source(name).open() as file:
            kind = binary_kind(file.read(MAX_SIGNATURE_BYTES))
        if kind:
            raise ValueError(kind)
    lines = list(read_lines(name, options.encoding))
    if plain_suffix(name) not in QUESTION_LINE_SUFFIXES:
        return parse_json("\n".join(lines))
    rows = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append(parse_json(line))
            except ValueError as error:
                raise ValueError(f"{error} in line {number:,}") from None
    return rows


def _walk(given: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the questions as flat objects; ValueError for another structure."""
    if not isinstance(given, Mapping):
        if not isinstance(given, list | tuple):
            raise ValueError(f"a {type(given).__name__}")
        yield from map(_object, given)
        return
    for article in _list(given, "data"):
        for paragraph in _list(article, "paragraphs"):
            shared = {"context": paragraph.get("context"), "title": article.get("title")}
            yield from ({**question, **shared} for question in _list(paragraph, "qas"))


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"a {type(value).__name__} in place of an object")
    return value


def _list(owner: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = owner.get(key)
    if not isinstance(found, list):
        raise ValueError(f"an object without a list {key!r}")
    return [dict(_object(value)) for value in found]


def _question(
    row: Mapping[str, Any], number: int, needs_answers: bool, errors: list[str]
) -> Question:
    """Return a question; what is wrong with it is appended to `errors`."""
    name = str(row.get("id", number))
    question, context = (row.get(key) for key in ("question", "context"))
    for key, text in (("question", question), ("context", context)):
        if not isinstance(text, str) or not text.strip():
            errors.append(f"{name}: got no {key}; expected a text")
            return Question(name, "", "", (), "")
    question, context = str(question), str(context)
    answers: list[Answer] = []
    if needs_answers and not row.get("is_impossible"):
        try:
            answers = _answers(row.get("answers"), context)
        except ValueError as error:
            errors.append(f"{name}: {error}")
    return Question(name, question, context, tuple(answers), str(row.get("title") or context))


def _answers(given: Any, context: str) -> list[Answer]:
    if isinstance(given, Mapping):
        texts, starts = given.get("text"), given.get("answer_start")
        if not isinstance(texts, list):
            raise ValueError("got answers without a list 'text'; expected one")
        starts = starts if isinstance(starts, list) else [None] * len(texts)
        if len(starts) != len(texts):
            raise ValueError(f"got {len(texts)} answers and {len(starts)} starts; expected as many")
        given = [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
    if not isinstance(given, list):
        raise ValueError("got no list 'answers'; expected one, empty if there is no answer")
    return [_answer(_object(value), context) for value in given]


def _answer(value: Mapping[str, Any], context: str) -> Answer:
    text, start = value.get("text"), value.get("answer_start")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("got an answer without a text; expected a part of the context")
    quoted = repr(text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]}…")
    if start is None:
        start = context.find(text)
        if start < 0:
            raise ValueError(f"got the answer {quoted}, which is not in its context")
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise ValueError(f"got answer_start {start!r}; expected a number of characters")
    if not context.startswith(text, start):
        there = context[start : start + min(len(text), MAX_QUOTED_CHARS)]
        hint = f"; the text is at {at}" if (at := context.find(text)) >= 0 else ""
        raise ValueError(
            f"got the answer {quoted}, which is not in its context at character {start:,}: there "
            f"is {there!r}{hint}"
        )
    return Answer(text, start)
