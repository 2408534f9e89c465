"""A text as its lines: of a file, of a folder of them, or the one that is always there."""

import os
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

from saccade.errors import DataError
from saccade.io.text_files import STANDARD_INPUT, read_lines


def read_text_corpus(path: str | Path) -> Iterator[str]:
    """Each line of a text file (plain, .gz or .xz), or of all files of a folder by their names.

    Hidden files are left out, folders inside are read too. The text must hold something.
    """
    some = False
    for file in list_text_files(path):
        for line in read_lines(file):
            some = some or bool(line.strip())
            yield line
    if not some:
        raise DataError(f"{path} holds no text; a text of one word or more was wanted.")


def list_text_files(path: str | Path) -> list[Path]:
    """A file, or the files of a folder by their names."""
    folder = Path(path)
    if str(path) == STANDARD_INPUT or not os.path.isdir(folder):
        return [folder]
    inside = (entry.relative_to(folder) for entry in folder.rglob("*") if entry.is_file())
    shown = [entry for entry in inside if not any(part.startswith(".") for part in entry.parts)]
    if not shown:
        raise DataError(f"{path} is a folder with no files to read; put some text files there.")
    return [folder / entry for entry in sorted(shown, key=lambda entry: entry.parts)]


def python_reference_text() -> str:
    """The Python language reference that every interpreter carries, by its topics' names.

    It is the one real text that is always there. It differs a little from one version of Python
    to the next.
    """
    return "\n".join(topics[name] for name in sorted(topics))
