"""Texts as token streams, windows without padding, and pairs of segments."""

from itertools import groupby

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.text.packing import (
    DOCUMENT_START,
    LINE_START,
    WORD_START,
    Packing,
    token_stream,
)
from saccade.data.wordpiece import CLS, SEP

# lines of a text: the ids of their tokens, none for an empty line
LINES = st.lists(st.lists(st.integers(5, 60), max_size=9), min_size=1, max_size=12).filter(any)


def stored(lines):
    """Return lines as the token store has them."""
    return np.array([SEP, *(id for line in lines for id in (*line, SEP))], np.uint16)


def stream_of(lines):
    ids = stored(lines)
    return token_stream(ids, ids % 5 > 0)  # multiples of 5 continue a word


def text_of(documents, length, seed=0):
    """Return documents of distinct random tokens in lines of ten."""
    draw = np.random.default_rng(seed)
    lines = []
    for _ in range(documents):
        lines += [*(draw.integers(5, 6000, 10).tolist() for _ in range(length // 10)), []]
    return stream_of(lines)


@given(LINES)
def test_stream_is_the_text_with_a_separator_after_each_document(lines):
    stream = stream_of(lines)
    documents = [list(some) for has_text, some in groupby(lines, bool) if has_text]
    ids, starts = [], []
    for document in documents:
        for number, line in enumerate(document):
            for at, id in enumerate(line):
                first = number == 0 and at == 0
                starts.append(
                    (first or id % 5 > 0) * WORD_START
                    | (at == 0) * LINE_START
                    | first * DOCUMENT_START
                )
                ids.append(id)
        ids.append(SEP)
        starts.append(WORD_START)
    assert stream.ids.tolist() == ids and stream.starts.tolist() == starts
    assert len(stream.document_starts) == len(documents)
    owners = np.repeat(np.arange(len(documents)), [sum(map(len, d)) + 1 for d in documents])
    assert stream.documents_at(np.arange(len(stream))).tolist() == owners.tolist()


def test_a_text_without_tokens_is_an_empty_stream():
    assert len(stream_of([[], []])) == 0


@settings(max_examples=60)
@given(LINES, st.integers(8, 20), st.booleans(), st.integers(0, 3))
def test_windows_cover_the_text_without_padding(lines, length, pairs, epoch):
    stream = stream_of(lines)
    packing = Packing(stream, length, pairs)
    first = packing.window_starts(np.arange(packing.count), seed=1, epoch=epoch)
    covered = {at + offset for at in first.tolist() for offset in range(packing.text_length)}
    assert covered == set(range(len(stream)))
    rows = packing.rows(first, key=7)
    width = min(length, len(stream) + (3 if pairs else 2))
    assert rows.ids.shape == rows.positions.shape == rows.segments.shape == (len(first), width)
    inside = rows.positions >= 0
    assert (rows.ids[inside] == stream.ids[rows.positions[inside]]).all()
    assert (rows.ids[:, 0] == CLS).all() and (rows.ids[:, -1] == SEP).all()
    assert (inside.sum(1) == packing.text_length).all()
    if not pairs:
        assert (np.diff(rows.positions[:, 1:-1]) == 1).all() and not rows.segments.any()


@settings(max_examples=60)
@given(LINES, st.integers(8, 20), st.integers(0, 9))
def test_labels_of_pairs_are_true(lines, length, key):
    stream = stream_of(lines)
    packing = Packing(stream, length, pairs=True)
    windows = np.arange(packing.count)
    rows = packing.rows(packing.window_starts(windows, 1, 0), key)
    assert rows.is_next is not None
    for ids, positions, segments, is_next in zip(
        rows.ids, rows.positions, rows.segments, rows.is_next, strict=True
    ):
        middle = int(np.flatnonzero(segments == 0)[-1])
        assert ids[middle] == SEP and positions[middle] == -1
        one, two = positions[1:middle], positions[middle + 1 : -1]
        assert (np.diff(one) == 1).all() and (np.diff(two) == 1).all()
        if len(one) and len(two):
            follows = two[0] == one[-1] + 1
            same = stream.documents_at(two[:1])[0] == stream.documents_at(one[-1:])[0]
            assert is_next == (follows and same)


def test_half_of_the_pairs_follow_and_the_others_are_of_other_documents():
    stream = text_of(40, 500)
    packing = Packing(stream, 64, pairs=True)
    windows = np.arange(packing.count)
    labels = []
    for epoch in range(12):
        rows = packing.rows(packing.window_starts(windows, 1, epoch), key=epoch)
        labels.append(rows.is_next)
        second = rows.segments.argmax(1)
        before = np.take_along_axis(rows.positions, second[:, None] - 2, 1)[:, 0]
        after = np.take_along_axis(rows.positions, second[:, None], 1)[:, 0]
        is_other = stream.documents_at(before) != stream.documents_at(after)
        assert (is_other == ~rows.is_next).mean() > 0.99
        # both kinds of second segments start at the start of a line
        starts_line = (stream.starts[after] & LINE_START) > 0
        assert starts_line[rows.is_next].mean() > 0.99 and starts_line[~rows.is_next].all()
    share = np.concatenate(labels)
    assert abs(share.mean() - 0.5) < 4 * 0.5 / len(share) ** 0.5


def test_one_document_has_pairs_of_both_kinds():
    stream = text_of(1, 2000)
    packing = Packing(stream, 32, pairs=True)
    first = packing.window_starts(np.arange(packing.count), 1, 0)
    rows = packing.rows(first, key=3)
    assert 0.2 < rows.is_next.mean() < 0.8


def test_windows_are_functions_of_seed_epoch_and_number():
    packing = Packing(text_of(5, 200), 40, pairs=True)
    windows = np.arange(packing.count)
    first = packing.window_starts(windows, 1, 2)
    some = np.array([7, 3])
    whole = packing.rows(first, key=5)
    part = packing.rows(packing.window_starts(some, 1, 2), key=5)
    assert (part.ids == whole.ids[some]).all() and (part.is_next == whole.is_next[some]).all()
    assert not np.array_equal(first, packing.window_starts(windows, 1, 3))
