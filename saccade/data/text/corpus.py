"""Text: the lines of files or of a column of texts, and the built-in text."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.roles import AskColumn, RoleChoice
from saccade.data.source import SyntheticSource
from saccade.data.split_keys import describe_division, split_columns
from saccade.data.splits import SplitConfig
from saccade.data.task_records import (
    describe_records,
    given_columns,
    is_in_memory,
    is_record_file,
    open_task_records,
)
from saccade.data.text.config import TextConfig
from saccade.errors import DataError
from saccade.io.byte_source import COMPRESSED_SUFFIXES
from saccade.io.text_files import STANDARD_INPUT, file_encoding, read_blocks, read_lines

BLOCK_CHARACTERS = 1 << 20  # of a column of texts that are joined into a block


@dataclass(frozen=True)
class Documents:
    """The texts of a column, without empty ones; each iteration starts anew."""

    records: Records
    column: str
    end: str = ""  # added to each text

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield the line or row of each text in its file, and the text."""
        for chunk in self.records.chunks([self.column]):
            cells = chunk.columns[self.column]
            for number, text in zip(chunk.numbers.tolist(), cells, strict=True):
                if text and text.strip():
                    yield number, text + self.end

    def __iter__(self) -> Iterator[str]:
        return (text for _, text in self.numbered())


@dataclass(frozen=True)
class TextCorpus:
    """Lines of text; each call of `read` starts anew."""

    name: str
    read: Callable[[], Iterator[str]]
    read_blocks: Callable[[], Iterator[bytes]]  # whole lines in UTF-8
    size: int | None = None  # bytes, of uncompressed files
    columns: dict[str, str] = field(default_factory=dict)  # by role; empty: plain text
    choices: list[RoleChoice] = field(default_factory=list)  # that the settings left open
    notes: list[str] = field(default_factory=list)
    documents: Documents | None = None  # None: one long text


def open_text_corpus(
    data: str | Path | object,
    config: ReadOptions,
    task: str,
    is_other: bool = False,
    ask: AskColumn | None = None,
    separate_documents: bool = False,
) -> TextCorpus:
    """Open a text: plain files, or a column of texts in any other format or in memory.

    Args:
        data: a file, a folder or an object in memory. Files are plain text unless their format has
            columns: a file of text with commas is not CSV without the suffix.
        config: settings of the data; `config.text` names a column.
        task: "bert", "language" or "vectors".
        is_other: True for other data than that of the settings.
        ask: function that asks the user which column has a role.
        separate_documents: add an empty line after each file, or each text of a column.
    """
    if _is_plain(data, config, task):
        files = list_text_files(str(data))
        return plain_corpus(files, str(data), config.encoding, separate_documents)
    opened = open_task_records(data, config, task, is_other=is_other, ask=ask)
    end = "\n" if separate_documents else ""
    documents = Documents(opened.records, opened.columns["text"], end)
    read = partial(_read_lines, documents)
    return TextCorpus(
        opened.records.name,
        read,
        lambda: join_text_lines(read()),
        columns=opened.columns,
        choices=opened.choices,
        notes=describe_records(opened.records),
        documents=documents,
    )


def _is_plain(data: str | Path | object, config: ReadOptions, task: str) -> bool:
    """Return True for files without columns."""
    if is_in_memory(data) or any(given_columns(config, task).values()):
        return False
    if isinstance(config, SplitConfig) and split_columns(config):
        return False
    path = str(data)
    if path == STANDARD_INPUT:
        return True
    if os.path.isdir(path):
        return not any(map(is_record_file, list_text_files(path)))
    return not is_record_file(path)


def _read_lines(documents: Documents) -> Iterator[str]:
    """Yield each line of the texts of a column."""
    has_text = False
    for text in documents:
        has_text = True
        yield from split_text_lines(text)
    if not has_text:
        name = documents.records.name
        raise DataError(f"{name}: got no text in {documents.column!r}; expected some.")


def split_text_lines(text: str) -> list[str]:
    """Return the lines of a document."""
    return text.replace("\r\n", "\n").split("\n")


