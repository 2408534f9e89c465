r"""Readers of tagged sentences: CoNLL files, JSON lines, and objects in memory. No torch.

A CoNLL file has a token and its tags in each line, in columns with tabs or, if there are none, with
blanks between. A line that is empty or blank ends a sentence; -DOCSTART- lines and comments (# at
the start of a line that does not have the columns of the file) are left out, and so are the
multi-word and empty tokens of CoNLL-U (1-2, 1.1). JSON lines have a list `tokens` (or `words`) and
a list `tags` (or `ner_tags`, `labels`, `pos_tags`) each.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.data.tagging.config import CONLL_SUFFIXES, TaggedTextConfig
from saccade.data.tagging.schemes import TaggedSentence, convert_to_bio
from saccade.data.task_records import is_in_memory
from saccade.errors import DataError, bullet_list
from saccade.io.byte_source import STANDARD_INPUT, byte_source, plain_suffix
from saccade.io.documents import parse_json
from saccade.io.signatures import binary_kind
from saccade.io.text_files import MAX_LISTED_ERRORS, read_lines

JSON_LINE_SUFFIXES = (".jsonl", ".ndjson", ".json")
TOKEN_KEYS, TAG_KEYS = ("tokens", "words"), ("tags", "ner_tags", "labels", "pos_tags")
CONLLU_COLUMNS = 10
MAX_SIGNATURE_BYTES = 512  # from which files that are no text are recognised
_CONLLU_EXTRA = re.compile(r"\d+[-.]\d+")
_DOCUMENT_START = "-DOCSTART-"


def read_tagged(data: str | Path | object, config: TaggedTextConfig) -> list[TaggedSentence]:
    """Return the sentences of a file or of a list in memory, with tags in BIO.

    Raises:
        DataError: with the lines of tokens without tags, or of tags that break the scheme.
    """
    if is_in_memory(data):
        name, sentences = "data in memory", list(_from_memory(data))
    else:
        name = str(data)
        _refuse_binary(name)
        is_json = plain_suffix(name) in JSON_LINE_SUFFIXES
        read = read_json_lines if is_json else read_conll
        sentences = read(read_lines(name, config.encoding), config, name)
    if not sentences:
        raise DataError(f"{name}: got no sentences; expected a token and its tag in each line.")
    return convert_to_bio(sentences, config.scheme, name)


def has_tokens(path: str) -> bool:
    """Return True for a file of tokens by its name: CoNLL or JSON lines."""
    return plain_suffix(path) in (*CONLL_SUFFIXES, *JSON_LINE_SUFFIXES)


def read_sentence_tokens(path: str, config: TaggedTextConfig) -> list[tuple[str, ...]]:
    """Return the tokens of each sentence of a file, which may have no tags."""
    _refuse_binary(path)
    lines = list(read_lines(path, config.encoding))
    if plain_suffix(path) in JSON_LINE_SUFFIXES:
        given = ((n, line) for n, line in enumerate(lines, 1) if line.strip())
        try:
            return [_strings(_object(parse_json(line)), TOKEN_KEYS) for _, line in given]
        except ValueError as error:
            raise DataError(f"{path}: {error}.") from None
    rows = [split_cells(line) for line in lines]
    count = _count_columns(rows)
    token = _position(config.token_column, count, path) if count else 0
    sentences: list[list[str]] = [[]]
    for cells in rows:
        if not cells:
            sentences.append([])
        elif _is_token(cells, count) and token < len(cells) and cells[token]:
            sentences[-1].append(cells[token])
    return [tuple(sentence) for sentence in sentences if sentence]


def _refuse_binary(name: str) -> None:
    if name == STANDARD_INPUT:
        return
    with byte_source(name).open() as file:
        kind = binary_kind(file.read(MAX_SIGNATURE_BYTES))
    if kind:
        raise DataError(
            f"{name}: got {kind}; expected a CoNLL file, with a token and its tag in each line, or "
            "JSON lines; try to convert it."
        )


# --- CoNLL ----------------------------------------------------------------------------------------


def split_cells(line: str) -> list[str]:
    """Return the cells of a line: between tabs, or else between blanks; none of a blank line."""
    if not line.strip():
        return []
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def read_conll(lines: Iterable[str], config: TaggedTextConfig, name: str) -> list[TaggedSentence]:
    """Return the sentences of the lines of a CoNLL file."""
    rows = [(number, split_cells(line)) for number, line in enumerate(lines, 1)]
    count = _count_columns([cells for _, cells in rows])
    if not count:
        return []
    token, tag = (_position(c, count, name) for c in (config.token_column, config.tag_column))
    if token == tag:
        raise DataError(
            f"{name}: got column {token + 1} of {count} for both tokens and tags; expected two "
            "columns or more; try --set data.token_column=N, or --set data.tag_column=N."
        )
    sentences: list[TaggedSentence] = []
    sentence: list[tuple[str, str, int]] = []
    errors: list[str] = []
    for number, cells in (*rows, (0, [])):
        if not cells:
            if sentence:
                sentences.append(TaggedSentence(*map(tuple, zip(*sentence, strict=True))))
            sentence = []
        elif not _is_token(cells, count):
            continue
        elif len(cells) != count or not cells[token] or not cells[tag]:
            problem = f"{len(cells)} columns" if len(cells) != count else "an empty cell"
            errors.append(f"{name}, line {number:,}: got {problem}; expected {count} columns")
        else:
            sentence.append((cells[token], cells[tag], number))
    _raise_errors(errors, name)
    return sentences


def _count_columns(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of columns of the first line that is no comment; 0 without lines."""
    given = [cells for cells in rows if cells]
    return len(next((cells for cells in given if _is_token(cells, 0)), (given or [[]])[0]))


