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
def test_sampling_top_k_keeps_k_largest(logits, k):
    expected = []
    for row in logits.tolist():
        best = sorted(range(len(row)), key=lambda v: -row[v])[:k]
        expected.append([x if v in best else -math.inf for v, x in enumerate(row)])
    assert keep_top_k(logits, k).tolist() == expected


@settings(deadline=None, max_examples=60)
@given(tables(), st.floats(0.01, 1.0))
def test_sampling_top_p_keeps_smallest_set(logits, p):
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


def test_sampling_top_p_equals_worked_example():
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25]], dtype=torch.float64).log()

    def kept(p):
        return (keep_top_p(logits, p)[0] > -torch.inf).nonzero()[:, 0].tolist()

    assert kept(0.001) == [1]
    assert kept(0.4999) == [1]
    assert kept(0.5001) == kept(0.7499) == [1, 3]
    assert kept(0.7501) == kept(0.8999) == [1, 2, 3]
    assert kept(0.9001) == [0, 1, 2, 3]


def test_sampling_top_p_one_keeps_all():
    logits = torch.tensor([[0.0, -50.0, -800.0, -3000.0]])
    assert torch.equal(keep_top_p(logits, 1.0), logits)


def test_sampling_top_k_ties_keep_the_first():
    logits = torch.tensor([[1.0, 2.0, 2.0, 2.0]])
    assert keep_top_k(logits, 1).argmax() == logits.max(dim=-1).indices == 1
    assert (keep_top_k(logits, 2) > -torch.inf).tolist() == [[False, True, True, False]]
    assert (keep_top_p(logits, 0.1) > -torch.inf).tolist() == [[False, True, False, False]]


@settings(deadline=None, max_examples=40)
@given(tables(), st.sampled_from([0.1, 0.7, 1.0, 3.0]))
def test_sampling_temperature_divides_logits(logits, temperature):
    found = apply_temperature(logits, temperature).softmax(dim=-1)
    for row, p in zip(logits.tolist(), found.tolist(), strict=True):
        powers = [math.exp(x / temperature) for x in row]
        assert p == pytest.approx([power / sum(powers) for power in powers])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sampling_low_temperature_is_argmax(dtype):
    logits = torch.tensor([[1.0, 3.0, 2.999, -torch.inf]], dtype=dtype)
    expected = torch.tensor([[0.0, 1.0, 0.0, 0.0]], dtype=dtype)
    for temperature in (1e-6, 1e-30, 1e-300):
        assert torch.equal(apply_temperature(logits, temperature).softmax(dim=-1), expected)


def test_sampling_high_temperature_is_uniform():
    logits = torch.tensor([[1.0, 30.0, -torch.inf]], dtype=torch.float64)
    found = apply_temperature(logits, 1e9).softmax(dim=-1)
    assert found[0].tolist() == pytest.approx([0.5, 0.5, 0.0])


@settings(deadline=None, max_examples=40)
@given(tables(), st.sampled_from([0.5, 2.0]), st.integers(1, 8), st.floats(0.05, 0.999))
def test_sampling_filters_equal_hugging_face(logits, temperature, k, p):
    peer = pytest.importorskip("transformers.generation.logits_process")
    warm = peer.TemperatureLogitsWarper(temperature)
    n_best_two = peer.TopKLogitsWarper(k)
    nucleus = peer.TopPLogitsWarper(p)

    def same(ours, theirs):
        torch.testing.assert_close(ours.softmax(dim=-1), theirs.softmax(dim=-1))

    same(apply_temperature(logits, temperature), warm(None, logits))
    same(keep_top_k(logits, k), n_best_two(None, logits))
    same(keep_top_p(logits, p), nucleus(None, logits))
    same(
        keep_top_p(keep_top_k(apply_temperature(logits, temperature), k), p),
        nucleus(None, n_best_two(None, warm(None, logits))),
    )


