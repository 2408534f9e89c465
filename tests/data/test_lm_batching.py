"""Text as one row of ids, and two ways to read it: every token a target once, state carried."""

import gzip
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.special_tokens import PAD
from saccade.data.text import lm_batching
from saccade.data.text.corpus import python_reference_text, read_text_corpus
from saccade.data.text.lm_batching import (
    SEGMENT_ORDERS,
    random_segments,
    segment_batches_per_epoch,
    sequential_segments,
    training_segments,
)
from saccade.errors import ConfigError, DataError

SIZES = {
    "length": st.integers(2, 70),
    "batch": st.integers(1, 6),
    "segment_length": st.integers(1, 12),
    "seed": st.integers(0, 3),
    "epoch": st.integers(0, 3),
}


def text_of(length):
    """Return distinct ids, none of which is a special token."""
    return np.arange(10, 10 + length, dtype=np.uint16)


# --- reading ------------------------------------------------------------------------------------


def test_read_text_corpus_ignores_line_ends_bom_and_compression(tmp_path):
    plain = tmp_path / "plain.txt"
    plain.write_bytes("One.\n\nTwo — naïve.\n".encode())
    other = tmp_path / "other.txt"
    other.write_bytes(b"\xef\xbb\xbf" + "One.\r\n\r\nTwo — naïve.".encode())
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, other, packed, str(plain)):
        assert list(read_text_corpus(path)) == ["One.", "", "Two — naïve."]


def test_read_text_corpus_of_a_folder_skips_hidden_files(tmp_path):
    (tmp_path / "b.txt").write_text("second\n")
    (tmp_path / "a.txt").write_text("first\n")
    (tmp_path / "a.txt.empty").write_text("")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "c.txt.gz").write_bytes(gzip.compress(b"third"))
    (tmp_path / ".hidden").write_bytes(b"\xff\xff")
    (tmp_path / ".folder").mkdir()
    (tmp_path / ".folder" / "d.txt").write_text("no\n")
    assert list(read_text_corpus(tmp_path)) == ["first", "second", "third"]


def test_read_text_corpus_accepts_a_very_long_line(tmp_path):
    (tmp_path / "long.txt").write_bytes(b"word " * 2_000_000)
    (line,) = read_text_corpus(tmp_path / "long.txt")
    assert len(line) == 10_000_000


def test_read_text_corpus_reports_unreadable_files(tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"\n \n")
    with pytest.raises(DataError, match="empty.txt: got no text"):
        list(read_text_corpus(tmp_path / "empty.txt"))
    (tmp_path / "latin.txt").write_bytes(b"good\nna\xefve\n")
    assert list(read_text_corpus(tmp_path / "latin.txt")) == ["good", "naïve"]
    with pytest.raises(DataError, match="latin.txt, line 2: byte 7 .*0xef"):
        list(read_text_corpus(tmp_path, "utf-8"))
    (tmp_path / "no files").mkdir()
    with pytest.raises(DataError, match="no files: got a folder with no files"):
        list(read_text_corpus(tmp_path / "no files"))
    with pytest.raises(DataError, match="no file .*latn.txt. Did you mean 'latin.txt'"):
        list(read_text_corpus(tmp_path / "latn.txt"))


def test_python_reference_text_is_deterministic():
    text = python_reference_text()
    assert text == python_reference_text() and len(text) > 100_000
    assert '"yield" statement' in text
    assert text.index('"assert" statement') < text.index('"yield" statement')


# --- segments -----------------------------------------------------------------------------------


def rows_of(segments):
    """Inputs and targets of each row, without the padding."""
    lengths = [segments.inputs.shape[1]] * len(segments.inputs)
    if segments.lengths is not None:
        lengths = segments.lengths.tolist()
    for row, length in enumerate(lengths):
        assert (segments.inputs[row, length:] == PAD).all()
        assert (segments.targets[row, length:] == PAD).all()
        assert length > 0
        yield segments.inputs[row, :length].tolist(), segments.targets[row, :length].tolist()


@pytest.mark.parametrize("segment_order", SEGMENT_ORDERS)
@given(**SIZES)
@settings(deadline=None, max_examples=150)
def test_segments_have_each_token_as_target_once(
    segment_order, length, batch, segment_length, seed, epoch
):
    ids = text_of(length)
    batches = list(SEGMENT_ORDERS[segment_order](ids, batch, segment_length, seed, epoch))
    targets = []
    for segments in batches:
        assert segments.inputs.shape == segments.targets.shape
        assert segments.inputs.shape[0] <= batch and segments.inputs.shape[1] <= segment_length
        for inputs, following in rows_of(segments):
            assert following == [id + 1 for id in inputs]  # what comes next in this text
            targets += following
        flat = segments.targets.flatten()
        real = flat if segments.real is None else flat[segments.real]
        assert real.tolist() == [id for _, row in rows_of(segments) for id in row]
    assert sorted(targets) == ids[1:].tolist()
    assert len(batches) == segment_batches_per_epoch(ids, segment_order, batch, segment_length)


@given(**SIZES)
@settings(deadline=None, max_examples=100)
def test_sequential_segments_continue_each_row(length, batch, segment_length, seed, epoch):
    last = None
    batches = list(sequential_segments(text_of(length), batch, segment_length, seed, epoch))
    for number, segments in enumerate(batches):
        rows = list(rows_of(segments))
        assert segments.reset_state == (number == 0)
        if last is not None:
            # only the last batch may have fewer rows, and then the first ones continue
            assert len(rows) == len(last) or number == len(batches) - 1
            for (inputs, _), (_, before) in zip(rows, last, strict=False):
                assert inputs[0] == before[-1]
        last = rows


