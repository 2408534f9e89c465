"""Batches: each pair once an epoch, in shapes that never change, with little padding."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data import batching
from saccade.data.batching import BatchPlan, EncodedPairs, Ragged, encode_pairs, training_batches
from saccade.data.parallel.config import PairsConfig, TokenizerConfig
from saccade.data.parallel.pairs import SentencePairs
from saccade.data.parallel.readers import read_pairs
from saccade.data.special_tokens import BOS, EOS, PAD
from saccade.data.tokenizers import CharacterTokenizer, train_tokenizer
from saccade.tasks.translation.data import load_pair_splits, train_tokenizers

LENGTHS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=60)
BUDGETS = st.integers(1, 80)
SEEDS = st.integers(0, 5)


def encoded_of(lengths):
    """Return pairs of those lengths in which every token has its own id."""

    def side(sizes, first):
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Ragged(np.arange(first, first + offsets[-1], dtype=np.int32), offsets)

    sources, targets = zip(*lengths, strict=True)
    lines = np.arange(len(lengths)) * 3 + 2
    return EncodedPairs("made up", side(sources, 10), side(targets, 5_000), lines)


def no_progress(*counts):
    return None


# --- ragged arrays ------------------------------------------------------------------------------

ROWS = st.lists(st.lists(st.integers(4, 60_000), max_size=7), min_size=1, max_size=20)


def ragged_of(rows):
    flat = np.array([id for row in rows for id in row], dtype=np.uint16)
    return Ragged(flat, np.cumsum([0, *map(len, rows)]))


def rows_of(ragged):
    return [
        ragged.ids[start:end].tolist()
        for start, end in zip(ragged.offsets[:-1], ragged.offsets[1:], strict=True)
    ]


@given(rows=ROWS, data=st.data())
@settings(deadline=None)
def test_ragged_take_equals_list_indexing(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=30))
    taken = ragged_of(rows).take(np.array(chosen, dtype=np.int64))
    assert rows_of(taken) == [rows[at] for at in chosen]
    assert taken.lengths.tolist() == [len(rows[at]) for at in chosen]
    assert taken.ids.dtype == np.uint16


@given(rows=ROWS, data=st.data())
@settings(deadline=None)
def test_ragged_padded_adds_prefix_and_suffix(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=9))
    table = ragged_of(rows).padded(np.array(chosen), prefix=(1,), suffix=(2, 3))
    longest = max(len(rows[at]) for at in chosen) + 3
    expected = [[1, *rows[at], 2, 3] for at in chosen]
    assert table.tolist() == [row + [PAD] * (longest - len(row)) for row in expected]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
def test_encode_ragged_keeps_all_texts_across_chunks(monkeypatch, chunk):
    monkeypatch.setattr(batching, "ENCODE_CHUNK", chunk)
    texts = ["abc", "", "b", "ca", "aaaa", "c", "bb"]
    tokenizer = train_tokenizer("character", texts)
    progress = []
    found = batching.encode_ragged(tokenizer, iter(texts), progress.append)
    assert rows_of(found) == [tokenizer.encode(text) for text in texts]
    assert sum(progress) == len(texts)


@pytest.mark.parametrize(("size", "kind"), [(65_536, np.uint16), (65_537, np.int32)])
def test_encode_ragged_uses_the_smallest_dtype(size, kind):
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    tokenizer = CharacterTokenizer(letters[: size - 4])
    found = batching.encode_ragged(tokenizer, iter([letters[size - 5], "\0"]), no_progress)
    assert found.ids.dtype == kind
    assert found.ids.tolist() == [size - 1, 4]


def test_encode_pairs_uses_both_tokenizers_and_keeps_lines():
    pairs = SentencePairs.from_strings([("ab", "x"), ("b", "xyx"), ("a", "y")], "made up")
    pairs = pairs.take(np.array([2, 0]))
    source, target = train_tokenizer("character", ["ab"]), train_tokenizer("character", ["yx"])
    encoded = encode_pairs(pairs, source, target, no_progress)
    assert rows_of(encoded.source) == [source.encode("a"), source.encode("ab")]
    assert rows_of(encoded.target) == [target.encode("y"), target.encode("x")]
    assert encoded.lines.tolist() == [3, 1]
    assert len(encoded) == 2
    assert encoded.take(np.array([1])).lines.tolist() == [1]


# --- one batch ----------------------------------------------------------------------------------


@given(lengths=LENGTHS, data=st.data())
@settings(deadline=None)
def test_batch_equals_the_reference_loop(lengths, data):
    encoded = encoded_of(lengths)
    chosen = data.draw(
        st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8, unique=True)
    )
    batch = encoded.batch(np.array(chosen))
    sources, targets = rows_of(encoded.source), rows_of(encoded.target)
    longest_source = max(len(sources[row]) for row in chosen) + 1
    longest_target = max(len(targets[row]) for row in chosen) + 1
    out, real = [], []
    for index, row in enumerate(chosen):
        ids = [*sources[row], EOS]
        assert batch.source[index].tolist() == ids + [PAD] * (longest_source - len(ids))
        ids = [BOS, *targets[row]]
        # EOS may follow a shorter target: that position is masked
        assert batch.target_in[index, : len(ids)].tolist() == ids
        assert set(batch.target_in[index, len(ids) :].tolist()) <= {PAD, EOS}
        out += [*targets[row], EOS]
        real += [index * longest_target + step for step in range(len(ids))]
    assert batch.source.shape == (len(chosen), longest_source)
    assert batch.target_in.shape == (len(chosen), longest_target)
    assert batch.target_out.tolist() == out
    everything = len(real) == len(chosen) * longest_target
    assert (batch.target_positions is None) == everything
    if batch.target_positions is not None:
        assert batch.target_positions.tolist() == real
    own = [len(sources[row]) + 1 for row in chosen]
    assert (batch.source_lengths is None) == (len(set(own)) == 1)
    if batch.source_lengths is not None:
        assert batch.source_lengths.tolist() == own
    assert batch.lines == tuple(3 * row + 2 for row in chosen)
    assert batch.tokens == len(out)
    assert batch.weights is None
    for tensor in (batch.source, batch.target_in, batch.target_out):
        assert tensor.dtype == torch.int64
        assert tensor.is_contiguous()


@given(lengths=LENGTHS, data=st.data())
@settings(deadline=None)
def test_slice_batch_equals_a_batch_of_the_rows(lengths, data):
    encoded = encoded_of(lengths)
    rows = np.array(data.draw(st.permutations(range(len(lengths)))))
    start = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(start + 1, len(rows)))
    whole = encoded.batch(rows)
    weighted = whole._replace(weights=torch.arange(whole.tokens).double())
    got, expected = batching.slice_batch(weighted, start, stop), encoded.batch(rows[start:stop])
    assert got.lines == expected.lines
    for name in ("source", "source_lengths", "target_in", "target_out", "target_positions"):
        mine, theirs = getattr(got, name), getattr(expected, name)
        assert (mine is None) == (theirs is None), name
        assert mine is None or torch.equal(mine, theirs), name
    prefix = sum(lengths[row][1] + 1 for row in rows[:start].tolist())
    assert got.weights.tolist() == list(range(prefix, prefix + expected.tokens))


def test_batch_accepts_empty_sources_and_targets():
    batch = encoded_of([(0, 0), (0, 0)]).batch(np.array([0, 1]))
    assert batch.source.tolist() == [[EOS], [EOS]]
    assert batch.target_in.tolist() == [[BOS], [BOS]]
    assert batch.target_out.tolist() == [EOS, EOS]
    assert batch.source_lengths is None
    assert batch.target_positions is None


# --- batch plan ---------------------------------------------------------------------------------


@given(lengths=LENGTHS, budget=BUDGETS, seed=SEEDS)
@settings(deadline=None)
def test_batch_plan_yields_each_pair_once_per_epoch(lengths, budget, seed):
    plan = BatchPlan(encoded_of(lengths), budget)
    everyone = list(range(len(lengths)))
    for epoch in range(3):
        batches = list(plan.epoch(seed, epoch))
        assert len(batches) == len(plan)
        assert sorted(np.concatenate(batches).tolist()) == everyone
    in_order = np.concatenate([plan.rows(index) for index in range(len(plan))])
    assert sorted(in_order.tolist()) == everyone


@given(lengths=LENGTHS, budget=BUDGETS)
@settings(deadline=None)
def test_batch_plan_shapes_do_not_depend_on_epoch_or_seed(lengths, budget):
    encoded = encoded_of(lengths)
    plan = BatchPlan(encoded, budget)

    def shapes(batches):
        synthetic = map(encoded.batch, batches)
        return sorted((*batch.source.shape, batch.target_in.shape[1]) for batch in synthetic)

    planned = shapes(plan.rows(index) for index in range(len(plan)))
    for seed, epoch in [(0, 0), (0, 1), (1, 0)]:
        assert shapes(plan.epoch(seed, epoch)) == planned


@given(lengths=LENGTHS, budget=BUDGETS)
@settings(deadline=None)
def test_batch_plan_fills_the_budget_without_exceeding_it(lengths, budget):
    encoded = encoded_of(lengths)
    plan = BatchPlan(encoded, budget)
    longest = np.maximum(encoded.source.lengths, encoded.target.lengths) + 1

    def cost(rows):
        return len(rows) * longest[rows].max()

    for index in range(len(plan)):
        rows = plan.rows(index)
        assert cost(rows) <= budget or len(rows) == 1
        if index + 1 < len(plan):
            assert cost(np.append(rows, plan.rows(index + 1)[0])) > budget


@given(
    lengths=LENGTHS,
    budget=BUDGETS,
    seed=SEEDS,
    start=st.integers(0, 40),
    more=st.integers(1, 30),
)
@settings(deadline=None, max_examples=40)
def test_training_batches_resume_at_any_step(lengths, budget, seed, start, more):
    encoded = encoded_of(lengths)
    plan = BatchPlan(encoded, budget)
    replayed = islice(training_batches(encoded, plan, seed, 0), start, start + more)
    found = islice(training_batches(encoded, BatchPlan(encoded, budget), seed, start), more)
    for one, other in zip(replayed, found, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            if isinstance(mine, torch.Tensor):
                torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
            else:
                assert mine == theirs


def test_batch_plan_order_is_a_function_of_seed_and_epoch():
    plan = BatchPlan(encoded_of([(length % 9, length % 7) for length in range(300)]), 40)

    def order(seed, epoch):
        return [row for rows in plan.epoch(seed, epoch) for row in rows.tolist()]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 1)


def test_batch_plan_epoch_shuffles_pairs_of_equal_lengths():
    plan = BatchPlan(encoded_of([(4, 4)] * 60), 50)

    def groups(epoch):
        return {frozenset(rows.tolist()) for rows in plan.epoch(1, epoch)}

    assert len(plan) == 6
    assert not groups(0) & groups(1)


# --- padding ------------------------------------------------------------------------------------


def padding(encoded, plan):
    """The share of the cells of an epoch, of both sides, that hold padding."""
    cells = real = 0
    for rows in plan.epoch(1, 0):
        batch = encoded.batch(rows)
        cells += batch.source.numel() + batch.target_in.numel()
        real += batch.target_out.numel() + int(
            batch.source.numel() if batch.source_lengths is None else batch.source_lengths.sum()
        )
    return 1 - real / cells


def learned(config, pairs):
    tokenizers = train_tokenizers(config, pairs)
    return encode_pairs(pairs, tokenizers.source, tokenizers.target, no_progress)


@pytest.mark.parametrize("synthetic", ["dates", "numbers"])
def test_batch_plan_padding_of_synthetic_sets_is_below_a_tenth(synthetic):
    config = PairsConfig(synthetic=synthetic, size=5_000)
    pairs = load_pair_splits(config, no_progress).pairs["train"]
    # an epoch of some 40 batches in each: with fewer, pairs of similar lengths are too rare
    for kind, budget in (("character", 2200), ("character", 4096), ("bpe", 1000)):
        encoded = learned(TokenizerConfig(kind=kind), pairs)
        assert padding(encoded, BatchPlan(encoded, budget)) < 0.10


def test_batch_plan_padding_of_multi30k_is_below_a_tenth(dataset):
    folder = dataset("multi30k")
    pairs = read_pairs([folder / "train.de.gz", folder / "train.en.gz"])
    encoded = learned(TokenizerConfig(kind="bpe", size=8000, shared=True), pairs)
    assert len(encoded.source) == len(encoded.target) == len(pairs) == len(encoded)
    plan = BatchPlan(encoded, 4096)
    assert padding(encoded, plan) < 0.10
    tokens = [encoded.batch(plan.rows(index)).tokens for index in range(len(plan))]
    assert np.mean(tokens) > 0.75 * 4096


@given(st.integers(0, 1000))
@settings(deadline=None, max_examples=20)
def test_batch_plan_neighbours_are_similar_with_even_lengths(seed):
    """Up and down in turn: at the border of two target lengths the sources meet."""
    choose = np.random.default_rng(seed)
    target = choose.choice([1, 3, 5, 7, 9, 11], 200)
    source = choose.integers(0, 20, 200)
    encoded = encoded_of(list(zip(source.tolist(), target.tolist(), strict=True)))
    order = BatchPlan(encoded, 30).order
    source, target = source[order], target[order]
    border = np.flatnonzero(np.diff(target))
    jumps = np.abs(np.diff(source.astype(int)))[border]
    # 30 or so sources to a target length: the longest of them, or the shortest, are near by
    assert jumps.mean() < 5
