"""Token ids of a long text in a file, written once, line chunk by line chunk, and memory-mapped.

The tokenizers encode single lines, so none of their tokens is a line end. Here it is the token EOS:
it follows every line, empty ones too, and precedes the first.

Only the pages that are read are in memory, so that a text larger than the memory can be trained on.
The ids are little-endian integers of 2 bytes (4 with more than 65,536 tokens); tokens.json in the
same folder has the number of tokens, characters and words.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.data.special_tokens import EOS
from saccade.data.splits import SPLIT_NAMES
from saccade.data.tokenizers import Tokenizer
from saccade.io.atomic import corrupt_file_error, read_checksummed_json, write_checksummed_json
from saccade.io.documents import parse_structure
from saccade.io.id_files import IdRange, ids_checksum, open_ids
from saccade.io.memmap import open_memmap

LINE_CHUNK = 1024  # lines encoded per call
MIN_LINES_TO_SPLIT = 40  # a text of fewer lines is split inside a line
TOKEN_INDEX_FILE = "tokens.json"


class TokenCorpus(NamedTuple):
    """A text as ids, and its numbers of characters and words; a line end counts as one of each."""

    ids: NDArray[Any]
    characters: int
    words: int


class LineRange:
    """A range of the lines of a text, read again at every iteration."""

    def __init__(self, read: Callable[[], Iterator[str]], first: int, last: int):
        self.read, self.first, self.last = read, first, last

    def __len__(self) -> int:
        return self.last - self.first

    def __iter__(self) -> Iterator[str]:
        return islice(self.read(), self.first, self.last)


def split_off_end(lines: LineRange, share: float) -> tuple[LineRange, LineRange]:
    """Split the last `share` off a text: whole lines, unless there are fewer than 40."""
    if len(lines) >= MIN_LINES_TO_SPLIT:
        cut = lines.first + cut_off_end(len(lines), share)
        return LineRange(lines.read, lines.first, cut), LineRange(lines.read, cut, lines.last)
    text = "\n".join(lines)
    cut = cut_off_end(len(text), share)
    space = max(text.rfind(" ", 0, cut), text.rfind("\n", 0, cut))
    parts = (text[: space + 1], text[space + 1 :]) if space > 0 else (text[:cut], text[cut:])
    return _lines_in_memory(parts[0].removesuffix("\n")), _lines_in_memory(parts[1])


def cut_off_end(count: int, share: float) -> int:
    """Return the position from which the last `share` is held out: one of `count` or more."""
    return count - max(1, round(share * count))


def _lines_in_memory(text: str) -> LineRange:
    lines = text.split("\n")
    return LineRange(lambda: iter(lines), 0, len(lines))


def encode_corpus(
    tokenizer: Tokenizer,
    lines: Iterable[str],
    on_progress: Callable[[int], None] = lambda more: None,
) -> TokenCorpus:
    """Encode a text in memory; `on_progress` gets the number of lines of each chunk."""
    parts = [np.empty(0, _id_dtype(tokenizer))]
    characters, words = _encode(tokenizer, lines, parts.append, on_progress)
    return TokenCorpus(np.concatenate(parts), characters, words)


def write_corpus(
    path: Path,
    tokenizer: Tokenizer,
    lines: Iterable[str],
    on_progress: Callable[[int], None] = lambda more: None,
) -> TokenCorpus:
    """Encode a text into a file; `write_corpus_index` must follow before it can be read."""
    part = path.with_name(f".{path.name}.part")  # another process may have mapped the old file
    with part.open("wb") as file:
        characters, words = _encode(
            tokenizer, lines, lambda ids: file.write(ids.tobytes()), on_progress
        )
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return TokenCorpus(open_memmap(path, _id_dtype(tokenizer)), characters, words)


def write_corpus_index(folder: Path, corpora: Mapping[str, TokenCorpus]) -> None:
    """Write the index of the corpora in a folder, without which they cannot be read."""
    splits = {
        split: {
            "bytes": int(corpus.ids.itemsize),
            "tokens": len(corpus.ids),
            "crc32": ids_checksum(corpus.ids),
            "characters": corpus.characters,
            "words": corpus.words,
        }
        for split, corpus in corpora.items()
    }
    write_checksummed_json(folder / TOKEN_INDEX_FILE, {"splits": splits})


def read_corpora(folder: Path, vocab_size: int) -> dict[str, TokenCorpus]:
    """Return the corpora of a folder by split; RunError if a file of them is damaged."""
    index = read_checksummed_json(folder / TOKEN_INDEX_FILE)
    valid = IdRange(0, vocab_size - 1)
    try:
        splits = parse_structure(dict[str, dict[str, Annotated[int, Field(ge=0)]]], index["splits"])
        if unknown := {*splits} - {*SPLIT_NAMES}:
            raise ValueError(f"got the split {min(unknown)!r:.100}")
        return {
            split: TokenCorpus(
                open_ids(
                    token_file(folder, split),
                    np.dtype(f"<u{facts['bytes']}"),
                    valid,
                    facts["tokens"],
                    facts.get("crc32"),
                ),
                facts["characters"],
                facts["words"],
            )
            for split, facts in splits.items()
        }
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it has another structure ({error})"
        raise corrupt_file_error(folder / TOKEN_INDEX_FILE, reason) from None


def token_file(folder: Path, split: str) -> Path:
    """Return the path of the ids of a split."""
    return folder / f"{split}.ids"


def _id_dtype(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<u4")


def _encode(
    tokenizer: Tokenizer,
    lines: Iterable[str],
    put: Callable[[NDArray[Any]], object],
    on_progress: Callable[[int], None],
) -> tuple[int, int]:
    """Pass the ids of all lines to `put`, EOS before the first and after each; return the counts.

    The first line follows an EOS, so that its first token, too, is predicted from something.
    """
    dtype = _id_dtype(tokenizer)
    characters = words = 0
    put(np.array([EOS], dtype))
    left = iter(lines)
    while chunk := list(islice(left, LINE_CHUNK)):
        encoded = tokenizer.encode_many(chunk)
        put(np.fromiter(chain.from_iterable((*ids, EOS) for ids in encoded), dtype))
        characters += sum(map(len, chunk)) + len(chunk)
        words += sum(len(line.split()) for line in chunk) + len(chunk)
        on_progress(len(chunk))
    return characters, words