def test_sequential_segments_with_state_equal_one_pass():
    """A recurrent network that carries its state sees no cut."""
    torch.manual_seed(0)
    ids = text_of(62)
    cell = torch.nn.GRU(1, 4, batch_first=True).double()

    def feed(inputs, state=None):
        return cell(inputs[:, :, None].double() / 50, state)

    state, outputs = None, [[], [], []]
    for segments in sequential_segments(ids, 3, 7, seed=1, epoch=0):
        rows = len(segments.inputs)
        output, state = feed(segments.inputs, None if segments.reset_state else state[:, :rows])
        for row, (inputs, _) in enumerate(rows_of(segments)):
            outputs[row].append(output[row, : len(inputs)])
    edges = [0, 21, 41, 61]  # the longer part first
    for row in range(3):
        whole, _ = feed(torch.from_numpy(ids[edges[row] : edges[row + 1]].astype(np.int64))[None])
        torch.testing.assert_close(torch.cat(outputs[row]), whole[0])


@given(**SIZES)
@settings(deadline=None, max_examples=60)
def test_random_segments_are_full_except_two(length, batch, segment_length, seed, epoch):
    lengths = []
    for segments in random_segments(text_of(length), batch, segment_length, seed, epoch):
        assert segments.reset_state
        lengths += [len(inputs) for inputs, _ in rows_of(segments)]
    assert sum(length < segment_length for length in lengths) <= 2


@pytest.mark.parametrize("segment_order", SEGMENT_ORDERS)
@given(**{**SIZES, "epoch": st.integers(0, 40)})
@settings(deadline=None, max_examples=60)
def test_training_segments_resume_at_any_step(
    segment_order, length, batch, segment_length, seed, epoch
):
    ids, start = text_of(length), epoch
    replayed = list(
        islice(training_segments(ids, segment_order, batch, segment_length, seed, 0), start + 3)
    )
    found = list(
        islice(training_segments(ids, segment_order, batch, segment_length, seed, start), 3)
    )
    for ours, theirs in zip(found, replayed[start:], strict=True):
        assert torch.equal(ours.inputs, theirs.inputs) and torch.equal(ours.targets, theirs.targets)
        assert ours.reset_state == theirs.reset_state


@pytest.mark.parametrize("segment_order", SEGMENT_ORDERS)
def test_segments_are_a_function_of_seed_and_epoch(segment_order):
    ids = text_of(1000)

    def inputs(seed, epoch):
        batches = SEGMENT_ORDERS[segment_order](ids, 4, 10, seed, epoch)
        return [row for segments in batches for row, _ in rows_of(segments)]

    assert inputs(1, 0) == inputs(1, 0)
    different = {str(inputs(seed, epoch)) for seed in range(3) for epoch in range(4)}
    # sequential ones differ by the length of the first segment alone: here 1 to 9 tokens
    assert len(different) == 12 if segment_order == "random" else len(different) > 3
    if segment_order == "sequential":
        assert {len(inputs(0, epoch)[0]) for epoch in range(60)} == set(range(1, 10))


@pytest.mark.parametrize("length", range(32, 42))
def test_segments_first_cut_varies_over_half_the_length(length):
    firsts = {
        next(sequential_segments(text_of(length), 1, 10, 0, epoch)).inputs.shape[1]
        for epoch in range(80)
    }
    assert len(firsts) >= 5


@given(st.integers(1, 5000), st.integers(0, 99))
@settings(deadline=None, max_examples=100)
def test_computed_permutation_is_a_bijection(count, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lm_batching, "MAX_STORED_PERMUTATION", 0)
        order = lm_batching._shuffled(count, np.random.default_rng(seed))
    indices = np.arange(count)
    assert sorted(order(indices).tolist()) == indices.tolist()
    assert order(indices[count // 2 :]).tolist() == order(indices)[count // 2 :].tolist()


def test_computed_permutation_is_random():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lm_batching, "MAX_STORED_PERMUTATION", 0)
        orders = [
            lm_batching._shuffled(3000, np.random.default_rng(s))(np.arange(3000)) for s in (1, 2)
        ]
    for order in orders:
        assert abs(np.corrcoef(order, np.arange(3000))[0, 1]) < 0.06
        assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.06
        # the number of fixed points is about Poisson(1)
        assert (order == np.arange(3000)).sum() < 6
        # the images of a block are spread over all blocks: 30 in each
        counts = np.bincount(order[:900] // 100, minlength=30)
        assert counts.min() > 12 and counts.max() < 52
    assert abs(np.corrcoef(*orders)[0, 1]) < 0.06


def test_random_segments_of_a_long_text_need_no_stored_permutation(monkeypatch):
    monkeypatch.setattr(lm_batching, "MAX_STORED_PERMUTATION", 10)
    ids = text_of(2000)
    found = [
        target
        for segments in random_segments(ids, 8, 5, seed=0, epoch=0)
        for _, targets in rows_of(segments)
        for target in targets
    ]
    assert sorted(found) == ids[1:].tolist()


def test_random_segments_order_is_random():
    starts = [
        inputs[0]
        for segments in random_segments(text_of(2000), 8, 5, seed=0, epoch=0)
        for inputs, _ in rows_of(segments)
    ]
    assert abs(np.corrcoef(starts, range(len(starts)))[0, 1]) < 0.15


def test_segments_reject_wrong_arguments():
    with pytest.raises(ValueError, match="text of 1 tokens; expected 2 or more"):
        next(random_segments(text_of(1), 2, 3, 0, 0))
    with pytest.raises(ValueError, match="batch=0 and segment_length=3; expected 1"):
        next(sequential_segments(text_of(9), 0, 3, 0, 0))
    with pytest.raises(ConfigError, match="no segment order 'randm'. Did you mean 'random'"):
        next(training_segments(text_of(9), "randm", 2, 3, 0, 0))
