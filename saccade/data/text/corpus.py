"""Plain text: the lines of a file or a folder, and the built-in text."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

from saccade.errors import DataError
from saccade.io.text_files import STANDARD_INPUT, read_lines


def read_text_corpus(path: str | Path) -> Iterator[str]:
    """Yield each line of a text file (plain, .gz or .xz), or of a folder's files sorted by name.

    Hidden files are skipped, subfolders are read too. A text without a word is a `DataError`.
    """
    has_text = False
    for file in list_text_files(path):
        for line in read_lines(file):
            has_text = has_text or bool(line.strip())
            yield line
    if not has_text:
        raise DataError(f"{path}: got no text; expected one word or more.")


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


def python_reference_text() -> str:
    """Return the Python language reference of the interpreter, sorted by topic.

    A real text that needs no download. It differs a little between versions of Python.
    """
    return "\n".join(topics[name] for name in sorted(topics))


SYNTHETIC_TEXTS: dict[str, Callable[[], str]] = {"python": python_reference_text}
