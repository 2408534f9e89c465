"""Text as numbers of words, for what is learned from words alone.

A word is what stands between spaces (`split="spaces"`: for text that has been prepared), or, of
plain text, a word, a number or a sign by itself in lower case (`split="words"`). Each new word gets
the next number as it is met; when all is read the numbers are changed so that frequent words come
first, and words that are too rare are left out. A line's end stays in the text as END.

The words are kept in a hash table of our own, with open addressing: a kernel cannot use Python's.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.compiled.jit import jit_nogil
from saccade.data.word_splitting import split_words
from saccade.errors import DataError

LINE_END = -1  # after each line
PRETOKENIZERS = ("whitespace", "words")

ByteArray = NDArray[np.uint8]
Int32Array = NDArray[np.int32]
IntArray = NDArray[np.int64]

_FREE = -1
_RARE = -2
_NEWLINE, _SPACE, _TAB, _RETURN = 10, 32, 9, 13
_SEED, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits


class WordCorpus(NamedTuple):
    """A text whose words are numbers."""

    words: list[str]  # by number: the most frequent is 0
    counts: IntArray
    ids: Int32Array  # END after each line; words that are too rare are not there
    read: int  # words of the text, rare ones too

    @property
    def lines(self) -> int:
        """How many lines it has, empty ones too."""
        return int(np.count_nonzero(self.ids == LINE_END))


class WordVocabulary(NamedTuple):
    """The words that have a vector, and how often each was met."""

    words: list[str]
    counts: IntArray
    read: int = 0  # words of the text, those that have none too

    def to_json(self) -> dict[str, Any]:
        """For tokenizer.json."""
        return {"words": self.words, "counts": self.counts.tolist(), "read": self.read}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "WordVocabulary":
        """As it was kept."""
        return cls(values["words"], np.array(values["counts"], np.int64), values["read"])


def read_word_corpus(
    contents: Iterable[bytes],
    *,
    min_count: int = 5,
    split: str = "words",
    ids_path: Path | None = None,
    on_progress: Callable[[int], None] = lambda more: None,
) -> WordCorpus:
    """Number the words of a text that comes as blocks of whole lines.

    Words with fewer than `least` occurrences are left out. The numbers are written to a file
    (position) and mapped into memory, or held in it. `tell` is told how many bytes more are done.
    """
    known = _Known()
    store = _Store(ids_path)
    for content in contents:
        for ids in known.number(pretokenize(content) if split == "words" else content):
            store.put(ids)
        on_progress(len(content))
    order = np.argsort(-known.counts, kind="stable")
    order = order[known.counts[order] >= min_count]
    renumbered = np.full(len(known.counts), _RARE, np.int32)
    renumbered[order] = np.arange(len(order), dtype=np.int32)
    ids = store.renumbered(renumbered)
    words = [known.word(number) for number in order.tolist()]
    if len(words) < 2:
        raise DataError(_too_few(known, min_count))
    return WordCorpus(words, known.counts[order], ids, int(known.counts.sum()))


class WordIndex:
    """Words that have numbers, to be found in other texts: by the same rule as they were read."""

    def __init__(self, words: Iterable[str]):
        self._known = _Known()
        for _ in self._known.number(" ".join(words).encode()):
            pass

    def ids(self, contents: Iterable[bytes], split: str = "words") -> Int32Array:
        """Blocks of whole lines as numbers, END after each line; other words are left out."""
        parts = [np.empty(0, np.int32)]
        for content in contents:
            some = pretokenize(content) if split == "words" else content
            parts += [ids.copy() for ids in self._known.number(some, may_grow=False)]
        return np.concatenate(parts)


def _too_few(known: "_Known", min_count: int) -> str:
    """Why there is nothing to learn from."""
    read, kinds = int(known.counts.sum()), len(known.counts)
    if kinds < 2:
        return f"the text has {read:,} words, {kinds} different ones; at least 2 were wanted."
    return (
        f"the text has {read:,} words, {kinds:,} different ones, but fewer than 2 of them are "
        f"there {min_count} times or more, the most frequent {int(known.counts.max())} times. "
        "Give more text, or take rarer words too (--set data.min_count=1)."
    )


def pretokenize(content: bytes) -> bytes:
    """Words, numbers and signs in lower case, a space between them; the lines as they were."""
    lines = content.decode().lower().split("\n")
    return "\n".join(" ".join(split_words(line)) for line in lines).encode()


# --- what is kept of the text ---------------------------------------------------------------------


class _Store:
    """The ids as they come: in memory, or in a file."""

    def __init__(self, ids_path: Path | None):
        self.ids_path = ids_path
        self.parts: list[Int32Array] = []
        self.file = None if ids_path is None else self._beside("met").open("wb")

    def _beside(self, what: str) -> Path:
        assert self.ids_path is not None
        return self.ids_path.with_name(f".{self.ids_path.name}.{what}")

    def put(self, ids: Int32Array) -> None:
        if self.file is None:
            self.parts.append(ids.copy())
        else:
            self.file.write(ids.tobytes())

    def renumbered(self, numbers: Int32Array) -> Int32Array:
        """All of them with other numbers, without those that have none."""
        if self.file is None:
            kept = [remap_ids(ids, numbers) for ids in self.parts]
            return np.concatenate([np.empty(0, np.int32), *kept])
        assert self.ids_path is not None
        self.file.close()
        met, done = self._beside("met"), self._beside("part")
        with met.open("rb") as source, done.open("wb") as target:
            while content := source.read(1 << 24):
                target.write(remap_ids(np.frombuffer(content, np.int32), numbers).tobytes())
            target.flush()
            os.fsync(target.fileno())
        met.unlink()
        done.replace(self.ids_path)
        return open_id_memmap(self.ids_path)


def open_id_memmap(path: Path) -> Int32Array:
    """Ids in a file; only the pages that are read are in memory."""
    if not path.stat().st_size:  # nothing cannot be mapped
        return np.empty(0, np.int32)
    return np.memmap(path, np.int32, mode="r")


@jit_nogil
def remap_ids(ids: Int32Array, numbers: Int32Array) -> Int32Array:
    """The same text with other numbers; what has none is left out."""
    kept = np.empty(len(ids), np.int32)
    count = 0
    for old in ids:
        new = LINE_END if old == LINE_END else numbers[old]
        if new != _RARE:
            kept[count] = new
            count += 1
    return kept[:count]


# --- the words that have been met -----------------------------------------------------------------


class _Known:
    """Words by number: their letters one after the other, how often each was met, and the table."""

    def __init__(self) -> None:
        self.slots = np.full(1 << 16, _FREE, np.int32)
        self.hashes = np.empty(1 << 15, np.uint64)
        self.ends = np.zeros((1 << 15) + 1, np.int64)  # of word w: letters[ends[w] : ends[w + 1]]
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
        """The words of some lines as numbers; where the tables are full they are made larger.

        Unless they may grow, words that are not known are left out.
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
            self._make_room(needed)

    def _make_room(self, needed: int) -> None:
        """For twice as many words, where half of the slots are taken, and for so many letters."""
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
    """Put every word where its hash says, or in the next free slot."""
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
    """Number words from a position on: where it stopped, how many ids, words known, letters needed.

    It stops at the end, or where there is no room for one more. Unless it may grow, a word that is
    not known is left out.
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
        end, mark = position, _SEED
        while end < len(content):
            letter = content[end]
            if letter == _SPACE or _TAB <= letter <= _RETURN:
                break
            mark = (mark ^ np.uint64(letter)) * _PRIME
            end += 1
        length = end - position
        slot = mark & np.uint64(len(slots) - 1)
        while True:
            word = slots[slot]
            if word == _FREE:
                break
            first = ends[word]
            if hashes[word] == mark and ends[word + 1] - first == length:
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
            hashes[word] = mark
            letters[ends[size] : needed] = content[position:end]
            size += 1
            ends[size] = needed
        if word != _FREE:
            met[word] += 1
            ids[count] = word
            count += 1
        position = end
    return position, count, size, 0
