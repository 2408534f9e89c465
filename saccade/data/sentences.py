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

from saccade.compiled import compiled
from saccade.data.words import split_words
from saccade.errors import DataError

END = -1  # after each line
SPLITS = ("spaces", "words")

Bytes = NDArray[np.uint8]
Ids = NDArray[np.int32]
Whole = NDArray[np.int64]

_FREE = -1
_RARE = -2
_NEWLINE, _SPACE, _TAB, _RETURN = 10, 32, 9, 13
_SEED, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits


class Sentences(NamedTuple):
    """A text whose words are numbers."""

    words: list[str]  # by number: the most frequent is 0
    counts: Whole
    ids: Ids  # END after each line; words that are too rare are not there
    read: int  # words of the text, rare ones too

    @property
    def lines(self) -> int:
        """How many lines it has, empty ones too."""
        return int(np.count_nonzero(self.ids == END))


class Lexicon(NamedTuple):
    """The words that have a vector, and how often each was met."""

    words: list[str]
    counts: Whole
    read: int = 0  # words of the text, those that have none too

    def to_json(self) -> dict[str, Any]:
        """For tokenizer.json."""
        return {"words": self.words, "counts": self.counts.tolist(), "read": self.read}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Lexicon":
        """As it was kept."""
        return cls(values["words"], np.array(values["counts"], np.int64), values["read"])


def read_sentences(
    contents: Iterable[bytes],
    *,
    least: int = 5,
    split: str = "words",
    place: Path | None = None,
    tell: Callable[[int], None] = lambda more: None,
) -> Sentences:
    """Number the words of a text that comes as blocks of whole lines.

    Words with fewer than `least` occurrences are left out. The numbers are written to a file
    (place) and mapped into memory, or held in it. `tell` is told how many bytes more are done.
    """
    known = _Known()
    store = _Store(place)
    for content in contents:
        for ids in known.number(plain(content) if split == "words" else content):
            store.put(ids)
        tell(len(content))
    order = np.argsort(-known.counts, kind="stable")
    order = order[known.counts[order] >= least]
    renumbered = np.full(len(known.counts), _RARE, np.int32)
    renumbered[order] = np.arange(len(order), dtype=np.int32)
    ids = store.renumbered(renumbered)
    words = [known.word(number) for number in order.tolist()]
    if len(words) < 2:
        raise DataError(_too_few(known, least))
    return Sentences(words, known.counts[order], ids, int(known.counts.sum()))


class Numbering:
    """Words that have numbers, to be found in other texts: by the same rule as they were read."""

    def __init__(self, words: Iterable[str]):
        self._known = _Known()
        for _ in self._known.number(" ".join(words).encode()):
            pass

    def ids(self, contents: Iterable[bytes], split: str = "words") -> Ids:
        """Blocks of whole lines as numbers, END after each line; other words are left out."""
        parts = [np.empty(0, np.int32)]
        for content in contents:
            some = plain(content) if split == "words" else content
            parts += [ids.copy() for ids in self._known.number(some, may_grow=False)]
        return np.concatenate(parts)


def _too_few(known: "_Known", least: int) -> str:
    """Why there is nothing to learn from."""
    read, kinds = int(known.counts.sum()), len(known.counts)
    if kinds < 2:
        return f"the text has {read:,} words, {kinds} different ones; at least 2 were wanted."
    return (
        f"the text has {read:,} words, {kinds:,} different ones, but fewer than 2 of them are "
        f"there {least} times or more, the most frequent {int(known.counts.max())} times. "
        "Give more text, or take rarer words too (--set data.least=1)."
    )


def plain(content: bytes) -> bytes:
    """Words, numbers and signs in lower case, a space between them; the lines as they were."""
    lines = content.decode().lower().split("\n")
    return "\n".join(" ".join(split_words(line)) for line in lines).encode()


# --- what is kept of the text ---------------------------------------------------------------------


