"""Folders, globs and archives as records: the data files in them, one after another.

Data files are recognised by their suffixes. Datasets that Hugging Face's `save_to_disk` wrote are
read without the package `datasets`: `dataset_dict.json` lists the splits, `state.json` the files.
"""

import glob
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.columnar import ClassNames, class_names, open_arrow
from saccade.data.records.concatenate import FilePart, concatenate_files
from saccade.data.records.files import data_format, open_file
from saccade.errors import DataError
from saccade.io.archives import list_members, member_source
from saccade.io.byte_source import ByteSource, file_source, plain_suffix
from saccade.io.documents import parse_json
from saccade.registry import did_you_mean

MAX_LISTED_MEMBERS = 8
# files of a dataset that describe it
METADATA = frozenset(
    "dataset_dict.json dataset_info.json dataset_infos.json state.json config.json metadata.json "
    "croissant.json datapackage.json".split()
)
_DOCUMENTS = ("readme", "license", "licence", "copying", "changelog", "citation", "authors")


def open_folder(folder: Path, name: str, options: ReadOptions, member: str | None) -> Records:
    """Open the data files of a folder; `member` is a file, a subfolder or a split of it."""
    if (folder / "dataset_dict.json").is_file():
        return _open_dataset_dict(folder, name, options, member)
    if (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file():
        return concatenate_files(name, _dataset_files(folder, ""), options)
    inside = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    files = [path.as_posix() for path in inside if not _is_hidden(path.as_posix())]
    if member is not None:
        chosen = [file for file in files if file == member or file.startswith(f"{member}/")]
        if not chosen:
            raise _no_member(name, member, files)
        files = chosen
    chosen = choose_files(name, files)
    return concatenate_files(name, [_file_part(folder, file) for file in chosen], options)


def open_glob(pattern: str, options: ReadOptions) -> Records:
    """Open the files that a pattern with * ? [ ] or ** matches."""
    files = sorted(path for path in glob.glob(pattern, recursive=True) if Path(path).is_file())
    if not files:
        raise DataError(
            f"{pattern}: got no file that matches; expected one or more; check the folder: "
            f"ls {Path(pattern).parent}"
        )
    return concatenate_files(pattern, [_file_part(Path(), file) for file in files], options)


def open_archive(
    source: ByteSource, kind: str, options: ReadOptions, member: str | None
) -> Records:
    """Open the data files of a zip or tar archive, or one of them."""
    names = [found.name for found in list_members(source, kind) if found.size]
    if member is not None:
        file, _, inner = (member, "", "") if member in names else member.partition("#")
        return open_file(member_source(source, kind, file), options, inner or None)
    parts = [
        FilePart(name, partial(_open_member, source, kind, name))
        for name in choose_files(source.name, names)
    ]
    return concatenate_files(source.name, parts, options)


def _open_member(source: ByteSource, kind: str, name: str, options: ReadOptions) -> Records:
    return open_file(member_source(source, kind, name), options)


def _file_part(folder: Path, file: str) -> FilePart:
    return FilePart(file, lambda options: open_file(file_source(folder / file), options))


def _is_hidden(file: str) -> bool:
    return any(part.startswith((".", "_")) for part in PurePosixPath(file).parts)


def choose_files(name: str, files: Iterable[str]) -> list[str]:
    """Return the data files among others, sorted; `DataError` if they are of several formats."""
    found = sorted(files)
    data = [file for file in found if data_format(file) and not _is_description(file)]
    if not data and found and not any(plain_suffix(file) for file in found):
        data = [file for file in found if not _is_description(file)]  # lines of text
    tables = [file for file in data if plain_suffix(file) != ".txt"]
    formats = defaultdict(list)
    for file in tables or data:  # text files next to tables are notes or lists of labels
        formats[data_format(file)].append(file)
    groups = list(formats.values())
    if len(groups) == 1:
        return groups[0]
    if not groups:
        listed = ", ".join(found[:MAX_LISTED_MEMBERS]) or "nothing"
        raise DataError(
            f"{name}: got no data file; expected .csv, .tsv, .jsonl, .parquet or another table. "
            f"It contains: {listed}."
        )
    examples = ", ".join(f"{name}#{group[0]}" for group in groups)
    raise DataError(f"{name}: got files of several formats; expected one; try one of: {examples}")


def _is_description(file: str) -> bool:
    name = PurePosixPath(file).name.lower()
    return name in METADATA or name.startswith(_DOCUMENTS)


def _no_member(name: str, member: str, files: list[str]) -> DataError:
    listed = ", ".join(sorted(files)[:MAX_LISTED_MEMBERS])
    return DataError(
        f"{name}: got no file {member!r}.{did_you_mean(member, files)} It contains: {listed}."
    )


# --- datasets on the disk -------------------------------------------------------------------------


def _open_dataset_dict(
    folder: Path, name: str, options: ReadOptions, member: str | None
) -> Records:
    splits = list(map(str, _read_json(folder / "dataset_dict.json").get("splits", [])))
    if member is not None and member not in splits:
        raise _no_member(name, member, splits)
    chosen = splits if member is None else [member]
    parts = [part for split in chosen for part in _dataset_files(folder / split, f"{split}/")]
    if not parts:
        raise DataError(f"{name}: got a dataset without splits; expected one or more.")
    return concatenate_files(name, parts, options)


def _dataset_files(folder: Path, prefix: str) -> list[FilePart]:
    """Return the Arrow files of a dataset that was saved to the disk."""
    state = _read_json(folder / "state.json")
    if state.get("_indices_data_files"):
        raise DataError(
            f"{folder}: got a dataset whose rows are chosen by a file of indices; expected the "
            "rows themselves; try dataset.flatten_indices().save_to_disk(FOLDER)."
        )
    info = folder / "dataset_info.json"
    classes = class_names(info.read_text(encoding="utf-8") if info.is_file() else "")
    files = [Path(str(file["filename"])).name for file in state.get("_data_files", [])]
    return [
        FilePart(f"{prefix}{file}", partial(_open_dataset_file, folder / file, classes))
        for file in files
    ]


def _open_dataset_file(path: Path, classes: ClassNames, options: ReadOptions) -> Records:
    return open_arrow(file_source(path), classes)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} could not be read: {error}.") from None
    return value if isinstance(value, dict) else {}
