"""Word vectors in other tools' files: word2vec (text and binary), GloVe, fastText (.vec and .bin).

- word2vec text, and fastText's .vec: "words width" in the first line, then a word and its numbers;
- GloVe: the same without the first line;
- word2vec binary: that first line, then each word, a space, and its numbers as they are in memory;
- fastText's .bin: settings, dictionary, and the rows of words and of all buckets of n-grams.

Numbers are written with nine digits, so that they are read as the same bits.
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.word_corpus import WordVocabulary
from saccade.errors import DataError
from saccade.estimators.word_vectors.fasttext import CharNgrams, subword_bags
from saccade.io.atomic import write_atomically
from saccade.io.text_files import read_lines

FloatArray = NDArray[np.float32]

_MAGIC, _VERSION = 793712314, 12


class VectorTable(NamedTuple):
    """Words, a row for each, and after those the rows of n-grams, if there are any."""

    words: list[str]
    rows: FloatArray
    counts: NDArray[np.int64]
    grams: CharNgrams | None = None


# --- text -----------------------------------------------------------------------------------------


def read_text_vectors(path: Path) -> VectorTable:
    """word2vec's, fastText's or GloVe's text: whether there is a first line is seen from it."""
    lines = enumerate(read_lines(path), 1)
    first = next(lines, (0, ""))[1]
    header = first.split()
    said: tuple[int, int] | None = None
    words: list[str] = []
    rows: list[FloatArray] = []
    if len(header) == 2 and all(field.isdecimal() for field in header):
        said = int(header[0]), int(header[1])
    elif first:
        _add(path, 1, first, words, rows, None)
    width = said[1] if said else len(rows[0]) if rows else None
    for number, line in lines:
        if line.strip():
            _add(path, number, line, words, rows, width)
    if not words:
        raise DataError(
            f"{path} holds no vectors: a word and its numbers were wanted in each line."
        )
    if said and said[0] != len(words):
        raise DataError(
            f"{path} says in its first line that it has {said[0]:,} words, and has {len(words):,}: "
            "it is cut short, or its first line is wrong."
        )
    return _checked(path, words, np.array(rows, np.float32))