class _Store:
    """The ids as they come: in memory, or in a file."""

    def __init__(self, place: Path | None):
        self.place = place
        self.parts: list[Ids] = []
        self.file = None if place is None else self._beside("met").open("wb")

    def _beside(self, what: str) -> Path:
        assert self.place is not None
        return self.place.with_name(f".{self.place.name}.{what}")

    def put(self, ids: Ids) -> None:
        if self.file is None:
            self.parts.append(ids.copy())
        else:
            self.file.write(ids.tobytes())

    def renumbered(self, numbers: Ids) -> Ids:
        """All of them with other numbers, without those that have none."""
        if self.file is None:
            kept = [renumber(ids, numbers) for ids in self.parts]
            return np.concatenate([np.empty(0, np.int32), *kept])
        assert self.place is not None
        self.file.close()
        met, done = self._beside("met"), self._beside("part")
        with met.open("rb") as source, done.open("wb") as target:
            while content := source.read(1 << 24):
                target.write(renumber(np.frombuffer(content, np.int32), numbers).tobytes())
            target.flush()
            os.fsync(target.fileno())
        met.unlink()
        done.replace(self.place)
        return mapped(self.place)


def mapped(path: Path) -> Ids:
    """Ids in a file; only the pages that are read are in memory."""
    if not path.stat().st_size:  # nothing cannot be mapped
        return np.empty(0, np.int32)
    return np.memmap(path, np.int32, mode="r")


@compiled
def renumber(ids: Ids, numbers: Ids) -> Ids:
    """The same text with other numbers; what has none is left out."""
    kept = np.empty(len(ids), np.int32)
    count = 0
    for old in ids:
        new = END if old == END else numbers[old]
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
    def counts(self) -> Whole:
        return self.met[: self.size]

    def word(self, number: int) -> str:
        letters = self.letters[self.ends[number] : self.ends[number + 1]]
        return letters.tobytes().decode(errors="replace")

    def number(self, content: bytes, may_grow: bool = True) -> Iterator[Ids]:
        """The words of some lines as numbers; where the tables are full they are made larger.

        Unless they may grow, words that are not known are left out.
        """
        letters = np.frombuffer(content, np.uint8)
        place = 0
        while place < len(letters):
            ids = np.empty(min(len(letters) - place + 1, 1 << 22), np.int32)
            place, count, self.size, needed = number_words(
                letters,
                place,
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
            place_all(self.hashes, self.size, self.slots)
        if needed > len(self.letters):
            more = np.empty(max(needed, 2 * len(self.letters)), np.uint8)
            more[: len(self.letters)] = self.letters
            self.letters = more


@compiled
def place_all(hashes: NDArray[np.uint64], size: int, slots: Ids) -> None:
    """Put every word where its hash says, or in the next free slot."""
    for word in range(size):
        slot = hashes[word] & np.uint64(len(slots) - 1)
        while slots[slot] != _FREE:
            slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
        slots[slot] = word


@compiled
def number_words(
    content: Bytes,
    place: int,
    slots: Ids,
    hashes: NDArray[np.uint64],
    ends: Whole,
    letters: Bytes,
    met: Whole,
    size: int,
    ids: Ids,
    may_grow: bool,
) -> tuple[int, int, int, int]:
    """Number words from a place on: where it stopped, how many ids, words known, letters needed.

    It stops at the end, or where there is no room for one more. Unless it may grow, a word that is
    not known is left out.
    """
    count = 0
    while place < len(content) and count < len(ids):
        letter = content[place]
        if letter == _NEWLINE:
            ids[count] = END
            count += 1
            place += 1
            continue
        if letter == _SPACE or _TAB <= letter <= _RETURN:
            place += 1
            continue
        end, mark = place, _SEED
        while end < len(content):
            letter = content[end]
            if letter == _SPACE or _TAB <= letter <= _RETURN:
                break
            mark = (mark ^ np.uint64(letter)) * _PRIME
            end += 1
        length = end - place
        slot = mark & np.uint64(len(slots) - 1)
        while True:
            word = slots[slot]
            if word == _FREE:
                break
            first = ends[word]
            if hashes[word] == mark and ends[word + 1] - first == length:
                same = True
                for step in range(length):
                    same &= letters[first + step] == content[place + step]
                if same:
                    break
            slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
        if word == _FREE and may_grow:
            needed = ends[size] + length
            if size == len(met) or needed > len(letters):
                return place, count, size, needed
            word = size
            slots[slot] = word
            hashes[word] = mark
            letters[ends[size] : needed] = content[place:end]
            size += 1
            ends[size] = needed
        if word != _FREE:
            met[word] += 1
            ids[count] = word
            count += 1
        place = end
    return place, count, size, 0
