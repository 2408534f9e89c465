"""A long text as ids in a file: written once, a few lines at a time, and mapped into memory.

The tokenizers read a line at a time, so no token of theirs is a line's end. Here the end mark is:
it follows every line, empty ones too, and stands before the first.

Only the pages that are read are in memory, so that a text larger than it can be learned from. The
ids are little-endian whole numbers of 2 bytes (of 4 with more than 65,536 tokens); beside them
tokens.json says how many, and what a person would count.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.tokenizers import Tokenizer
from saccade.data.vocabulary import END
from saccade.errors import RunError
from saccade.sealed import damaged, read_json, write_json

AT_ONCE = 1024  # lines
FEW = 40  # lines; with fewer, a share of them would be none or far too much
INDEX = "tokens.json"


class Corpus(NamedTuple):
    """A text as ids, and how many characters and words it has, line ends counted as one."""

    ids: NDArray[Any]
    characters: int
    words: int


class Lines:
    """Some of the lines of a text, read anew whenever they are gone through."""

    def __init__(self, read: Callable[[], Iterator[str]], first: int, last: int):
        self.read, self.first, self.last = read, first, last

    def __len__(self) -> int:
        return self.last - self.first

    def __iter__(self) -> Iterator[str]:
        return islice(self.read(), self.first, self.last)


def without_the_end(lines: Lines, share: float) -> tuple[Lines, Lines]:
    """A text without its last part, and that part: whole lines, unless there are few of them."""
    if len(lines) >= FEW:
        cut = lines.last - max(1, round(share * len(lines)))
        return Lines(lines.read, lines.first, cut), Lines(lines.read, cut, lines.last)
    text = "\n".join(lines)
    cut = len(text) - max(1, round(share * len(text)))
    space = max(text.rfind(" ", 0, cut), text.rfind("\n", 0, cut))
    parts = (text[: space + 1], text[space + 1 :]) if space > 0 else (text[:cut], text[cut:])
    return _held(parts[0].removesuffix("\n")), _held(parts[1])


def _held(text: str) -> Lines:
    lines = text.split("\n")
    return Lines(lambda: iter(lines), 0, len(lines))


def corpus_of(
    tokenizer: Tokenizer, lines: Iterable[str], tell: Callable[[int], None] = lambda more: None
) -> Corpus:
    """A text in memory; `tell` is told how many lines more are done."""
    parts = [np.empty(0, _kind(tokenizer))]
    characters, words = _encode(tokenizer, lines, parts.append, tell)
    return Corpus(np.concatenate(parts), characters, words)


def write_corpus(
    path: Path,
    tokenizer: Tokenizer,
    lines: Iterable[str],
    tell: Callable[[int], None] = lambda more: None,
) -> Corpus:
    """A text in a file; it is whole when this returns, and `write_index` has not named it yet."""
    with path.open("wb") as file:
        characters, words = _encode(tokenizer, lines, lambda ids: file.write(ids.tobytes()), tell)
        file.flush()
        os.fsync(file.fileno())
    return Corpus(_mapped(path, _kind(tokenizer)), characters, words)


def write_index(folder: Path, corpora: Mapping[str, Corpus]) -> None:
    """Say what the files of a folder hold: with this they can be read."""
    splits = {
        split: {
            "bytes": int(corpus.ids.itemsize),
            "tokens": len(corpus.ids),
            "characters": corpus.characters,
            "words": corpus.words,
        }
        for split, corpus in corpora.items()
    }
    write_json(folder / INDEX, {"splits": splits})


def read_corpora(folder: Path) -> dict[str, Corpus]:
    """The texts of a folder, by their splits."""
    found = {}
    for split, facts in read_json(folder / INDEX)["splits"].items():
        path = file_of(folder, split)
        try:
            ids = _mapped(path, np.dtype(f"<u{facts['bytes']}"))
        except OSError as error:
            raise RunError(f"{path} could not be read: {error.strerror or error}.") from None
        if len(ids) != facts["tokens"]:
            raise damaged(path, f"it holds {len(ids):,} tokens of {facts['tokens']:,}")
        found[split] = Corpus(ids, facts["characters"], facts["words"])
    return found


def file_of(folder: Path, split: str) -> Path:
    """Where the ids of a split are."""
    return folder / f"{split}.ids"


def _kind(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<u4")


def _mapped(path: Path, kind: np.dtype[Any]) -> NDArray[Any]:
    if not path.stat().st_size:  # nothing cannot be mapped
        return np.empty(0, kind)
    return np.memmap(path, kind, mode="r")


def _encode(
    tokenizer: Tokenizer,
    lines: Iterable[str],
    put: Callable[[NDArray[Any]], object],
    tell: Callable[[int], None],
) -> tuple[int, int]:
    """The ids of all lines, the end mark before the first and after each; their sizes.

    The first line begins where a line ended, so that its first token, too, is told by something.
    """
    kind = _kind(tokenizer)
    characters = words = 0
    put(np.array([END], kind))
    left = iter(lines)
    while some := list(islice(left, AT_ONCE)):
        encoded = tokenizer.encode_many(some)
        put(np.fromiter(chain.from_iterable((*ids, END) for ids in encoded), kind))
        characters += sum(map(len, some)) + len(some)
        words += sum(len(line.split()) for line in some) + len(some)
        tell(len(some))
    return characters, words
