"""File formats of word vectors: word2vec (text and binary), GloVe, fastText (.vec and .bin).

- word2vec text and fastText's .vec: "words width" in the first line, then a word and its numbers;
- GloVe: the same without the first line;
- word2vec binary: the same first line, then each word, a space, and its numbers as float32;
- fastText's .bin: settings, dictionary, and the rows of words and of all n-gram buckets.

Numbers are written with nine digits, which restore the same bits. A file may come from anywhere:
the sizes that it declares are compared with its length before anything is allocated.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.config import Config, build_config
from saccade.data.text.word_corpus import WordVocabulary
from saccade.errors import ConfigError, DataError
from saccade.estimators.word_vectors.fasttext import CharNgrams, subword_bags
from saccade.interop.registry import ModelParts
from saccade.io.atomic import write_new_file
from saccade.io.byte_source import byte_source, read_first_bytes
from saccade.io.memory import WEIGHT_BYTES, check_memory
from saccade.io.signatures import PICKLES, binary_kind, zip_document_kind
from saccade.io.text_files import read_lines
from saccade.types.arrays import Float32Array
from saccade.types.limits import MAX_NGRAM, MAX_VOCABULARY, MAX_WIDTH

FASTTEXT_MAGIC, FASTTEXT_VERSION = 793712314, 12
MAX_HEADER_DIGITS = 18
MAX_HEADER_BYTES = 100
MAX_WORD_BYTES = 1 << 16
TEXT_NUMBER_BYTES = 2  # a space and a digit
VECTOR_COPIES = 2  # the table, and that of the run


class VectorTable(NamedTuple):
    """Words with a row each, followed by the rows of n-grams if there are any."""

    words: list[str]
    rows: Float32Array
    counts: NDArray[np.int64]
    grams: CharNgrams | None = None


# --- sizes ----------------------------------------------------------------------------------------


class _TableSize(NamedTuple):
    words: int
    width: int


def _check_vector_file(path: Path) -> int:
    """Return the size of a file in bytes; DataError for a pickle or what is not a file."""
    kind = binary_kind(read_first_bytes(path))
    if kind in PICKLES or zip_document_kind(path) in PICKLES:
        raise DataError(
            f"{path}: got a pickle, which may execute code when it is opened; expected word "
            "vectors; try to write them with save_word2vec_format of gensim."
        )
    size = path.stat().st_size
    check_memory(size, f"{path}", "a file with fewer words, such as its first lines")
    return size


def _declared_size(
    path: Path, header: Sequence[str | bytes], size: int | None, number_bytes: int
) -> _TableSize:
    """Return words and width of a first line; DataError if the file cannot have so many.

    Args:
        path: the file.
        header: the two fields of its first line, of digits.
        size: length of the file; None: not known, as it is compressed.
        number_bytes: the fewest bytes of a number.
    """
    if any(len(field) > MAX_HEADER_DIGITS for field in header):
        raise DataError(
            f"{path}, line 1: got a number of {max(map(len, header)):,} digits; expected the "
            "number of words and the width; try to write the file again."
        )
    words, width = (int(field) for field in header)
    if not words or not 1 <= width <= MAX_WIDTH or words > MAX_VOCABULARY:
        raise DataError(
            f"{path}, line 1: got {words:,} words of width {width:,}; expected 1 to "
            f"{MAX_VOCABULARY:,} words and a width of 1 to {MAX_WIDTH:,}; try to write the file "
            "again."
        )
    if size is not None and words * (1 + number_bytes * width) > size:
        raise _missing_words(path, words, f"got {size:,} bytes, too few for its words")
    needed = VECTOR_COPIES * WEIGHT_BYTES * words * width
    check_memory(needed, f"{path}", "a file with fewer words, such as its first lines")
    return _TableSize(words, width)


def _missing_words(path: Path, expected: int, got: str) -> DataError:
    return DataError(
        f"{path}: {got}; expected {expected:,} by its first line. The file is truncated, or "
        "its first line is wrong; try to copy or download it again."
    )


# --- text -----------------------------------------------------------------------------------------


def read_text_vectors(path: Path) -> VectorTable:
    """Read word2vec, fastText or GloVe text; detect whether there is a header line."""
    size = _check_vector_file(path)
    lines = ((number, line) for number, line in enumerate(read_lines(path), 1) if line.strip())
    start, first = next(lines, (0, ""))
    header = first.split()
    declared: _TableSize | None = None  # by the first line
    words: list[str] = []
    rows: list[Float32Array] = []
    if len(header) == 2 and all(field.isdecimal() for field in header):
        is_compressed = byte_source(path).path is None
        declared = _declared_size(path, header, None if is_compressed else size, TEXT_NUMBER_BYTES)
    elif first:
        _add(path, start, first, words, rows, None)
    width = declared.width if declared else len(rows[0]) if rows else None
    for number, line in lines:
        _add(path, number, line, words, rows, width)
    if not words:
        raise DataError(f"{path} has no vectors; expected a word and its numbers in each line.")
    if declared and declared.words != len(words):
        raise _missing_words(path, declared.words, f"got {len(words):,} words")
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


def _checked(
    path: Path, words: list[str], rows: Float32Array, counts: NDArray[np.int64] | None = None
) -> VectorTable:
    """Return the table if its values are finite and its words distinct; DataError otherwise.

    Most files have no frequencies, only their order, and `counts` is None.
    """
    wrong = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(wrong):
        listed = ", ".join(repr(words[row]) for row in wrong[:3] if row < len(words))
        raise DataError(
            f"{path}: got values that are not finite in {len(wrong):,} vectors ({listed}); "
            "expected numbers; try to write the file again."
        )
    if len(set(words)) < len(words):
        seen: set[str] = set()
        double = next(word for word in words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
        raise DataError(
            f"{path}: got the word {double!r:.50} more than once; expected each once; try to "
            "remove the others."
        )
    return VectorTable(words, rows, np.arange(len(words), 0, -1) if counts is None else counts)


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
    write_new_file(path, ("\n".join(lines) + "\n").encode())


# --- word2vec's binary ----------------------------------------------------------------------------


def read_binary_vectors(path: Path) -> VectorTable:
    """Read word2vec's binary format, with or without a line end after each row."""
    size = _check_vector_file(path)
    content = path.read_bytes()
    end = content.find(b"\n", 0, MAX_HEADER_BYTES)
    header = content[: max(end, 0)].split()
    if len(header) != 2 or not all(field.isdigit() for field in header):
        raise DataError(
            f"{path} does not start with two integers (words and width), as word2vec's binary "
            "files do; expected such a file; for word2vec's text, try saccade import word2vec."
        )
    count, width = _declared_size(path, header, size, WEIGHT_BYTES)
    words, rows, offset = [], np.empty((count, width), np.float32), end + 1
    for row in range(count):
        space = content.find(b" ", offset)
        last = space + 1 + WEIGHT_BYTES * width
        if space < 0 or last > len(content):
            raise _missing_words(path, count, f"the file ends in word {row + 1:,}")
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
    write_new_file(path, b"".join(parts))