# --- the draw -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(tables(), st.floats(0, 1, exclude_max=True), st.data())
def test_sampling_inverse_transform_equals_reference(logits, uniform, data):
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


def test_sampling_never_draws_probability_zero():
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


def frequencies(table, draws, **options):
    memory, max_lengths = torch.zeros(draws, dtype=torch.long), torch.full((draws,), 3)
    seeds = [seed_for(0, "sample", line) for line in range(draws)]
    found = sample(
        table, memory, special_tokens=FREE, max_lengths=max_lengths, seeds=seeds, **options
    )
    return Counter((tuple(answer.ids), answer.finished) for answer in found)


def test_sampling_frequencies_equal_probabilities(toy):
    table, draws = toy(4), 4000
    every = {"special_tokens": FREE, "max_lengths": torch.tensor([3]), "n_best": 10**6}
    [answers] = exhaustive_search(table, torch.tensor([0]), **every)
    expected = {(tuple(a.ids), a.finished): math.exp(a.log_probability) for a in answers}
    assert sum(expected.values()) == pytest.approx(1)
    counts = frequencies(table, draws)
    rare = sum(p for p in expected.values() if p * draws < 5)
    common = {key: p for key, p in expected.items() if p * draws >= 5}
    seen = [counts[key] for key in common]
    reference = [p * draws for p in common.values()]
    assert len(common) > 15
    assert chi_square([*seen, draws - sum(seen)], [*reference, rare * draws]) > 0.01
    # the same counts are nothing like another temperature's: the test can fail
    other = frequencies(table, draws, temperature=1.3)
    assert chi_square([other[key] for key in common], reference) < 1e-6


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.6}, {"top_k": 2}, {"top_p": 0.7}, {"temperature": 2.0, "top_k": 3}],
)
def test_sampling_first_token_frequencies_equal_distribution(toy, options):
    table, draws = toy(6, 0.5), 3000
    x = table.logits(0, ()).tolist()
    chances = [math.exp(v / options.get("temperature", 1.0)) for v in x]
    order = sorted(range(6), key=lambda v: -x[v])[: options.get("top_k", 6)]
    total, kept = 0.0, []
    for v in order:
        if total / sum(chances) < options.get("top_p", 1.0):
            kept.append(v)
        total += chances[v]
    expected = {v: chances[v] / sum(chances[v] for v in kept) * draws for v in kept}
    assert min(expected.values()) > 5
    counts = Counter()
    for (ids, _), count in frequencies(table, draws, **options).items():
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
    options=how_to_draw,
    data=st.data(),
)
def test_sampling_is_independent_of_batch_order(toy, batch, options, data):
    table = toy(5, 0.7)

    def draw(rows):
        memory, max_lengths, seeds = zip(*rows, strict=True)
        return sample(
            table,
            torch.tensor(memory),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor(max_lengths),
            seeds=list(seeds),
            **options,
        )

    together = draw(batch)
    assert together == draw(batch)
    assert together == [draw([row])[0] for row in batch]
    order = data.draw(st.permutations(range(len(batch))))
    assert draw([batch[i] for i in order]) == [together[i] for i in order]


def test_sampling_is_independent_of_batch_in_real_model():
    config = BahdanauConfig(source_vocab_size=9, target_vocab_size=9, width=6)
    model = Bahdanau(config).double().eval()
    source, lengths = torch.randint(9, (4, 6)), torch.tensor([6, 3, 1, 5])
    options = {"special_tokens": SPECIAL_TOKENS, "temperature": 1.5, "top_k": 7}

    def draw(rows):
        with torch.no_grad():
            memory = model.encode(source[rows], lengths[rows])
        return sample(
            model,
            memory,
            max_lengths=torch.full((len(rows),), 8),
            seeds=[50 + r for r in rows],
            **options,
        )

    together = draw([0, 1, 2, 3])
    assert len({tuple(answer.ids) for answer in together}) > 1
    for rows in ([2], [3, 0], [1, 3, 2, 0]):
        for row, answer in zip(rows, draw(rows), strict=True):
            assert answer.ids == together[row].ids
            assert answer.log_probability == pytest.approx(together[row].log_probability)


