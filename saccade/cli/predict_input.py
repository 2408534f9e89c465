r"""Inputs of `predict`: lines of text, or the input column of a file like the training file.

A file with columns (CSV, TSV, JSON, Parquet, …) is read by column: the source or the text, never
the target. Any other file is lines of text; a .txt file with commas is not CSV. In a line with a
tab, "source TAB target" or "label TAB text", the target is left out too.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from saccade.cli.opening import read_run_recipe
from saccade.data.task_roles import INPUT_ROLES, role_settings, takes_paths
from saccade.data.text.labels import match_prefixed_labels
from saccade.errors import DataError

if TYPE_CHECKING:
    from saccade.data.records.base import ReadOptions, Records
    from saccade.data.tables.schema import TableSchema
    from saccade.data.tagging.config import TaggedTextConfig
    from saccade.data.task_records import RoleOptions

LINE_SUFFIXES = ("", ".txt", ".text")  # of files that are lines of text, whatever their bytes

WarnFunction = Callable[[str], None]
ReadBlocks = Callable[[str, WarnFunction], Iterator[Iterator[str]]]


class InputRow(NamedTuple):
    """One input: the text that stands for it in outputs, what is predicted from, and its cells."""

    text: str
    value: str | Mapping[str, str | None] | tuple[str, ...]
    cells: tuple[str | None, ...] = ()


EMPTY_LINE = InputRow("", "")  # one object for all empty lines


class FileInput(NamedTuple):
    """The inputs of a file, in order."""

    blocks: Callable[[WarnFunction], Iterator[Iterator[InputRow]]]  # as they arrive
    columns: tuple[str, ...] = ()  # of the cells of a row; none: lines of text
    first_line: str | None = None  # printed before the predictions
    notes: tuple[str, ...] = ()


class RunColumns(NamedTuple):
    """The task of a run, its columns, and how a tab in a line is read."""

    task: str
    columns: dict[str, str | None]  # by role
    options: "RoleOptions"  # how its files are read
    keeps_tabs: bool
    tagged: "TaggedTextConfig | None" = None  # of a tagger


def read_run_columns(run: Path, given: Mapping[str, str], file: "ReadOptions") -> RunColumns:
    """Return the columns of a run, some of them replaced by those given. Does not import torch.

    `file` has what is known of the file that is read, which may have another encoding and another
    header than that of the training.
    """
    from saccade.data.task_records import RoleOptions, given_columns

    recipe = read_run_recipe(run)
    task, data = recipe.task, recipe.data.model_dump()
    role_settings(task, given)  # refuses roles that the task does not have
    columns = {**given_columns(data, task), **given}
    keeps_tabs = task not in ("classify", "translate") or data.get("whitespace") == "keep"
    known = {"delimiter": data.get("delimiter")} | file.model_dump(exclude_none=True)
    options = RoleOptions(**known)
    tagged: Any = recipe.data if task == "tag" else None
    return RunColumns(task, columns, options, keeps_tabs, tagged)


def open_input(
    path: str,
    run: RunColumns,
    read: ReadBlocks,
    *,
    labels: Sequence[str] = (),
    schema: "TableSchema | None" = None,
) -> FileInput:
    """Open the inputs of a file.

    Args:
        path: a file, or "-" for standard input.
        run: task and columns of the run.
        read: reader of the lines of a text file, in blocks.
        labels: labels of a classifier.
        schema: of a table.
    """
    from saccade.data.records.open import open_records
    from saccade.data.task_records import LINE_FORMATS, is_record_file
    from saccade.io.text_files import STANDARD_INPUT

    if run.tagged is not None and path != STANDARD_INPUT:
        from saccade.data.tagging.readers import has_tokens

        if has_tokens(path):
            return _token_input(path, run.tagged)
    if run.task == "answer" and path != STANDARD_INPUT and is_record_file(path):
        return _question_input(path, run.options)
    if path != STANDARD_INPUT and run.task == "table" and schema is not None:
        records = open_records(path, run.options)
        if records.format not in LINE_FORMATS or not _is_line_table(path, records, schema):
            return _table_input(records, schema)
    elif path != STANDARD_INPUT and run.task in INPUT_ROLES and not _is_empty(path):
        found = _open_columns(path, run.options)
        if found is not None:
            has_tabs = found.delimiter == "\t" and not run.keeps_tabs
            if is_record_file(path) or has_tabs or found.format not in LINE_FORMATS:
                return _column_input(found, run)
    split = TargetRemover(run, labels)

    numbers = count(1)

    def row(line: str, number: int, warn: WarnFunction) -> InputRow:
        text = split(line, f"{path}, line {number:,}", warn)
        return InputRow(text, text)

    def rows(lines: Iterator[str], warn: WarnFunction) -> Iterator[InputRow]:
        return (
            row(line, number, warn) if line else EMPTY_LINE
            for line, number in zip(lines, numbers, strict=False)
        )

    return FileInput(lambda warn: (rows(lines, warn) for lines in read(path, warn)))


def _open_columns(path: str, options: "RoleOptions") -> "Records | None":
    """Open a file by columns; None for a text file that cannot be, which is read line by line."""
    from saccade.data.records.open import open_records

    try:
        return open_records(path, options)
    except DataError:
        if Path(path).suffix.lower() not in LINE_SUFFIXES:
            raise
        return None


def _is_empty(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) == 0


class TargetRemover:
    """Remover of the target from "source TAB target", "label TAB text" and "__label__NAME text"."""

    def __init__(self, run: RunColumns, labels: Sequence[str] = ()):
        self.run, self.labels = run, frozenset(labels)
        self.is_stated = False

    def __call__(self, text: str, where: str, warn: WarnFunction) -> str:
        """Return the input of a line; `DataError` if a tab cannot be understood."""
        if self.run.task == "classify" and (matched := match_prefixed_labels(text)):
            return self._take(text[matched.end() :], "after the labels", where, warn)
        if "\t" not in text.strip() or self.run.keeps_tabs:
            return text
        cells = text.strip("\r\n").split("\t")
        if self.run.columns.get("pair") is not None and len(cells) == 2:
            return text
        if self.run.task == "translate" and len(cells) == 2:
            return self._take(cells[0], "before the tab", where, warn)
        if cells[0] in self.labels:
            return self._take(text.partition("\t")[2], "after the tab", where, warn)
        if cells[-1] in self.labels:
            return self._take(text.rpartition("\t")[0], "before the tab", where, warn)
        raise DataError(
            f"{where}: got {len(cells)} columns with tabs between; expected a text without a tab, "
            "as in training; try a file named .tsv, whose columns are read by name or position."
        )

    def _take(self, text: str, side: str, where: str, warn: WarnFunction) -> str:
        if not self.is_stated:
            self.is_stated = True
            warn(f"{where}: read the text {side}; the rest of the line is not used.")
        return text


# --- columns --------------------------------------------------------------------------------------


def _column_input(records: "Records", run: RunColumns) -> FileInput:
    from saccade.data.task_records import find_input_columns
    from saccade.data.text.text_pairs import join_pair

    column, second = find_input_columns(records, run.task, run.columns)
    position = records.columns.index(column)
    folder = os.path.dirname(records.name) if takes_paths(run.task) else ""
    pair_position = None if second is None else records.columns.index(second)

    def rows() -> Iterator[InputRow]:
        for cells in _cells(records):
            text = cells[position] or ""
            if pair_position is not None:
                text = join_pair(text, cells[pair_position]) or ""
            # paths of a table are relative to its folder, as in training
            yield InputRow(text, os.path.join(folder, text) if text else text, cells)

    unused = [name for name in records.columns if name not in (column, second)]
    note = _read_note(records, column, unused)
    return FileInput(lambda warn: iter([rows()]), records.columns, notes=(note,))


def _token_input(path: str, data: "TaggedTextConfig") -> FileInput:
    """Return the sentences of a file of tokens, which are not split again."""
    from saccade.data.tagging.readers import read_sentence_tokens

    sentences = read_sentence_tokens(path, data)
    note = f"read the tokens of {len(sentences):,} sentences of {path}."
    rows = (InputRow(" ".join(tokens), tokens) for tokens in sentences)
    return FileInput(lambda warn: iter([rows]), notes=(note,))


def _question_input(path: str, options: "RoleOptions") -> FileInput:
    """Return the questions and contexts of SQuAD's JSON, JSON lines or a table."""
    from saccade.data.answering.readers import read_question_rows

    questions = read_question_rows(path, options)
    note = f"read {len(questions):,} questions with their contexts from {path}."
    rows = (InputRow(q.question, (q.question, q.context), (q.id, *q[1:3])) for q in questions)
    columns = ("id", "question", "context")
    return FileInput(lambda warn: iter([rows]), columns, notes=(note,))


