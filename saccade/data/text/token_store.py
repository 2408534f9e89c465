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
from saccade.data.vocabulary import EOS
from saccade.errors import RunError
from saccade.io.atomic import corrupt_file_error, read_checksummed_json, write_checksummed_json

LINE_CHUNK = 1024  # lines
MIN_LINES_TO_SPLIT = 40  # lines; with fewer, a share of them would be none or far too much
TOKEN_INDEX_FILE = "tokens.json"


class TokenCorpus(NamedTuple):
    """A text as ids, and how many characters and words it has, line ends counted as one."""

    ids: NDArray[Any]
    characters: int
    words: int


class LineRange:
    """Some of the lines of a text, read anew whenever they are gone through."""

    def __init__(self, read: Callable[[], Iterator[str]], first: int, last: int):
        self.read, self.first, self.last = read, first, last

    def __len__(self) -> int:
        return self.last - self.first

    def __iter__(self) -> Iterator[str]:
        return islice(self.read(), self.first, self.last)


def split_off_end(lines: LineRange, share: float) -> tuple[LineRange, LineRange]:
    """A text without its last part, and that part: whole lines, unless there are few of them."""
    if len(lines) >= MIN_LINES_TO_SPLIT:
        cut = lines.last - max(1, round(share * len(lines)))
        return LineRange(lines.read, lines.first, cut), LineRange(lines.read, cut, lines.last)
    text = "\n".join(lines)
    cut = len(text) - max(1, round(share * len(text)))
    space = max(text.rfind(" ", 0, cut), text.rfind("\n", 0, cut))
    parts = (text[: space + 1], text[space + 1 :]) if space > 0 else (text[:cut], text[cut:])
    return _held(parts[0].removesuffix("\n")), _held(parts[1])


def _held(text: str) -> LineRange:
    lines = text.split("\n")
    return LineRange(lambda: iter(lines), 0, len(lines))


def encode_corpus(
    tokenizer: Tokenizer,
    lines: Iterable[str],
    on_progress: Callable[[int], None] = lambda more: None,
) -> TokenCorpus:
    """A text in memory; `tell` is told how many lines more are done."""
    parts = [np.empty(0, _kind(tokenizer))]
    characters, words = _encode(tokenizer, lines, parts.append, on_progress)
    return TokenCorpus(np.concatenate(parts), characters, words)


def write_corpus(
    path: Path,
    tokenizer: Tokenizer,
    lines: Iterable[str],
    on_progress: Callable[[int], None] = lambda more: None,
) -> TokenCorpus:
    """A text in a file; it is whole when this returns, and `write_index` has not named it yet."""
    with path.open("wb") as file:
        characters, words = _encode(
            tokenizer, lines, lambda ids: file.write(ids.tobytes()), on_progress
        )
        file.flush()
        os.fsync(file.fileno())
    return TokenCorpus(_mapped(path, _kind(tokenizer)), characters, words)


def write_corpus_index(folder: Path, corpora: Mapping[str, TokenCorpus]) -> None:
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
    write_checksummed_json(folder / TOKEN_INDEX_FILE, {"splits": splits})


def read_corpora(folder: Path) -> dict[str, TokenCorpus]:
    """The texts of a folder, by their splits."""
    found = {}
    for split, facts in read_checksummed_json(folder / TOKEN_INDEX_FILE)["splits"].items():
        path = token_file(folder, split)
        try:
            ids = _mapped(path, np.dtype(f"<u{facts['bytes']}"))
        except OSError as error:
            raise RunError(f"{path} could not be read: {error.strerror or error}.") from None
        if len(ids) != facts["tokens"]:
            raise corrupt_file_error(path, f"it holds {len(ids):,} tokens of {facts['tokens']:,}")
        found[split] = TokenCorpus(ids, facts["characters"], facts["words"])
    return found


def token_file(folder: Path, split: str) -> Path:
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
    on_progress: Callable[[int], None],
) -> tuple[int, int]:
    """The ids of all lines, the end mark before the first and after each; their sizes.

    The first line begins where a line ended, so that its first token, too, is told by something.
    """
    kind = _kind(tokenizer)
    characters = words = 0
    put(np.array([EOS], kind))
    left = iter(lines)
    while some := list(islice(left, LINE_CHUNK)):
        encoded = tokenizer.encode_many(some)
        put(np.fromiter(chain.from_iterable((*ids, EOS) for ids in encoded), kind))
        characters += sum(map(len, some)) + len(some)
        words += sum(len(line.split()) for line in some) + len(some)
        on_progress(len(some))
    return characters, words
