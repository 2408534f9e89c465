"""The coverage penalty, against loops, a slow beam that keeps its weights, and a real model."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import (
    Hypothesis,
    SpecialTokens,
    beam_search,
    coverage_penalty,
    greedy_search,
    rerank_by_coverage,
)
from saccade.inspection.attention import capture_attention
from saccade.models import Bahdanau, BahdanauConfig

SPECIAL_TOKENS = SpecialTokens(0, 1, (0,))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0]))
def test_rerank_penalty_equals_equation(T, S, seed, beta):
    torch.manual_seed(seed)
    weights = torch.randn(T, S, dtype=torch.float64).softmax(dim=-1)
    expected = 0.0
    for i in range(S):
        expected += math.log(min(sum(float(weights[t, i]) for t in range(T)), 1.0))
    assert coverage_penalty(weights, beta) == pytest.approx(beta * expected)


def test_rerank_equals_worked_example():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
    # looked: 1.5, 0.5 and 1.0
    assert coverage_penalty(weights, 2.0) == pytest.approx(2 * math.log(0.5))
    assert coverage_penalty(weights[:2], 1.0) == pytest.approx(2 * math.log(0.25))
    assert coverage_penalty(weights[:1], 1.0) == -math.inf
    assert coverage_penalty(weights[:1], 0.0) == 0.0


def weights_of(seed, whole, positions=3):
    """Made-up weights that are a function of the sentence and what was written before."""
    rows = []
    for t in range(len(whole)):
        drawn = torch.Generator().manual_seed(hash((seed, *whole[:t])) % 2**62)
        rows.append(torch.randn(positions, dtype=torch.float64, generator=drawn))
    return (2 * torch.stack(rows)).softmax(dim=-1)


def slow_beam(table, seed, limit, width, alpha, beta):
    """A beam that keeps each hypothesis's weights and scores it when it ends."""
    open_, done = [(0.0, [], torch.zeros(3, dtype=torch.float64))], []
    for tokens in range(1, limit + 1):
        grown = []
        for total, generated_ids, looked in open_:
            now = looked + weights_of(seed, [*generated_ids, None])[-1]
            values = table.logits(seed, generated_ids).log_softmax(0).tolist()
            grown += [
                (total + value, [*generated_ids, token], now)
                for token, value in enumerate(values)
                if token != SPECIAL_TOKENS.bos
            ]
        best = sorted(grown, key=lambda one: -one[0])[: width - len(done)]
        open_ = []
        for total, generated_ids, looked in best:
            if generated_ids[-1] == SPECIAL_TOKENS.eos or tokens == limit:
                missing = sum(math.log(min(x, 1.0)) for x in looked.tolist())
                done.append((total / ((5 + tokens) / 6) ** alpha + beta * missing, generated_ids))
            else:
                open_.append((total, generated_ids, looked))
    return sorted(done, key=lambda one: -one[0])


@settings(deadline=None, max_examples=25)
@given(
    batch=st.lists(st.tuples(st.integers(0, 999), st.integers(1, 5)), min_size=1, max_size=3),
    width=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 1.0]),
    beta=st.sampled_from([0.0, 0.2, 1.0]),
    n_best=st.integers(1, 3),
)
def test_rerank_equals_beam_with_recorded_weights(toy, batch, width, alpha, beta, n_best):
    table = toy(4)
    memory, max_lengths = (torch.tensor(column) for column in zip(*batch, strict=True))
    found = beam_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        width=width,
        n_best=width,
        length_penalty=alpha,
    )
    weights = [
        [weights_of(seed, a.ids + [SPECIAL_TOKENS.eos] * a.finished) for a in answers]
        for answers, (seed, _) in zip(found, batch, strict=True)
    ]
    judged = rerank_by_coverage(found, weights, beta=beta, n_best=n_best)
    for answers, (seed, limit) in zip(judged, batch, strict=True):
        expected = slow_beam(table, seed, limit, width, alpha, beta)[:n_best]
        generated_ids = [a.ids + [SPECIAL_TOKENS.eos] * a.finished for a in answers]
        assert generated_ids == [ids for _, ids in expected]
        assert [a.score for a in answers] == pytest.approx([score for score, _ in expected])


def test_rerank_can_change_the_best_hypothesis():
    likely = Hypothesis([5], -1.0, -1.0, True)
    whole = Hypothesis([5, 6], -1.1, -1.1, True)
    half = torch.tensor([[1.0, 0.0], [0.9, 0.1]])
    both = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    assert rerank_by_coverage([[likely, whole]], [[half, both]], beta=0.0, n_best=2) == [
        [likely, whole]
    ]
    [[first, second]] = rerank_by_coverage([[likely, whole]], [[half, both]], beta=0.2, n_best=2)
    assert first == whole  # all was looked at: its score is as it was
    assert second.score == pytest.approx(-1.0 + 0.2 * math.log(0.1))
    assert second.log_probability == -1.0
    assert rerank_by_coverage([[likely, whole]], [[half, both]], beta=0.2) == [[whole]]


def test_rerank_second_pass_gives_the_weights_of_the_search():
    model = (
        Bahdanau(BahdanauConfig(source_vocab_size=9, target_vocab_size=9, width=6)).double().eval()
    )
    source = torch.randint(9, (1, 5))
    with torch.no_grad():
        memory = model.encode(source, None)
        with capture_attention(model) as during:
            [answer] = greedy_search(
                model, memory, special_tokens=SPECIAL_TOKENS, max_lengths=torch.tensor([6])
            )
        tokens = len(answer.ids) + answer.finished
        read = torch.tensor([[SPECIAL_TOKENS.bos, *answer.ids][:tokens]])
        with capture_attention(model) as after:
            model.step(read, model.init_state(memory))
    kept, again = during.weights("attention")[0, 0], after.weights("attention")[0, 0]
    assert kept.shape == (tokens, 5)
    torch.testing.assert_close(kept, again)
    [[judged]] = rerank_by_coverage([[answer]], [[again]], beta=0.3)
    assert judged.score == pytest.approx(answer.score + coverage_penalty(kept, 0.3))
    assert judged.score < answer.score


def test_rerank_refuses_invalid_settings():
    answer = Hypothesis([5], -1.0, -1.0, True)
    two, three = torch.ones(2, 4) / 4, torch.ones(3, 4) / 4
    with pytest.raises(
        ValueError, match="weights of 3 steps for a hypothesis of 2 tokens .* one row"
    ):
        rerank_by_coverage([[answer]], [[three]], beta=0.2)
    with pytest.raises(ValueError, match="got n_best 0; expected 1 or more"):
        rerank_by_coverage([[answer]], [[two]], beta=0.2, n_best=0)
    with pytest.raises(ValueError, match="a coverage penalty of -0.2; expected 0 or more"):
        rerank_by_coverage([[answer]], [[two]], beta=-0.2)