def test_sampling_longer_limit_extends_the_sample(toy):
    options = {"special_tokens": SPECIAL_TOKENS, "seeds": range(20)}
    table, memory = toy(6, 0.5), torch.arange(20)
    short = sample(table, memory, max_lengths=torch.full((20,), 2), **options)
    long = sample(table, memory, max_lengths=torch.full((20,), 9), **options)
    assert [a.ids for a in short] == [a.ids[:2] for a in long]


def test_sampling_differs_between_seeds(toy):
    options = {"special_tokens": SPECIAL_TOKENS, "max_lengths": torch.full((20,), 6)}
    table, memory = toy(6, 0.5), torch.zeros(20, dtype=torch.long)
    assert len({tuple(a.ids) for a in sample(table, memory, seeds=range(20), **options)}) > 10
    assert len({tuple(a.ids) for a in sample(table, memory, seeds=[7] * 20, **options)}) == 1


@pytest.mark.parametrize("options", [{"top_k": 1}, {"temperature": 1e-9}, {"top_p": 1e-9}])
def test_sampling_top_k_one_is_greedy(toy, options):
    table, memory, max_lengths = toy(6), torch.arange(20), torch.arange(1, 21)
    found = sample(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        seeds=range(20),
        **options,
    )
    assert found == greedy_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths
    )


def test_sampling_log_probability_ignores_truncation(toy):
    table = toy(5, 0.8)
    options = {
        "temperature": 1.8,
        "top_k": 3,
        "top_p": 0.95,
        "seeds": range(30),
        "length_penalty": 0.5,
    }
    memory, max_lengths = torch.arange(30), torch.full((30,), 4)
    for seed, answer in enumerate(
        sample(table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, **options)
    ):
        whole = answer.ids + [SPECIAL_TOKENS.eos] * answer.finished
        total = sum(
            float(table.logits(seed, whole[:t]).log_softmax(0)[token])
            for t, token in enumerate(whole)
        )
        assert answer.log_probability == pytest.approx(total)
        assert answer.score == pytest.approx(total / ((5 + len(whole)) / 6) ** 0.5)


def test_sampling_forbidden_tokens_do_not_count_for_top_k(toy):
    class Starts(toy):
        """Prefers bos first, then 2, then 3."""

        def logits(self, seed, prefix):
            return torch.tensor([9.0, -9.0, 3.0, 2.9, 1.0], dtype=torch.float64)

    found = sample(
        Starts(5),
        torch.zeros(50, dtype=torch.long),
        special_tokens=SPECIAL_TOKENS,
        max_lengths=torch.full((50,), 3),
        seeds=range(50),
        top_k=2,
    )
    assert {token for answer in found for token in answer.ids} == {2, 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "a temperature of 0.0; expected more than 0: .* use greedy"),
        ({"temperature": math.nan}, "a temperature of nan"),
        ({"top_k": 0}, "got top_k 0; expected 1 or more"),
        ({"top_p": 0.0}, "got top_p 0.0; .* above 0 and at most 1"),
        ({"top_p": 1.1}, "got top_p 1.1;"),
        ({"seeds": [1]}, "got 1 seeds for 2 examples; expected one seed each"),
        ({"max_lengths": torch.tensor([0, 2])}, "a maximum length of 0 tokens"),
    ],
)
def test_sampling_refuses_invalid_settings(toy, options, message):
    given = {"max_lengths": torch.tensor([2, 2]), "seeds": [1, 2]} | options
    with pytest.raises(ValueError, match=message):
        sample(toy(4), torch.tensor([0, 1]), special_tokens=SPECIAL_TOKENS, **given)


def test_sampling_propagates_nan(toy):
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
