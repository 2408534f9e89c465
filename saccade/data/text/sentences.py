"""Rows of sentences for vectors: alone, with a paraphrase and a contradiction, or in rated pairs.

A text has a sentence in each line. A file with columns has the sentence, and where there are some
its positive (a sentence of the same meaning), its negative (one that is similar and means something
else), or the other sentence of a pair and a rating of their similarity.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.data.parallel.pairs import excerpt
from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.open import open_records
from saccade.data.records.roles import AskColumn, RoleChoice
from saccade.data.synthetic.dates import date_languages, format_cldr_date, normalise_spaces
from saccade.data.task_records import given_columns, is_in_memory, is_record_file
from saccade.data.text.corpus import TextCorpus, open_text_corpus
from saccade.errors import DataError
from saccade.io.text_files import read_lines
from saccade.seeding import generator
from saccade.types.arrays import IntArray

ENTAILMENT, CONTRADICTION = "0", "2"  # labels of SNLI's files
PARAPHRASE = "1"  # of MRPC's


class SentenceRow(NamedTuple):
    """A sentence, its positive and negative where there are some, and the rating of the pair."""

    text: str
    positive: str | None = None
    negative: str | None = None
    score: float | None = None


@dataclass(frozen=True)
class SentenceRows:
    """Rows of a file or a generator; each iteration reads them from the start."""

    name: str
    read: Callable[[], Iterator[tuple[int, SentenceRow]]]  # with the line or row
    columns: dict[str, str] = field(default_factory=dict)  # by role; empty: not by columns
    choices: list[RoleChoice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: Records | None = None  # None: not by columns

    def __iter__(self) -> Iterator[SentenceRow]:
        return (row for _, row in self.read())

    def row_numbers(self) -> IntArray:
        """Return the line or row of each sentence in its file."""
        return np.fromiter((number for number, _ in self.read()), np.int64)


def open_sentences(
    data: str | Path | object,
    config: ReadOptions,
    is_other: bool = False,
    ask: AskColumn | None = None,
) -> SentenceRows:
    """Open sentences in any format, and find the columns of their roles.

    Args:
        data: a path, or an object in memory.
        config: settings of the data; columns that are None are inferred.
        is_other: True for other data than that of the settings, such as rated pairs for vectors
            that were trained on sentences: roles whose columns it has not are inferred.
        ask: function that asks the user which column has a role.
    """
    if is_other:
        config = _with_present_columns(data, config)
    corpus = open_text_corpus(data, config, "embed", is_other, ask)
    if corpus.documents is None:
        return SentenceRows(corpus.name, partial(_read_lines, corpus), notes=corpus.notes)
    records = corpus.documents.records
    return SentenceRows(
        corpus.name,
        partial(_read_records, records, corpus.columns),
        corpus.columns,
        corpus.choices,
        corpus.notes,
        records,
    )


def _with_present_columns(data: str | Path | object, config: ReadOptions) -> ReadOptions:
    """Return the settings without the names of columns that the data has not."""
    given = {role: name for role, name in given_columns(config, "embed").items() if name}
    if not given:
        return config
    if not is_in_memory(data) and not is_record_file(str(data)):
        columns: tuple[str, ...] = ()
    else:
        columns = open_records(data, config).columns
    kept = {role: name if name in columns else None for role, name in given.items()}
    return config.model_copy(update=kept)


def _read_lines(corpus: TextCorpus) -> Iterator[tuple[int, SentenceRow]]:
    for number, line in enumerate(corpus.read(), 1):
        if line.strip():
            yield number, SentenceRow(line.strip())


def _read_records(
    records: Records, columns: Mapping[str, str]
) -> Iterator[tuple[int, SentenceRow]]:
    """Yield the rows with a sentence; `DataError` with the row if another cell is wrong."""
    roles = [name for name in ("text", "positive", "negative", "score") if name in columns]
    for chunk in records.chunks([columns[name] for name in roles]):
        cells = (chunk.columns[columns[name]] for name in roles)
        for number, *row in zip(chunk.numbers.tolist(), *cells, strict=True):
            given = dict(zip(roles, row, strict=True))
            if not (given["text"] or "").strip():
                continue
            try:
                yield number, _parse_row(given)
            except ValueError as error:
                raise DataError(f"{records.where(number)}: {error}") from None


def _parse_row(cells: Mapping[str, str | None]) -> SentenceRow:
    """Return a row of cells; `ValueError` if a sentence or a rating is missing."""
    texts = {name: (cells[name] or "").strip() for name in cells if name != "score"}
    if missing := [name for name, text in texts.items() if not text]:
        raise ValueError(
            f"got no {missing[0]} for {excerpt(texts['text'])}; expected one; fill it in, or "
            "remove the row."
        )
    score = None
    if "score" in cells:
        try:
            score = float(cells["score"] or "")
        except ValueError:
            score = float("nan")
        if not np.isfinite(score):
            raise ValueError(
                f"got the score {excerpt(cells['score'] or '')}; expected a number; try --score "
                "COLUMN."
            )
        if "positive" not in texts:
            raise ValueError(
                "got a score and one sentence; expected two; try --positive COLUMN for the other "
                "sentence of the pair."
            )
    return SentenceRow(texts["text"], texts.get("positive"), texts.get("negative"), score)


# --- published ------------------------------------------------------------------------------------


def read_sts(path: Path) -> Iterator[SentenceRow]:
    """Yield the pairs of a file of the STS benchmark, rated from 0 to 5 (Cer et al. 2017)."""
    for cells in _split_lines(path, 7):
        yield SentenceRow(cells[5], cells[6], score=float(cells[4]))


def read_mrpc(path: Path) -> Iterator[SentenceRow]:
    """Yield the pairs of MRPC, rated 1 for paraphrases and 0 for others (Dolan 2005)."""
    for cells in _split_lines(path, 5, has_header=True):
        yield SentenceRow(cells[3], cells[4], score=float(cells[0] == PARAPHRASE))


def read_snli(path: Path) -> Iterator[SentenceRow]:
    """Yield a premise, what it entails and what contradicts it, of SNLI (Bowman et al. 2015).

    The n-th entailed hypothesis of a premise is with its n-th contradicted one, as in supervised
    SimCSE; hypotheses without the other are left out.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for premise, hypothesis, label in _split_lines(path, 3, has_header=True):
        found.setdefault(premise, {}).setdefault(label, []).append(hypothesis)
    for premise, by_label in found.items():
        pairs = zip(by_label.get(ENTAILMENT, ()), by_label.get(CONTRADICTION, ()), strict=False)
        for positive, negative in pairs:
            yield SentenceRow(premise, positive, negative)