def _is_token(cells: Sequence[str], count: int) -> bool:
    """Return False for a comment, the start of a document and extra tokens of CoNLL-U."""
    if cells[0].startswith("#") and len(cells) != count:
        return False
    if cells[0] == _DOCUMENT_START:
        return False
    return not (len(cells) == CONLLU_COLUMNS and _CONLLU_EXTRA.fullmatch(cells[0]))


def _position(column: int, count: int, name: str) -> int:
    """Return a column counted from 0."""
    position = column - 1 if column > 0 else count + column
    if not 0 <= position < count:
        raise DataError(
            f"{name}: got lines of {count} column{'s' if count != 1 else ''}, and {column} as a "
            "column of the settings; expected a token and its tag in each line; try --set "
            "data.token_column=1 --set data.tag_column=-1."
        )
    return position


def _raise_errors(errors: list[str], name: str) -> None:
    if errors:
        more = len(errors) - MAX_LISTED_ERRORS
        listed = errors[:MAX_LISTED_ERRORS] + ([f"and {more:,} more"] if more > 0 else [])
        raise DataError(bullet_list(listed, f"{name} has lines that cannot be read:"))


# --- JSON and memory ------------------------------------------------------------------------------


def read_json_lines(
    lines: Iterable[str], config: TaggedTextConfig, name: str
) -> list[TaggedSentence]:
    """Return the sentences of JSON lines, each an object with tokens and tags."""
    found: list[TaggedSentence] = []
    errors: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_sentence(parse_json(line), number))
        except ValueError as error:
            errors.append(f"{name}, line {number:,}: {error}")
    _raise_errors(errors, name)
    return [sentence for sentence in found if sentence.tokens]


def _from_memory(data: object) -> Iterator[TaggedSentence]:
    if not isinstance(data, Iterable):
        raise DataError(
            f"got a {type(data).__name__}; expected a list of (tokens, tags), or of dictionaries "
            "with tokens and tags."
        )
    for number, item in enumerate(data, 1):
        value = item
        if isinstance(item, tuple | list) and len(item) == 2:
            value = {"tokens": list(item[0]), "tags": list(item[1])}
        try:
            yield _sentence(value, number)
        except ValueError as error:
            raise DataError(f"item {number:,}: {error}.") from None


def _sentence(value: Any, number: int) -> TaggedSentence:
    """Return an object with tokens and tags as a sentence; ValueError for any other."""
    tokens, tags = (_strings(_object(value), keys) for keys in (TOKEN_KEYS, TAG_KEYS))
    if len(tokens) != len(tags):
        raise ValueError(f"got {len(tokens)} tokens and {len(tags)} tags; expected one each")
    return TaggedSentence(tokens, tags, (number,) * len(tokens))


def _object(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"got a {type(value).__name__}; expected an object with tokens and tags")
    return value


def _strings(value: Mapping[Any, Any], keys: Sequence[str]) -> tuple[str, ...]:
    found = next((value[key] for key in keys if key in value), None)
    if not isinstance(found, list) or not all(isinstance(s, str) and s.strip() for s in found):
        raise ValueError(f"got no list of strings as {keys[0]}; expected one of {', '.join(keys)}")
    return tuple(found)
