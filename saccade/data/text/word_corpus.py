"""Word ids of a text, for word vectors and other models of words.

A word is a string between spaces (`split="whitespace"`, for pretokenized text), or, in plain text,
a lower-cased word, number or symbol (`split="words"`). Each new word gets the next id; at the end
the ids are remapped so that frequent words come first, and rare words are dropped. A line end is
LINE_END.

The words are in a hash table with open addressing, since compiled code cannot use Python's.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.compiled.jit import jit_nogil
from saccade.data.word_splitting import SPLITTERS, split_words
from saccade.errors import DataError
from saccade.io.memmap import open_memmap
from saccade.types.arrays import ByteArray, Int32Array, IntArray

LINE_END = -1  # after each line
PRETOKENIZERS = ("whitespace", "words")

_FREE = -1
_RARE = -2
_NEWLINE, _SPACE, _TAB, _RETURN = 10, 32, 9, 13
_SEED, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits


class WordCorpus(NamedTuple):
    """A text as word ids, with its vocabulary."""

    words: list[str]  # by id: the most frequent is 0
    counts: IntArray
    ids: Int32Array  # LINE_END after each line; rare words are left out
    read: int  # words of the text, including rare ones
    held_out: Int32Array | None = None  # lines of another split; None: the last ones of `ids`

    @property
    def lines(self) -> int:
        """Number of lines, including empty ones."""
        return int(np.count_nonzero(self.ids == LINE_END))


class WordVocabulary(NamedTuple):
    """The words that have a vector, and their counts."""

    words: list[str]
    counts: IntArray
    read: int = 0  # words of the text, including those without a vector

    def to_json(self) -> dict[str, Any]:
        """Return plain values for tokenizer.json."""
        return {"words": self.words, "counts": self.counts.tolist(), "read": self.read}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "WordVocabulary":
        """Return the vocabulary that `to_json` described."""
        words, read = values["words"], values["read"]
        counts = np.array(values["counts"], np.int64)
        if counts.shape != (len(words),) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"got {len(words):,} words and counts of shape {counts.shape}")
        if len(counts) and counts.min() < 0:
            raise ValueError(f"got a count of {counts.min():,}")
        if type(read) is not int or read < 0:
            raise ValueError("got a number of words read that is no count")
        return cls(words, counts, read)


def read_word_corpus(
    contents: Iterable[bytes],
    *,
    min_count: int = 5,
    split: str = "words",
    ids_path: Path | None = None,
    on_progress: Callable[[int], None] = lambda more: None,
) -> WordCorpus:
    """Return the word ids of a text that is given as blocks of whole lines.

    Words with fewer than `min_count` occurrences are dropped. With `ids_path` the ids are written
    to a file and memory-mapped. `on_progress` gets the number of bytes of each block.
    """
    known = _WordTable()
    store = _Store(ids_path)
    for content in contents:
        for ids in known.number(_tokenized(content, split)):
            store.put(ids)
        on_progress(len(content))
    order = np.argsort(-known.counts, kind="stable")
    order = order[known.counts[order] >= min_count]
    new_ids = np.full(len(known.counts), _RARE, np.int32)
    new_ids[order] = np.arange(len(order), dtype=np.int32)
    ids = store.remap(new_ids)
    words = [known.word(number) for number in order.tolist()]
    if len(words) < 2:
        raise DataError(_too_small_message(known, min_count))
    return WordCorpus(words, known.counts[order], ids, int(known.counts.sum()))


class WordIndex:
    """Look-up of the ids of known words in other texts, split by the same rule."""

    def __init__(self, words: Iterable[str]):
        self._known = _WordTable()
        for _ in self._known.number(" ".join(words).encode()):
            pass

    def ids(self, contents: Iterable[bytes], split: str = "words") -> Int32Array:
        """Return the ids of blocks of whole lines, LINE_END after each; other words are dropped."""
        parts = [np.empty(0, np.int32)]
        for content in contents:
            text = _tokenized(content, split)
            parts += [ids.copy() for ids in self._known.number(text, may_grow=False)]
        return np.concatenate(parts)


def _too_small_message(known: "_WordTable", min_count: int) -> str:
    """Describe why the text has too few words."""
    read, kinds = int(known.counts.sum()), len(known.counts)
    if kinds < 2:
        return f"got a text of {read:,} words, {kinds} different ones; expected at least 2."
    return (
        f"got a text of {read:,} words, {kinds:,} different ones, of which fewer than 2 occur "
        f"{min_count} times or more (the most frequent {int(known.counts.max())} times); expected "
        "at least 2; try more text, or --set data.min_count=1."
    )


def _tokenized(content: bytes, split: str) -> bytes:
    return content if split == "whitespace" else pretokenize(content, SPLITTERS[split])


def pretokenize(content: bytes, splitter: Callable[[str], list[str]] = split_words) -> bytes:
    """Return lower-cased words, numbers and symbols with a space between; lines are kept."""
    lines = content.decode().lower().split("\n")
    return "\n".join(" ".join(splitter(line)) for line in lines).encode()


# --- storage of the ids ---------------------------------------------------------------------------


class _Store:
    """Ids in the order of the text, in memory or in a file."""

    def __init__(self, ids_path: Path | None):
        self.ids_path = ids_path
        self.parts: list[Int32Array] = []
        self.file = None if ids_path is None else self._temporary("met").open("wb")

    def _temporary(self, what: str) -> Path:
        assert self.ids_path is not None
        return self.ids_path.with_name(f".{self.ids_path.name}.{what}")

    def put(self, ids: Int32Array) -> None:
        if self.file is None:
            self.parts.append(ids.copy())
        else:
            self.file.write(ids.tobytes())

    def remap(self, new_ids: Int32Array) -> Int32Array:
        """Return all ids remapped, without the rare words."""
        if self.file is None:
            kept = [remap_ids(ids, new_ids) for ids in self.parts]
            return np.concatenate([np.empty(0, np.int32), *kept])
        assert self.ids_path is not None
        self.file.close()
        met, done = self._temporary("met"), self._temporary("part")
        with met.open("rb") as source, done.open("wb") as target:
            while content := source.read(1 << 24):
                target.write(remap_ids(np.frombuffer(content, np.int32), new_ids).tobytes())
            target.flush()
            os.fsync(target.fileno())
        met.unlink()
        done.replace(self.ids_path)
        return open_memmap(self.ids_path, np.int32)


@jit_nogil
def remap_ids(ids: Int32Array, new_ids: Int32Array) -> Int32Array:
    """Return the text with new ids; rare words are dropped."""
    kept = np.empty(len(ids), np.int32)
    count = 0
    for old in ids:
        new = LINE_END if old == LINE_END else new_ids[old]
        if new != _RARE:
            kept[count] = new
            count += 1
    return kept[:count]


# --- hash table of words --------------------------------------------------------------------------


class _WordTable:
    """Words by id: their bytes in one buffer, their counts, and the hash table."""

    def __init__(self) -> None:
        self.slots = np.full(1 << 16, _FREE, np.int32)
        self.hashes = np.empty(1 << 15, np.uint64)
        self.ends = np.zeros((1 << 15) + 1, np.int64)  # word w is letters[ends[w] : ends[w + 1]]
        self.met = np.zeros(1 << 15, np.int64)
        self.letters = np.empty(1 << 18, np.uint8)
        self.size = 0

    @property
    def counts(self) -> IntArray:
        return self.met[: self.size]

    def word(self, number: int) -> str:
        letters = self.letters[self.ends[number] : self.ends[number + 1]]
        return letters.tobytes().decode(errors="replace")

    def number(self, content: bytes, may_grow: bool = True) -> Iterator[Int32Array]:
        """Yield the ids of the words of some lines; full tables are enlarged.

        Unless the table may grow, unknown words are left out.
        """
        letters = np.frombuffer(content, np.uint8)
        position = 0
        while position < len(letters):
            ids = np.empty(min(len(letters) - position + 1, 1 << 22), np.int32)
            position, count, self.size, needed = index_words(
                letters,
                position,
                self.slots,
                self.hashes,
                self.ends,
                self.letters,
                self.met,
                self.size,
                ids,
                may_grow,
            )
            yield ids[:count]
            self._grow(needed)

    def _grow(self, needed: int) -> None:
        """Double the table when half of its slots are used; make room for `needed` bytes."""
        if self.size == len(self.met):
            self.met = np.concatenate([self.met, np.zeros_like(self.met)])
            self.hashes = np.concatenate([self.hashes, np.empty_like(self.hashes)])
            self.ends = np.concatenate([self.ends, np.zeros(self.size, np.int64)])
            self.slots = np.full(2 * len(self.slots), _FREE, np.int32)
            rehash(self.hashes, self.size, self.slots)
        if needed > len(self.letters):
            more = np.empty(max(needed, 2 * len(self.letters)), np.uint8)
            more[: len(self.letters)] = self.letters
            self.letters = more


@jit_nogil
def rehash(hashes: NDArray[np.uint64], size: int, slots: Int32Array) -> None:
    """Insert every word at the slot of its hash, or in the next free one."""
    for word in range(size):
        slot = hashes[word] & np.uint64(len(slots) - 1)
        while slots[slot] != _FREE:
            slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
        slots[slot] = word


@jit_nogil
def index_words(
    content: ByteArray,
    position: int,
    slots: Int32Array,
    hashes: NDArray[np.uint64],
    ends: IntArray,
    letters: ByteArray,
    met: IntArray,
    size: int,
    ids: Int32Array,
    may_grow: bool,
) -> tuple[int, int, int, int]:
    """Write the ids of the words from a position on; return position, ids, words, bytes needed.

    It stops at the end, or where a table is full. Unless the table may grow, an unknown word is
    left out.
    """
    count = 0
    while position < len(content) and count < len(ids):
        letter = content[position]
        if letter == _NEWLINE:
            ids[count] = LINE_END
            count += 1
            position += 1
            continue
        if letter == _SPACE or _TAB <= letter <= _RETURN:
            position += 1
            continue
        end, digest = position, _SEED
        while end < len(content):
            letter = content[end]
            if letter == _SPACE or _TAB <= letter <= _RETURN:
                break
            digest = (digest ^ np.uint64(letter)) * _PRIME
            end += 1
        length = end - position
        slot = digest & np.uint64(len(slots) - 1)
        while True:
            word = slots[slot]
            if word == _FREE:
                break
            first = ends[word]
            if hashes[word] == digest and ends[word + 1] - first == length:
                same = True
                for step in range(length):
                    same &= letters[first + step] == content[position + step]
                if same:
                    break
            slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
        if word == _FREE and may_grow:
            needed = ends[size] + length
            if size == len(met) or needed > len(letters):
                return position, count, size, needed
            word = size
            slots[slot] = word
            hashes[word] = digest
            letters[ends[size] : needed] = content[position:end]
            size += 1
            ends[size] = needed
        if word != _FREE:
            met[word] += 1
            ids[count] = word
            count += 1
        position = end
    return position, count, size, 0