def _cells(records: "Records") -> Iterator[tuple[str | None, ...]]:
    return chain.from_iterable(
        zip(*chunk.columns.values(), strict=True) for chunk in records.chunks()
    )


def _read_note(records: "Records", column: str, unused: Sequence[str]) -> str:
    note = f"read column {column!r} of {records.name}"
    if not unused:
        return f"{note}."
    names = ", ".join(map(repr, unused))
    what = f"the column {names} is" if len(unused) == 1 else f"the columns {names} are"
    return f"{note}; {what} not used."


def _is_line_table(path: str, records: "Records", schema: "TableSchema") -> bool:
    """Return True if each line of a file is a row as `predict` takes it, after a header or not."""
    from saccade.io.text_files import read_lines

    first = next((line for line in read_lines(path, records.encoding) if line.strip()), "")
    names = {column.name for column in schema.columns}
    return not records.has_header or schema.is_header(first) or not names <= {*records.columns}


def _table_input(records: "Records", schema: "TableSchema") -> FileInput:
    from saccade.data.task_records import LINE_FORMATS

    names = [column.name for column in schema.columns]
    if not records.has_header and len(records.columns) == len(schema.names):
        named = dict(zip(schema.names, records.columns, strict=True))
    else:
        named = {name: name for name in names}
    for name in names:
        records.check_column(named[name])
    positions = {name: records.columns.index(named[name]) for name in names}

    def rows() -> Iterator[InputRow]:
        for cells in _cells(records):
            value: dict[str, Any] = {name: cells[at] for name, at in positions.items()}
            yield InputRow(schema.delimiter.join(cell or "" for cell in cells), value, cells)

    unused = [name for name in records.columns if name not in named.values()]
    is_lines = records.format in LINE_FORMATS and records.has_header
    note = f"read {len(names)} columns of {records.name} by name"
    if unused:
        note += f"; not used: {', '.join(map(repr, unused))}"
    first_line = schema.target.name if is_lines else None
    return FileInput(lambda warn: iter([rows()]), records.columns, first_line, (f"{note}.",))