def _split_lines(path: Path, columns: int, has_header: bool = False) -> Iterator[list[str]]:
    """Yield the first cells of each line; quotes are characters."""
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")[:columns]
        if len(cells) < columns:
            raise DataError(
                f"{path}, line {number}: got {len(cells)} cells; expected {columns} with tabs "
                "between them."
            )
        if number > 1 or not has_header:
            yield cells


# --- built in -------------------------------------------------------------------------------------


def generate_date_pairs(size: int = 20_000, seed: int = 1) -> Iterator[SentenceRow]:
    """Yield dates in English, each with the same date in one of 46 languages."""
    random, languages = generator(seed, "days and languages"), date_languages()
    first, days = date(1900, 1, 1), 73_049  # up to 2099
    for turn in range(size):
        language = languages[turn % len(languages)]
        day = first + timedelta(days=int(random.integers(days)))
        one, other = (
            normalise_spaces(format_cldr_date(day, *how))
            for how in (("en", "long"), (language, "long"))
        )
        yield SentenceRow(one, other)


SYNTHETIC_SENTENCES: dict[str, Callable[[], Iterator[SentenceRow]]] = {
    "date-pairs": generate_date_pairs
}
SENTENCE_READERS: dict[str, Callable[[Path], Iterator[SentenceRow]]] = {
    "mrpc": read_mrpc,
    "snli": read_snli,
    "stsbenchmark": read_sts,
}
