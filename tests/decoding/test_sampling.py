"""Sampling: the cuts against loops and another library, the draws against exact distributions."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import (
    SpecialTokens,
    apply_temperature,
    exhaustive_search,
    greedy_search,
    keep_top_k,
    keep_top_p,
    sample,
)
from saccade.decoding.sampling import inverse_transform_sample
from saccade.models import Bahdanau, BahdanauConfig
from saccade.seeding import seed_for

SPECIAL_TOKENS = SpecialTokens(0, 1, (0,))
FREE = SpecialTokens(0, 1, ())


@st.composite
def tables(draw):
    R, V = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    torch.manual_seed(draw(st.integers(0, 2**32 - 1)))
    return draw(st.sampled_from([0.3, 1.0, 5.0])) * torch.randn(R, V, dtype=torch.float64)


# --- the cuts -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(tables(), st.integers(1, 10))
def test_the_k_largest_stay(logits, k):
    expected = []
    for row in logits.tolist():
        best = sorted(range(len(row)), key=lambda v: -row[v])[:k]
        expected.append([x if v in best else -math.inf for v, x in enumerate(row)])
    assert keep_top_k(logits, k).tolist() == expected


@settings(deadline=None, max_examples=60)
@given(tables(), st.floats(0.01, 1.0))
def test_the_smallest_set_that_has_p_stays(logits, p):
    found = keep_top_p(logits, p)
    for row, kept in zip(logits, found, strict=True):
        chances, nucleus, total = row.softmax(0).tolist(), set(), 0.0
        for v in sorted(range(len(chances)), key=lambda v: -chances[v]):
            if total >= p - 1e-12:
                break
            nucleus.add(v)
            total += chances[v]
        assert {v for v, x in enumerate(kept.tolist()) if x > -math.inf} == nucleus
        assert all(kept[v] == row[v] for v in nucleus)


def test_top_p_by_hand():
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25]], dtype=torch.float64).log()

    def kept(p):
        return (keep_top_p(logits, p)[0] > -torch.inf).nonzero()[:, 0].tolist()

    assert kept(0.001) == [1]
    assert kept(0.4999) == [1]
    assert kept(0.5001) == kept(0.7499) == [1, 3]
    assert kept(0.7501) == kept(0.8999) == [1, 2, 3]
    assert kept(0.9001) == [0, 1, 2, 3]


def test_top_p_of_one_leaves_all_however_small():
    logits = torch.tensor([[0.0, -50.0, -800.0, -3000.0]])
    assert torch.equal(keep_top_p(logits, 1.0), logits)


def test_of_equal_ones_the_first_stay_as_in_greedy_search():
    logits = torch.tensor([[1.0, 2.0, 2.0, 2.0]])
    assert keep_top_k(logits, 1).argmax() == logits.max(dim=-1).indices == 1
    assert (keep_top_k(logits, 2) > -torch.inf).tolist() == [[False, True, True, False]]
    assert (keep_top_p(logits, 0.1) > -torch.inf).tolist() == [[False, True, False, False]]


@settings(deadline=None, max_examples=40)
@given(tables(), st.sampled_from([0.1, 0.7, 1.0, 3.0]))
def test_temperature_is_in_the_exponent(logits, temperature):
    found = apply_temperature(logits, temperature).softmax(dim=-1)
    for row, p in zip(logits.tolist(), found.tolist(), strict=True):
        powers = [math.exp(x / temperature) for x in row]
        assert p == pytest.approx([power / sum(powers) for power in powers])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_temperature_near_nothing_leaves_the_likeliest(dtype):
    logits = torch.tensor([[1.0, 3.0, 2.999, -torch.inf]], dtype=dtype)
    expected = torch.tensor([[0.0, 1.0, 0.0, 0.0]], dtype=dtype)
    for temperature in (1e-6, 1e-30, 1e-300):
        assert torch.equal(apply_temperature(logits, temperature).softmax(dim=-1), expected)


def test_a_great_temperature_makes_equal_what_has_a_chance():
    logits = torch.tensor([[1.0, 30.0, -torch.inf]], dtype=torch.float64)
    found = apply_temperature(logits, 1e9).softmax(dim=-1)
    assert found[0].tolist() == pytest.approx([0.5, 0.5, 0.0])


@settings(deadline=None, max_examples=40)
@given(tables(), st.sampled_from([0.5, 2.0]), st.integers(1, 8), st.floats(0.05, 0.999))
def test_they_are_hugging_faces_one_by_one_and_composed(logits, temperature, k, p):
    peer = pytest.importorskip("transformers.generation.logits_process")
    warm = peer.TemperatureLogitsWarper(temperature)
    few = peer.TopKLogitsWarper(k)
    nucleus = peer.TopPLogitsWarper(p)

    def same(ours, theirs):
        torch.testing.assert_close(ours.softmax(dim=-1), theirs.softmax(dim=-1))

    same(apply_temperature(logits, temperature), warm(None, logits))
    same(keep_top_k(logits, k), few(None, logits))
    same(keep_top_p(logits, p), nucleus(None, logits))
    same(
        keep_top_p(keep_top_k(apply_temperature(logits, temperature), k), p),
        nucleus(None, few(None, warm(None, logits))),
    )


# --- the draw -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(tables(), st.floats(0, 1, exclude_max=True), st.data())
def test_the_draw_is_the_inverse_of_the_sum(logits, uniform, data):
    never = data.draw(st.sets(st.integers(0, logits.shape[1] - 1)))
    if len(never) < logits.shape[1]:
        logits[:, list(never)] = -torch.inf
    chances = logits.softmax(dim=-1)
    tokens = inverse_transform_sample(
        chances, torch.full((len(logits),), uniform, dtype=torch.float64)
    )
    for row, token in zip(chances.tolist(), tokens.tolist(), strict=True):
        assert row[token] > 0
        assert sum(row[:token]) <= uniform + 1e-12
        assert uniform - 1e-12 <= sum(row[: token + 1])


def test_the_luckiest_draw_is_still_a_token_with_a_chance():
    uniform = torch.tensor([np.nextafter(1.0, 0.0)], dtype=torch.float64)
    torch.manual_seed(0)
    for _ in range(200):
        chances = torch.rand(1, 7, dtype=torch.float64)
        chances[:, -1] = 0
        assert inverse_transform_sample(chances / chances.sum(), uniform).item() <= 5


# --- whole answers ------------------------------------------------------------------------------


def chi_square(counts, expected):
    """The probability of counts as far from the expected as these, or farther."""
    statistic = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))
    half = torch.tensor([(len(counts) - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def frequencies(table, draws, **how):
    memory, max_lengths = torch.zeros(draws, dtype=torch.long), torch.full((draws,), 3)
    seeds = [seed_for(0, "sample", line) for line in range(draws)]
    found = sample(table, memory, special_tokens=FREE, max_lengths=max_lengths, seeds=seeds, **how)
    return Counter((tuple(answer.ids), answer.finished) for answer in found)


def test_answers_come_as_often_as_they_are_likely(toy):
    table, draws = toy(4), 4000
    every = {"special_tokens": FREE, "max_lengths": torch.tensor([3]), "n_best": 10**6}
    [answers] = exhaustive_search(table, torch.tensor([0]), **every)
    expected = {(tuple(a.ids), a.finished): math.exp(a.log_probability) for a in answers}
    assert sum(expected.values()) == pytest.approx(1)
    counts = frequencies(table, draws)
    rare = sum(p for p in expected.values() if p * draws < 5)
    common = {key: p for key, p in expected.items() if p * draws >= 5}
    seen = [counts[key] for key in common]
    wanted = [p * draws for p in common.values()]
    assert len(common) > 15
    assert chi_square([*seen, draws - sum(seen)], [*wanted, rare * draws]) > 0.01
    # the same counts are nothing like another temperature's: the test can fail
    other = frequencies(table, draws, temperature=1.3)
    assert chi_square([other[key] for key in common], wanted) < 1e-6


@pytest.mark.parametrize(
    "how", [{"temperature": 0.6}, {"top_k": 2}, {"top_p": 0.7}, {"temperature": 2.0, "top_k": 3}]
)
def test_first_tokens_come_as_often_as_the_changed_distribution_says(toy, how):
    table, draws = toy(6, 0.5), 3000
    x = table.logits(0, ()).tolist()
    chances = [math.exp(v / how.get("temperature", 1.0)) for v in x]
    order = sorted(range(6), key=lambda v: -x[v])[: how.get("top_k", 6)]
    total, kept = 0.0, []
    for v in order:
        if total / sum(chances) < how.get("top_p", 1.0):
            kept.append(v)
        total += chances[v]
    expected = {v: chances[v] / sum(chances[v] for v in kept) * draws for v in kept}
    assert min(expected.values()) > 5
    counts = Counter()
    for (ids, _), count in frequencies(table, draws, **how).items():
        counts[ids[0] if ids else SPECIAL_TOKENS.eos] += count
    assert set(counts) == set(expected)
    assert chi_square([counts[v] for v in kept], [expected[v] for v in kept]) > 0.01


how_to_draw = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.5, 2.0]),
        "top_k": st.integers(1, 4),
        "top_p": st.floats(0.1, 1.0),
    },
)


@settings(deadline=None, max_examples=30)
@given(
    batch=st.lists(
        st.tuples(st.integers(0, 99), st.integers(1, 6), st.integers(0, 2**62)),
        min_size=1,
        max_size=5,
    ),
    how=how_to_draw,
    data=st.data(),
)
def test_neighbours_and_their_order_change_nothing(toy, batch, how, data):
    table = toy(5, 0.7)

    def draw(rows):
        memory, max_lengths, seeds = zip(*rows, strict=True)
        return sample(
            table,
            torch.tensor(memory),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor(max_lengths),
            seeds=list(seeds),
            **how,
        )

    together = draw(batch)
    assert together == draw(batch)
    assert together == [draw([row])[0] for row in batch]
    order = data.draw(st.permutations(range(len(batch))))
    assert draw([batch[i] for i in order]) == [together[i] for i in order]


def test_neighbours_change_nothing_in_a_real_model():
    config = BahdanauConfig(source_vocab_size=9, target_vocab_size=9, width=6)
    model = Bahdanau(config).double().eval()
    source, lengths = torch.randint(9, (4, 6)), torch.tensor([6, 3, 1, 5])
    how = {"special_tokens": SPECIAL_TOKENS, "temperature": 1.5, "top_k": 7}

    def draw(rows):
        with torch.no_grad():
            memory = model.encode(source[rows], lengths[rows])
        return sample(
            model,
            memory,
            max_lengths=torch.full((len(rows),), 8),
            seeds=[50 + r for r in rows],
            **how,
        )

    together = draw([0, 1, 2, 3])
    assert len({tuple(answer.ids) for answer in together}) > 1
    for rows in ([2], [3, 0], [1, 3, 2, 0]):
        for row, answer in zip(rows, draw(rows), strict=True):
            assert answer.ids == together[row].ids
            assert answer.log_probability == pytest.approx(together[row].log_probability)


def test_a_longer_limit_only_adds(toy):
    how = {"special_tokens": SPECIAL_TOKENS, "seeds": range(20)}
    table, memory = toy(6, 0.5), torch.arange(20)
    short = sample(table, memory, max_lengths=torch.full((20,), 2), **how)
    long = sample(table, memory, max_lengths=torch.full((20,), 9), **how)
    assert [a.ids for a in short] == [a.ids[:2] for a in long]


def test_another_seed_is_another_answer(toy):
    how = {"special_tokens": SPECIAL_TOKENS, "max_lengths": torch.full((20,), 6)}
    table, memory = toy(6, 0.5), torch.zeros(20, dtype=torch.long)
    assert len({tuple(a.ids) for a in sample(table, memory, seeds=range(20), **how)}) > 10
    assert len({tuple(a.ids) for a in sample(table, memory, seeds=[7] * 20, **how)}) == 1


@pytest.mark.parametrize("how", [{"top_k": 1}, {"temperature": 1e-9}, {"top_p": 1e-9}])
def test_the_narrowest_is_greedy_search(toy, how):
    table, memory, max_lengths = toy(6), torch.arange(20), torch.arange(1, 21)
    found = sample(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        seeds=range(20),
        **how,
    )
    assert found == greedy_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths
    )


def test_the_log_probability_is_the_models_whatever_the_cut(toy):
    table = toy(5, 0.8)
    how = {"temperature": 1.8, "top_k": 3, "top_p": 0.95, "seeds": range(30), "alpha": 0.5}
    memory, max_lengths = torch.arange(30), torch.full((30,), 4)
    for seed, answer in enumerate(
        sample(table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, **how)
    ):
        whole = answer.ids + [SPECIAL_TOKENS.eos] * answer.finished
        total = sum(
            float(table.logits(seed, whole[:t]).log_softmax(0)[token])
            for t, token in enumerate(whole)
        )
        assert answer.log_probability == pytest.approx(total)
        assert answer.score == pytest.approx(total / ((5 + len(whole)) / 6) ** 0.5)


def test_what_is_never_written_takes_no_place_among_the_k(toy):
    class Begins(toy):
        """Wants the begin mark first, then 2, then 3."""

        def logits(self, seed, prefix):
            return torch.tensor([9.0, -9.0, 3.0, 2.9, 1.0], dtype=torch.float64)

    found = sample(
        Begins(5),
        torch.zeros(50, dtype=torch.long),
        special_tokens=SPECIAL_TOKENS,
        max_lengths=torch.full((50,), 3),
        seeds=range(50),
        top_k=2,
    )
    assert {token for answer in found for token in answer.ids} == {2, 3}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"temperature": 0.0}, "a temperature of 0.0 .* wanted more than 0: .* use greedy"),
        ({"temperature": math.nan}, "a temperature of nan"),
        ({"top_k": 0}, "the 0 likeliest tokens .* wanted 1 or more"),
        ({"top_p": 0.0}, "a probability of 0.0 .* wanted more than 0 and at most 1"),
        ({"top_p": 1.1}, "a probability of 1.1 "),
        ({"seeds": [1]}, "got 1 seeds and 2 sentences; give one seed for each"),
        ({"max_lengths": torch.tensor([0, 2])}, "a limit of 0 tokens"),
    ],
)
def test_what_cannot_be_is_refused(toy, how, said):
    given = {"max_lengths": torch.tensor([2, 2]), "seeds": [1, 2]} | how
    with pytest.raises(ValueError, match=said):
        sample(toy(4), torch.tensor([0, 1]), special_tokens=SPECIAL_TOKENS, **given)


def test_a_model_that_gives_nan_gives_an_answer_that_is_nan(toy):
    class Broken(toy):
        def logits(self, seed, prefix):
            return super().logits(seed, prefix) * torch.nan

    [answer] = sample(
        Broken(4),
        torch.tensor([0]),
        special_tokens=FREE,
        max_lengths=torch.tensor([2]),
        seeds=[0],
        top_k=2,
    )
    assert math.isnan(answer.score)
