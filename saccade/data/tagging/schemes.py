"""Schemes of tags that mark spans: all are converted to BIO. Does not import torch.

bio     B-x starts a span of type x, I-x continues it, O is outside      (CoNLL-2002)
iob1    I-x, and B-x only where a span follows another of its type       (CoNLL-2000, 2003)
bioes   B-x I-x … E-x, and S-x for a span of one token
plain   no spans: every tag stands for itself
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from saccade.data.tagging.config import TagScheme
from saccade.errors import DataError
from saccade.io.text_files import MAX_LISTED_ERRORS
from saccade.types.arrays import BoolArray

OUTSIDE = "O"
Move = tuple[str, str]  # a tag and the one after it
_SPAN_TAG = re.compile(r"[BIES]-.+", re.DOTALL)


class TaggedSentence(NamedTuple):
    """The tokens of a sentence and the tag of each, with the lines they are in."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    lines: tuple[int, ...]


def split_tag(tag: str) -> tuple[str, str]:
    """Return the letter of a BIO tag and its type."""
    letter, _, name = tag.partition("-")
    return letter, name


def has_span_tags(tags: Sequence[str]) -> bool:
    """Return True if all tags are O or have a letter of a scheme and a type."""
    return all(tag == OUTSIDE or _SPAN_TAG.fullmatch(tag) for tag in tags)


def tag_moves(tags: Sequence[str]) -> Iterator[Move]:
    """Yield each tag with the one before it; before the first and after the last it is O."""
    return zip((OUTSIDE, *tags), (*tags, OUTSIDE), strict=True)


def detect_scheme(sentences: Sequence[TaggedSentence], name: str) -> str:
    """Return the scheme of tags that mark spans; DataError for other tags, with their lines."""
    wrong = [
        (line, tag)
        for sentence in sentences
        for line, tag in zip(sentence.lines, sentence.tags, strict=True)
        if not has_span_tags((tag,))
    ]
    if wrong:
        listed = ", ".join(f"line {line:,}: {tag!r}" for line, tag in wrong[:MAX_LISTED_ERRORS])
        more = f" and {len(wrong) - MAX_LISTED_ERRORS:,} more" if wrong[MAX_LISTED_ERRORS:] else ""
        raise DataError(
            f"{name}: got tags that are not BIO ({listed}{more}); expected O, B-TYPE or I-TYPE; "
            "try --set data.scheme=plain for tags without spans, such as parts of speech, or "
            "another --set data.tag_column=N."
        )
    found = {move for sentence in sentences for move in tag_moves(sentence.tags)}
    kinds = {(split_tag(tag)[0], _continues(before, tag)) for before, tag in found}
    if any(kind in ("E", "S") for kind, _ in kinds):
        return "bioes"
    # I-x without a span before it, and B-x only after a span of type x
    return "iob1" if ("I", False) in kinds and ("B", False) not in kinds else "bio"


def _continues(before: str, tag: str) -> bool:
    """Return True if a span of the type of a tag may continue: B-x or I-x is before it."""
    letter, name = split_tag(before)
    return letter in ("B", "I") and name == split_tag(tag)[1]


def _is_valid(move: Move, scheme: str) -> bool:
    """Return True if a tag may follow another one."""
    before, tag = move
    kind = split_tag(tag)[0]
    if scheme == "iob1":
        return kind != "B" or _continues(before, tag)
    if scheme == "bio":
        return kind != "I" or _continues(before, tag)
    if split_tag(before)[0] in ("B", "I"):
        return kind in ("I", "E") and _continues(before, tag)
    return kind in ("B", "S", OUTSIDE)


def convert_to_bio(
    sentences: Sequence[TaggedSentence], scheme: TagScheme, name: str
) -> list[TaggedSentence]:
    """Return the sentences with BIO tags; DataError for tags that break their scheme."""
    if scheme == "plain":
        return list(sentences)
    detected = detect_scheme(sentences, name)
    found = detected if scheme == "auto" else scheme
    _check_moves(sentences, found, name)
    if found == "bio":
        return list(sentences)
    return [sentence._replace(tags=_to_bio(sentence.tags, found)) for sentence in sentences]


def _check_moves(sentences: Sequence[TaggedSentence], scheme: str, name: str) -> None:
    found = {move for sentence in sentences for move in tag_moves(sentence.tags)}
    invalid = {move for move in found if not _is_valid(move, scheme)}
    wrong = [
        f"line {line:,}: {tag} after {before}"
        for sentence in sentences
        if invalid and not invalid.isdisjoint(tag_moves(sentence.tags))
        for line, (before, tag) in zip(
            (*sentence.lines, sentence.lines[-1]), tag_moves(sentence.tags), strict=True
        )
        if (before, tag) in invalid
    ]
    if not wrong:
        return
    listed = ", ".join(wrong[:MAX_LISTED_ERRORS])
    more = f" and {len(wrong) - MAX_LISTED_ERRORS:,} more" if wrong[MAX_LISTED_ERRORS:] else ""
    hint = {
        "bio": "B-TYPE or I-TYPE before I-TYPE",
        "iob1": "B-TYPE only after a span of the same type",
        "bioes": "B-TYPE … E-TYPE, or S-TYPE",
    }[scheme]
    raise DataError(
        f"{name}: got tags that break the scheme {scheme} ({listed}{more}); expected {hint}; try "
        "to correct the lines, or --set data.scheme=plain, by which each tag stands for itself."
    )


def _to_bio(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Return valid tags of another scheme as BIO."""
    found = []
    for before, tag in zip((OUTSIDE, *tags[:-1]), tags, strict=True):
        kind, name = split_tag(tag)
        if scheme == "bioes":
            letter = {"S": "B", "E": "I"}.get(kind, kind)
        else:  # a span of IOB1 starts where the type changes, too
            letter = "B" if kind == "I" and not _continues(before, tag) else kind
        found.append(OUTSIDE if kind == OUTSIDE else f"{letter}-{name}")
    return tuple(found)


class AllowedMoves(NamedTuple):
    """Which tag may follow which in BIO, and which may be the first."""

    moves: BoolArray  # (tags, tags): from, to
    starts: BoolArray  # (tags,)


def allowed_moves(tags: Sequence[str], is_bio: bool) -> AllowedMoves:
    """Return the moves that a sequence of tags may have: I-x only after B-x or I-x."""
    size = len(tags)
    if not is_bio:
        return AllowedMoves(np.ones((size, size), np.bool_), np.ones(size, np.bool_))
    allowed = [[_is_valid((before, tag), "bio") for tag in tags] for before in tags]
    return AllowedMoves(np.array(allowed), np.array([split_tag(tag)[0] != "I" for tag in tags]))