def join_text_lines(lines: Iterable[str]) -> Iterator[bytes]:
    """Yield blocks of whole lines in UTF-8."""
    pending: list[str] = []
    size = 0
    for line in lines:
        pending.append(line)
        size += len(line) + 1
        if size >= BLOCK_CHARACTERS:
            yield ("\n".join(pending) + "\n").encode()
            pending, size = [], 0
    if pending:
        yield ("\n".join(pending) + "\n").encode()


# --- files ----------------------------------------------------------------------------------------


def read_text_corpus(path: str | Path, encoding: str | None = None) -> Iterator[str]:
    """Yield each line of a text file, compressed or not, or of a folder's files sorted by name.

    Hidden files are skipped, subfolders are read too. A text without a word is a `DataError`.
    """
    return _file_lines(list_text_files(path), str(path), encoding)


def _file_lines(
    files: list[Path], name: str, encoding: str | None, separate_documents: bool = False
) -> Iterator[str]:
    has_text = False
    for file in files:
        for line in read_lines(file, encoding):
            has_text = has_text or bool(line.strip())
            yield line
        if separate_documents:
            yield ""
    if not has_text:
        raise DataError(f"{name}: got no text; expected one word or more.")


def list_text_files(path: str | Path) -> list[Path]:
    """Return a file, or the files of a folder sorted by name."""
    folder = Path(path)
    if str(path) == STANDARD_INPUT or not os.path.isdir(folder):
        return [folder]
    inside = (entry.relative_to(folder) for entry in folder.rglob("*") if entry.is_file())
    visible = [entry for entry in inside if not any(part.startswith(".") for part in entry.parts)]
    if not visible:
        raise DataError(f"{path}: got a folder with no files to read; expected text files.")
    return [folder / entry for entry in sorted(visible, key=lambda entry: entry.parts)]


def plain_corpus(
    files: list[Path], name: str, encoding: str | None = None, separate_documents: bool = False
) -> TextCorpus:
    """Return the lines of plain files, if asked for with an empty one after each file."""
    return TextCorpus(
        name,
        lambda: _file_lines(files, name, encoding, separate_documents),
        lambda: (block.content for file in files for block in read_blocks(file, encoding)),
        _file_size(files),
        notes=_describe_files(files, name, encoding),
    )


def _describe_files(files: list[Path], name: str, encoding: str | None) -> list[str]:
    """Return a note about plain files: how many there are, and the encoding of the first."""
    if name == STANDARD_INPUT:
        return []
    found = file_encoding(files[0], encoding)
    count = "" if len(files) == 1 else f"{len(files):,} files, "
    guessed = "" if found.is_certain or encoding else " (detected)"
    return [f"{name}: {count}lines of text, {found.name.upper()}{guessed}."]


def text_corpus_of(text: str, name: str) -> TextCorpus:
    """Return a text in memory."""
    content = text.encode() + b"\n"
    return TextCorpus(name, lambda: iter(text.split("\n")), lambda: iter([content]), len(content))


def synthetic_corpus(
    source: SyntheticSource[Callable[[], str]], config: TextConfig, task: str
) -> TextCorpus:
    """Return a built-in text; its lines are documents if they are divided."""
    text = source.generate()
    if not describe_division(config):
        return text_corpus_of(text, source.name)
    return open_text_corpus(text.split("\n"), config, task)


def _file_size(files: list[Path]) -> int | None:
    """Return the size of uncompressed files in bytes, for a progress bar."""
    if any(file.suffix in COMPRESSED_SUFFIXES or not file.is_file() for file in files):
        return None
    return sum(file.stat().st_size for file in files)


def python_reference_text() -> str:
    """Return the Python language reference of the interpreter, sorted by topic.

    A real text that needs no download. It differs a little between versions of Python.
    """
    return "\n".join(topics[name] for name in sorted(topics))


SYNTHETIC_TEXTS: dict[str, Callable[[], str]] = {"python": python_reference_text}