# --- fastText's .bin ------------------------------------------------------------------------------


def read_fasttext_model(path: Path) -> VectorTable:
    """Read the word and n-gram rows of a fastText model; a word is the mean of its rows."""
    size = _check_vector_file(path)
    with path.open("rb") as file:
        try:
            return _fasttext(path, file, size)
        except (struct.error, EOFError):
            raise _truncated(path, "dictionary") from None


def _fasttext(path: Path, file: IO[bytes], size: int) -> VectorTable:
    magic, version = _unpack(file, "ii")
    if magic != FASTTEXT_MAGIC or version > FASTTEXT_VERSION:
        raise DataError(
            f"{path} is not a fastText model that can be read: got magic number {magic}, version "
            f"{version}; expected {FASTTEXT_MAGIC}, at most {FASTTEXT_VERSION}; try a .bin file of "
            "fastText, or .vec for vectors in text."
        )
    settings = _unpack(file, "12id")
    width, buckets, min_n, max_n = settings[0], settings[8], settings[9], settings[10]
    entries, count, labels, _, pruned = _unpack(file, "iiiqq")
    if not 0 < count <= entries or labels < 0:
        raise _wrong_fasttext(path, f"{count:,} words of {entries:,} entries")
    words, counts = [], []
    for number in range(entries):
        word = _terminated(file).decode(errors="replace")
        frequency, _ = _unpack(file, "qb")
        if number < count:
            words.append(word)
            counts.append(frequency)
    if pruned > 0 or _unpack(file, "?")[0]:
        raise DataError(f"{path}: got a quantized model (.ftz); expected a full one (.bin).")
    rows, columns = _unpack(file, "qq")
    if columns != width or not 1 <= width <= MAX_WIDTH or min(counts) < 0:
        raise _wrong_fasttext(path, f"vectors of width {columns:,} and {width:,}")
    has_ngrams = max_n > 0
    if has_ngrams and not (0 <= min_n <= max_n <= MAX_NGRAM and buckets > 0):
        raise _wrong_fasttext(path, f"n-grams of {min_n} to {max_n} letters, {buckets:,} buckets")
    if rows < count or (has_ngrams and rows != entries + buckets):
        raise _wrong_fasttext(path, f"{rows:,} rows for {entries:,} entries, {buckets:,} buckets")
    if WEIGHT_BYTES * rows * columns > size - file.tell():
        raise _truncated(path, "vectors")
    needed = VECTOR_COPIES * WEIGHT_BYTES * rows * columns
    check_memory(needed, f"{path}", "its .vec file, which has no n-grams")
    content = file.read(WEIGHT_BYTES * rows * columns)
    table = np.frombuffer(content, "<f4").reshape(rows, columns)
    checked = _checked(path, words, table, np.array(counts, np.int64))
    grams = CharNgrams(min_n, max_n, buckets, np.arange(buckets)) if has_ngrams else None
    return checked._replace(grams=grams)


def _wrong_fasttext(path: Path, found: str) -> DataError:
    return DataError(
        f"{path}: got {found}; expected a fastText model whose sizes agree; try to copy or "
        "download it again."
    )


def _truncated(path: Path, part: str) -> DataError:
    return DataError(
        f"{path} is truncated: it ends inside its {part}; expected a complete file; try to copy or "
        "download it again."
    )


def _terminated(file: IO[bytes]) -> bytes:
    """Return the bytes before the next zero byte; EOFError if there is none."""
    found = bytearray()
    while (byte := file.read(1)) != b"\0":
        if not byte or len(found) > MAX_WORD_BYTES:
            raise EOFError
        found += byte
    return bytes(found)


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
    write_text_vectors(path, words, rows, header=False)


def export_word2vec(parts: ModelParts, path: Path, options: dict[str, Any]) -> None:
    """Word vectors as word2vec's text."""
    words, rows = _word_vectors(parts, options)
    write_text_vectors(path, words, rows)


def export_word2vec_binary(parts: ModelParts, path: Path, options: dict[str, Any]) -> None:
    """Word vectors in word2vec's binary format."""
    words, rows = _word_vectors(parts, options)
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
