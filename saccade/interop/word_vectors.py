"""File formats of word vectors: word2vec (text and binary), GloVe, fastText (.vec and .bin).

- word2vec text and fastText's .vec: "words width" in the first line, then a word and its numbers;
- GloVe: the same without the first line;
- word2vec binary: the same first line, then each word, a space, and its numbers as float32;
- fastText's .bin: settings, dictionary, and the rows of words and of all n-gram buckets.

Numbers are written with nine digits, which restore the same bits.
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.config import Config, build_config
from saccade.data.text.word_corpus import WordVocabulary
from saccade.errors import ConfigError, DataError
from saccade.estimators.word_vectors.fasttext import CharNgrams, subword_bags
from saccade.interop.registry import ModelParts
from saccade.io.atomic import write_atomically
from saccade.io.text_files import read_lines
from saccade.types.arrays import Float32Array

FASTTEXT_MAGIC, FASTTEXT_VERSION = 793712314, 12


class VectorTable(NamedTuple):
    """Words with a row each, followed by the rows of n-grams if there are any."""

    words: list[str]
    rows: Float32Array
    counts: NDArray[np.int64]
    grams: CharNgrams | None = None


# --- text -----------------------------------------------------------------------------------------


def read_text_vectors(path: Path) -> VectorTable:
    """Read word2vec, fastText or GloVe text; detect whether there is a header line."""
    lines = enumerate(read_lines(path), 1)
    first = next(lines, (0, ""))[1]
    header = first.split()
    declared: tuple[int, int] | None = None  # words and width by the header
    words: list[str] = []
    rows: list[Float32Array] = []
    if len(header) == 2 and all(field.isdecimal() for field in header):
        declared = int(header[0]), int(header[1])
    elif first:
        _add(path, 1, first, words, rows, None)
    width = declared[1] if declared else len(rows[0]) if rows else None
    for number, line in lines:
        if line.strip():
            _add(path, number, line, words, rows, width)
    if not words:
        raise DataError(f"{path} has no vectors; expected a word and its numbers in each line.")
    if declared and declared[0] != len(words):
        raise DataError(
            f"{path}: got {len(words):,} words; expected {declared[0]:,} by its first line. The "
            "file is truncated, or its first line is wrong."
        )
    return _checked(path, words, np.array(rows, np.float32))


def _add(
    path: Path,
    number: int,
    line: str,
    words: list[str],
    rows: list[Float32Array],
    width: int | None,
) -> None:
    """Parse a line; a word may contain spaces, but no number after one."""
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
            f"expected {width} numbers, as in the first line."
        )
    words.append(word)
    rows.append(row)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _checked(path: Path, words: list[str], rows: Float32Array) -> VectorTable:
    wrong = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(wrong):
        listed = ", ".join(repr(words[row]) for row in wrong[:3])
        raise DataError(
            f"{path}: the vectors of {len(wrong):,} words ({listed}) have values that are not "
            "finite. Write the file again."
        )
    if len(set(words)) < len(words):
        seen: set[str] = set()
        double = next(word for word in words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
        raise DataError(f"{path}: got the word {double!r} more than once; expected each once.")
    # the file has no frequencies, only their order
    return VectorTable(words, rows, np.arange(len(words), 0, -1))


def write_text_vectors(
    path: Path, words: Iterable[str], rows: Float32Array, *, header: bool = True
) -> None:
    """Write word2vec text (also fastText's .vec); without the header it is GloVe's."""
    listed = list(words)
    lines = [f"{len(listed)} {rows.shape[1]}"] if header else []
    lines += [
        f"{word} {' '.join(format(number, '.9g') for number in row)}"
        for word, row in zip(listed, rows.tolist(), strict=True)
    ]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


# --- word2vec's binary ----------------------------------------------------------------------------


def read_binary_vectors(path: Path) -> VectorTable:
    """Read word2vec's binary format, with or without a line end after each row."""
    content = path.read_bytes()
    end = content.find(b"\n")
    header = content[: max(end, 0)].split()
    if len(header) != 2 or not all(field.isdigit() for field in header):
        raise DataError(
            f"{path} does not start with two integers (words and width), as word2vec's binary "
            "files do."
        )
    count, width = int(header[0]), int(header[1])
    words, rows, offset = [], np.empty((count, width), np.float32), end + 1
    for row in range(count):
        space = content.find(b" ", offset)
        last = space + 1 + 4 * width
        if space < 0 or last > len(content):
            raise DataError(
                f"{path}: expected {count:,} words by its first line, but the file ends in word "
                f"{row + 1:,}. It is truncated, or its first line is wrong."
            )
        words.append(content[offset:space].lstrip(b"\n").decode(errors="replace"))
        rows[row] = np.frombuffer(content, "<f4", width, space + 1)
        offset = last
    return _checked(path, words, rows)


def write_binary_vectors(path: Path, words: Iterable[str], rows: Float32Array) -> None:
    """Write word2vec's binary format."""
    listed = list(words)
    parts = [f"{len(listed)} {rows.shape[1]}\n".encode()]
    for word, row in zip(listed, rows.astype("<f4"), strict=True):
        parts += [word.encode(), b" ", row.tobytes(), b"\n"]
    write_atomically(path, b"".join(parts))


# --- fastText's .bin ------------------------------------------------------------------------------


def read_fasttext_model(path: Path) -> VectorTable:
    """Read the word and n-gram rows of a fastText model; a word is the mean of its rows."""
    with path.open("rb") as file:
        try:
            return _fasttext(path, file)
        except struct.error:
            raise DataError(f"{path} is truncated: it ends inside its dictionary.") from None


def _fasttext(path: Path, file: IO[bytes]) -> VectorTable:
    magic, version = _unpack(file, "ii")
    if magic != FASTTEXT_MAGIC or version > FASTTEXT_VERSION:
        raise DataError(
            f"{path} is not a fastText model that can be read: got magic number {magic}, version "
            f"{version}; expected {FASTTEXT_MAGIC}, at most {FASTTEXT_VERSION}."
        )
    settings = _unpack(file, "12id")
    width, buckets, min_n, max_n = settings[0], settings[8], settings[9], settings[10]
    size, count, labels, _, pruned = _unpack(file, "iiiqq")
    words, counts = [], []
    for number in range(size):
        word = b"".join(iter(lambda: file.read(1), b"\0")).decode(errors="replace")
        frequency, _ = _unpack(file, "qb")
        if number < count:
            words.append(word)
            counts.append(frequency)
    if pruned > 0 or _unpack(file, "?")[0]:
        raise DataError(f"{path}: got a quantized model (.ftz); expected a full one (.bin).")
    rows, columns = _unpack(file, "qq")
    content = file.read(4 * rows * columns)
    if len(content) != 4 * rows * columns or columns != width or labels < 0:
        raise DataError(f"{path} is truncated: it ends inside its vectors.")
    table = np.frombuffer(content, "<f4").reshape(rows, columns)
    grams = CharNgrams(min_n, max_n, buckets, np.arange(buckets)) if max_n > 0 else None
    return VectorTable(words, table, np.array(counts, np.int64), grams)


def _unpack(file: IO[bytes], layout: str) -> tuple[int, ...]:
    layout = "<" + layout
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


# --- export and import ----------------------------------------------------------------------------


class ImportedVectors(NamedTuple):
    """Imported word vectors, in the form of a run."""

    recipe: dict[str, Any]
    vocabulary: WordVocabulary
    weights: dict[str, NDArray[Any]]


def export_fasttext(parts: ModelParts, path: Path, options: dict[str, Any]) -> None:
    """Word vectors as fastText's .vec text."""
    export_word2vec(parts, path, options)


def export_glove(parts: ModelParts, path: Path, options: dict[str, Any]) -> None:
    """Word vectors as GloVe's text, without a header line."""
    words, rows = _word_vectors(parts, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_vectors(path, words, rows, header=False)


def export_word2vec(parts: ModelParts, path: Path, options: dict[str, Any]) -> None:
    """Word vectors as word2vec's text."""
    words, rows = _word_vectors(parts, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_vectors(path, words, rows)


def export_word2vec_binary(parts: ModelParts, path: Path, options: dict[str, Any]) -> None:
    """Word vectors in word2vec's binary format."""
    words, rows = _word_vectors(parts, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_binary_vectors(path, words, rows)


def _word_vectors(parts: ModelParts, options: dict[str, Any]) -> tuple[list[str], Float32Array]:
    """Return the words of a model and a row for each."""
    build_config(Config, options, "the export")  # it has no options
    if parts.recipe.task != "vectors":
        raise ConfigError(
            f"got a run of the task {parts.recipe.task}; only word vectors (vectors) have this "
            "format."
        )
    return parts.preprocessor.words, parts.model.word_vectors()


def import_text_vectors(path: Path) -> ImportedVectors:
    """Word vectors as word2vec, fastText or GloVe text."""
    return _without_ngrams(read_text_vectors(path))


def import_binary_vectors(path: Path) -> ImportedVectors:
    """Word vectors in word2vec's binary format."""
    return _without_ngrams(read_binary_vectors(path))


def import_fasttext_vectors(path: Path) -> ImportedVectors:
    """fastText model with its n-grams (.bin), or vectors only (.vec)."""
    if path.suffix != ".bin":
        return import_text_vectors(path)
    found = read_fasttext_model(path)
    if found.grams is None:
        return _without_ngrams(found)
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
    # the output rows are not imported: the model can be queried, but not trained further
    weights = {"inputs": inputs, "outputs": np.zeros((count, inputs.shape[1]), np.float32)}
    return ImportedVectors(_recipe(model), WordVocabulary(found.words, found.counts), weights)


def _without_ngrams(found: VectorTable) -> ImportedVectors:
    count = len(found.words)
    model = {"name": "glove", "width": found.rows.shape[1]}
    lexicon = WordVocabulary(found.words, found.counts)
    return ImportedVectors(_recipe(model), lexicon, {"rows": found.rows[:count].copy()})


def _recipe(model: dict[str, Any]) -> dict[str, Any]:
    return {"task": "vectors", "data": {"min_count": 1}, "model": model}