def _add(
    path: Path, number: int, line: str, words: list[str], rows: list[FloatArray], width: int | None
) -> None:
    """A word may hold spaces, but no number after one: the numbers are what stands last."""
    fields = line.rstrip().split(" ")
    if width is None:
        width = len(fields) - 1
    word, numbers = " ".join(fields[:-width]), fields[-width:]
    try:
        row = np.array(numbers, np.float32)
    except ValueError:
        row = np.empty(0, np.float32)
    too_many = any(_is_number(field) for field in fields[1:-width])
    if not word or len(row) != width or not width or too_many:
        raise DataError(
            f"{path}, line {number}: got {len(fields) - 1} fields after {fields[0][:30]!r}; "
            f"{width} numbers were wanted, as in the first line."
        )
    words.append(word)
    rows.append(row)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _checked(path: Path, words: list[str], rows: FloatArray) -> VectorTable:
    wrong = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(wrong):
        shown = ", ".join(repr(words[row]) for row in wrong[:3])
        raise DataError(
            f"{path}: the vectors of {len(wrong):,} words ({shown}) are not all finite numbers. "
            "Write the file again."
        )
    if len(set(words)) < len(words):
        seen: set[str] = set()
        double = next(word for word in words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
        raise DataError(f"{path} has the word {double!r} more than once; each was wanted once.")
    # how often a word was met is not said: the order is
    return VectorTable(words, rows, np.arange(len(words), 0, -1))


def write_text_vectors(
    path: Path, words: Iterable[str], rows: FloatArray, *, header: bool = True
) -> None:
    """word2vec's text, which fastText's .vec is too; without the first line GloVe's."""
    listed = list(words)
    lines = [f"{len(listed)} {rows.shape[1]}"] if header else []
    lines += [
        f"{word} {' '.join(format(number, '.9g') for number in row)}"
        for word, row in zip(listed, rows.tolist(), strict=True)
    ]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


# --- word2vec's binary ----------------------------------------------------------------------------


def read_binary_vectors(path: Path) -> VectorTable:
    """word2vec's: a line's end after each row is there or not."""
    content = path.read_bytes()
    end = content.find(b"\n")
    header = content[: max(end, 0)].split()
    if len(header) != 2 or not all(field.isdigit() for field in header):
        raise DataError(
            f"{path} does not begin with two whole numbers (words and width), as word2vec's binary "
            "files do."
        )
    count, width = int(header[0]), int(header[1])
    words, rows, place = [], np.empty((count, width), np.float32), end + 1
    for row in range(count):
        space = content.find(b" ", place)
        last = space + 1 + 4 * width
        if space < 0 or last > len(content):
            raise DataError(
                f"{path} says that it has {count:,} words, and ends in the {row + 1:,}th: "
                "it is cut short, or its first line is wrong."
            )
        words.append(content[place:space].lstrip(b"\n").decode(errors="replace"))
        rows[row] = np.frombuffer(content, "<f4", width, space + 1)
        place = last
    return _checked(path, words, rows)


def write_binary_vectors(path: Path, words: Iterable[str], rows: FloatArray) -> None:
    """As word2vec writes it."""
    listed = list(words)
    parts = [f"{len(listed)} {rows.shape[1]}\n".encode()]
    for word, row in zip(listed, rows.astype("<f4"), strict=True):
        parts += [word.encode(), b" ", row.tobytes(), b"\n"]
    write_atomically(path, b"".join(parts))


# --- fastText's .bin ------------------------------------------------------------------------------


def read_fasttext_model(path: Path) -> VectorTable:
    """The words' and n-grams' rows of a model of fastText; a word is the mean of its rows."""
    with path.open("rb") as file:
        try:
            return _fasttext(path, file)
        except struct.error:
            raise DataError(f"{path} is cut short: it ends inside its own tables.") from None


def _fasttext(path: Path, file: IO[bytes]) -> VectorTable:
    magic, version = _take(file, "ii")
    if magic != _MAGIC or version > _VERSION:
        raise DataError(
            f"{path} is not a model of fastText that can be read here (mark {magic}, version "
            f"{version}; wanted {_MAGIC}, at most {_VERSION})."
        )
    settings = _take(file, "12id")
    width, buckets, min_n, max_n = settings[0], settings[8], settings[9], settings[10]
    size, count, labels, _, pruned = _take(file, "iiiqq")
    words, counts = [], []
    for number in range(size):
        word = b"".join(iter(lambda: file.read(1), b"\0")).decode(errors="replace")
        met, _ = _take(file, "qb")
        if number < count:
            words.append(word)
            counts.append(met)
    if pruned > 0 or _take(file, "?")[0]:
        raise DataError(f"{path} is a quantized model (.ftz); a whole one (.bin) was wanted.")
    rows, columns = _take(file, "qq")
    content = file.read(4 * rows * columns)
    if len(content) != 4 * rows * columns or columns != width or labels < 0:
        raise DataError(f"{path} is cut short: it ends inside its vectors.")
    table = np.frombuffer(content, "<f4").reshape(rows, columns)
    grams = CharNgrams(min_n, max_n, buckets, np.arange(buckets)) if max_n > 0 else None
    return VectorTable(words, table, np.array(counts, np.int64), grams)


def _take(file: IO[bytes], layout: str) -> tuple[int, ...]:
    layout = "<" + layout
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


# --- to and from runs -----------------------------------------------------------------------------


class ImportedVectors(NamedTuple):
    """Word vectors that came in, as a run keeps them."""

    recipe: dict[str, Any]
    vocabulary: WordVocabulary
    weights: dict[str, NDArray[Any]]


def export_word_vectors(layout: str, path: Path, words: list[str], rows: FloatArray) -> None:
    """Write vectors as another tool has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if layout == "word2vec-binary":
        write_binary_vectors(path, words, rows)
    else:
        write_text_vectors(path, words, rows, header=layout != "glove")


def import_text_vectors(path: Path) -> ImportedVectors:
    """word2vec's, fastText's or GloVe's text."""
    return _taken(read_text_vectors(path))


def import_binary_vectors(path: Path) -> ImportedVectors:
    """word2vec's binary."""
    return _taken(read_binary_vectors(path))


def import_fasttext_vectors(path: Path) -> ImportedVectors:
    """A model (.bin), whose n-grams are taken in too, or vectors alone (.vec)."""
    if path.suffix != ".bin":
        return import_text_vectors(path)
    found = read_fasttext_model(path)
    if found.grams is None:
        return _taken(found)
    grams = found.grams
    _, used = subword_bags(found.words, grams.min_n, grams.max_n, grams.buckets)
    count = len(found.words)
    inputs = np.concatenate([found.rows[:count], found.rows[count + used.used]])
    model = {
        "name": "fasttext",
        "width": found.rows.shape[1],
        "min_n": grams.min_n,
        "max_n": grams.max_n,
        "buckets": grams.buckets,
    }
    # the rows that words are held against are not taken in: it can be asked, and not learn on
    weights = {"inputs": inputs, "outputs": np.zeros((count, inputs.shape[1]), np.float32)}
    return ImportedVectors(_recipe(model), WordVocabulary(found.words, found.counts), weights)


def _taken(found: VectorTable) -> ImportedVectors:
    count = len(found.words)
    model = {"name": "glove", "width": found.rows.shape[1]}
    lexicon = WordVocabulary(found.words, found.counts)
    return ImportedVectors(_recipe(model), lexicon, {"rows": found.rows[:count].copy()})


def _recipe(model: dict[str, Any]) -> dict[str, Any]:
    return {"task": "vectors", "data": {"min_count": 1}, "model": model}
