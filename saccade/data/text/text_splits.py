"""Division of a text: its documents by the settings, or its end.

A file with columns has documents, which are divided as the examples of other tasks are; without
settings, the last documents are held out. A plain text is one long sequence, whose end is held out;
with `data.group_by=text` its lines are documents. No document is in two splits.
"""

from array import array
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.hashing import HashArray
from saccade.data.split_keys import (
    Division,
    KeptRows,
    describe_division,
    dev_without_test,
    divide_rows,
    read_split_cells,
    without_given,
)
from saccade.data.splits import (
    DEV,
    SPLIT_NAMES,
    TEST,
    TRAIN,
    SplitArray,
    SplitConfig,
    hash_texts,
    leave_out_repeated,
)
from saccade.data.tables.csv import pluralise
from saccade.data.text.corpus import Documents, TextCorpus, split_text_lines
from saccade.data.text.token_store import (
    MIN_LINES_TO_SPLIT,
    LineRange,
    cut_off_end,
    split_off_end,
)
from saccade.errors import DataError
from saccade.io.text_files import STANDARD_INPUT
from saccade.types.arrays import IntArray


class DividedText(NamedTuple):
    """The lines of each split, and notes for the user; a split with a share of 0 is absent."""

    lines: dict[str, LineRange]
    notes: list[str]


def divide_text(corpora: Mapping[str, TextCorpus], config: SplitConfig) -> DividedText:
    """Divide a text by the settings.

    Args:
        corpora: the text as "train", and the held-out texts that are given.
        config: settings of the division.

    Raises:
        DataError: if nothing is left to train on, or a split would be empty.
    """
    given = {split: corpus for split, corpus in corpora.items() if split != "train"}
    whole = corpora["train"]
    if whole.documents is None:
        divided = _divide_end(corpora, config)
    else:
        divided = _divide_documents(whole.documents, given, config)
    if not any(line.strip() for line in divided.lines["train"]):
        raise DataError(
            f"{whole.name}: got nothing to train on once dev and test are held out; expected a "
            "longer text."
        )
    return divided


# --- one long text --------------------------------------------------------------------------------


def _divide_end(corpora: Mapping[str, TextCorpus], config: SplitConfig) -> DividedText:
    found = {split: _all_lines(corpus) for split, corpus in corpora.items()}
    _check_different(corpora, found)
    train = found.pop("train")
    train, parts = _hold_out_end(train, config, found)
    return DividedText({"train": train, **found, **parts}, [])


def _hold_out_end(
    train: LineRange, config: SplitConfig, given: Mapping[str, object]
) -> tuple[LineRange, dict[str, LineRange]]:
    parts = {}
    for split, share in (("test", config.test_share), ("dev", config.dev_share)):
        if split not in given and share:
            train, parts[split] = split_off_end(train, share)
    return train, parts


def _all_lines(corpus: TextCorpus) -> LineRange:
    """Return all lines; those of standard input are kept in memory."""
    if corpus.name == STANDARD_INPUT:
        lines = list(corpus.read())
        return LineRange(lambda: iter(lines), 0, len(lines))
    return LineRange(corpus.read, 0, sum(1 for _ in corpus.read()))


def _check_different(corpora: Mapping[str, TextCorpus], lines: Mapping[str, LineRange]) -> None:
    """Raise a DataError if two splits have the same text."""
    met: dict[bytes, str] = {}
    for split, some in lines.items() if len(lines) > 1 else ():
        digest = blake2b(digest_size=16)
        for line in some:
            digest.update(f"{line}\n".encode())
        other = met.setdefault(digest.digest(), split)
        if other != split:
            raise DataError(
                f"{corpora[split].name}: got the same text for {other} and {split}; expected "
                f"another one, on which the model is not trained; try without data.{split}, which "
                "holds out a part."
            )


# --- documents ------------------------------------------------------------------------------------


class _DocumentFacts(NamedTuple):
    hashes: HashArray
    numbers: IntArray  # lines or rows of the file
    lines: IntArray  # number of lines of each document


def _divide_documents(
    documents: Documents, given: Mapping[str, TextCorpus], config: SplitConfig
) -> DividedText:
    facts = _read_facts(documents)
    held_out = {split: _hash_corpus(corpus) for split, corpus in given.items()}
    found = {split: _all_lines(corpus) for split, corpus in given.items()}
    kept_of_dev = KeptRows(None, [])
    if all(corpus.documents is not None for corpus in given.values()):
        kept_of_dev = dev_without_test(held_out)
        if kept_of_dev.rows is not None:
            found["dev"] = _lines_at(given["dev"], kept_of_dev.rows)
    if not describe_division(config) and len(facts.hashes) < MIN_LINES_TO_SPLIT:
        kept = _is_last_of_equal(facts.hashes)
        for hashes in held_out.values():
            kept &= ~np.isin(facts.hashes, hashes)
        train, parts = _hold_out_end(_lines_of(documents, facts, kept), config, given)
        left_out = pluralise(int((~kept).sum()), "repeated document")
        notes = kept_of_dev.notes + ([] if kept.all() else [f"{left_out} left out."])
        return DividedText({"train": train, **found, **parts}, notes)
    division = _split_documents(documents, facts, held_out, config)
    for number, split in enumerate(SPLIT_NAMES):
        if split in given:
            continue
        chosen = division.splits == number
        if chosen.any():
            found[split] = _lines_of(documents, facts, chosen)
        elif split == "train" or getattr(config, f"{split}_share"):
            raise DataError(
                f"{documents.records.name}: got no document for {split}, of {len(chosen):,} "
                f"divided {describe_division(config) or 'by their order'}; expected one or more in "
                "each split; try other columns, or data.dev and data.test."
            )
    return DividedText(found, division.notes + kept_of_dev.notes)


def _split_documents(
    documents: Documents,
    facts: _DocumentFacts,
    held_out: Mapping[str, HashArray],
    config: SplitConfig,
) -> Division:
    if describe_division(config):
        cells = read_split_cells(documents.records, config, facts.numbers)
        return divide_rows(config, facts.hashes, cells, given=held_out, is_exact=True)
    splits: SplitArray = np.full(len(facts.hashes), TRAIN, np.int8)
    end = len(splits)
    for name, number in (("test", TEST), ("dev", DEV)):
        share = getattr(config, f"{name}_share")
        if name not in held_out and share:
            cut = cut_off_end(end, share)
            splits[cut:end] = number
            end = cut
    return without_given(
        Division(leave_out_repeated(splits, facts.hashes), []), facts.hashes, held_out
    )


def _read_facts(documents: Documents) -> _DocumentFacts:
    numbers, lines = array("q"), array("q")

    def contents() -> Iterator[bytes]:
        for number, text in documents.numbered():
            numbers.append(number)
            lines.append(text.count("\n") + 1)
            yield text.encode()

    hashes = hash_texts(contents())
    if not len(hashes):
        raise DataError(
            f"{documents.records.name}: got no text in {documents.column!r}; expected some."
        )
    return _DocumentFacts(hashes, np.array(numbers, np.int64), np.array(lines, np.int64))


def _hash_corpus(corpus: TextCorpus) -> HashArray:
    """Return the hashes of the documents of a held-out text; of its lines if it has none."""
    texts = corpus.read() if corpus.documents is None else corpus.documents
    return hash_texts(text.encode() for text in texts)


def _is_last_of_equal(hashes: HashArray) -> NDArray[np.bool_]:
    """Return True for the last of equal documents, and for single ones."""
    _, from_end = np.unique(hashes[::-1], return_index=True)
    is_last = np.zeros(len(hashes), bool)
    is_last[len(hashes) - 1 - from_end] = True
    return is_last


def _lines_at(corpus: TextCorpus, rows: IntArray) -> LineRange:
    """Return the lines of the documents at these positions."""
    assert corpus.documents is not None
    facts = _read_facts(corpus.documents)
    chosen = np.zeros(len(facts.hashes), bool)
    chosen[rows] = True
    return _lines_of(corpus.documents, facts, chosen)


def _lines_of(documents: Documents, facts: _DocumentFacts, chosen: NDArray[np.bool_]) -> LineRange:
    """Return the lines of some documents."""

    def read() -> Iterator[str]:
        texts = compress(documents, chosen.tolist())
        return chain.from_iterable(map(split_text_lines, texts))

    return LineRange(read, 0, int(facts.lines[chosen].sum()))
