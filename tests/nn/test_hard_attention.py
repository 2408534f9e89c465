import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax

from saccade.nn.attention_scores import ATTENTION_SCORES, DotScore, make_score
from saccade.nn.functional import Attention, attention_weights
from saccade.nn.hard_attention import (
    HardAttention,
    argmax_weights,
    gradient_moments,
    leave_one_out_baseline,
    reinforce_loss,
    sample_keys,
    straight_through_gumbel,
)
from saccade.nn.masks import Mask

seeds = st.integers(0, 2**31)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


# --- one key per query ----------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=3), st.integers(1, 4), seeds)
def test_argmax_weights_select_best_allowed_key(lengths: list[int], T: int, seed: int) -> None:
    torch.manual_seed(seed)
    scores = random(len(lengths), 2, T, 6)
    may_see = (torch.arange(6) < torch.tensor(lengths)[:, None])[:, None, None]
    got = argmax_weights(scores, may_see)
    for b, length in enumerate(lengths):
        for h, t in product(range(2), range(T)):
            row = scores[b, h, t].tolist()
            expected = [0.0] * 6
            if length:
                expected[row.index(max(row[:length]))] = 1.0
            assert got[b, h, t].tolist() == expected


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_straight_through_gumbel_matches_torch(temperature: float) -> None:
    scores, slope = random(2, 3, 4, 5).requires_grad_(), random(2, 3, 4, 5)
    results = []
    for run in (
        lambda: straight_through_gumbel(scores, temperature),
        lambda: gumbel_softmax(scores, temperature, hard=True),
    ):
        torch.manual_seed(5)
        out = run()
        results.append((out.detach(), torch.autograd.grad(out, scores, slope)[0]))
    (mine, my_slope), (theirs, their_slope) = results
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(my_slope, their_slope)
    assert set(mine.flatten().tolist()) == {0.0, 1.0}  # to the bit
    assert bool((mine.sum(-1) == 1).all())


def test_straight_through_gumbel_samples_by_weight() -> None:
    scores = torch.tensor([0.5, 2.0, -1.0, 1.0, 9.0]).double()
    may_see = torch.tensor([True, True, True, True, False])[None, None, None]
    count = 40_000
    drawn = straight_through_gumbel(scores.expand(1, 1, count, 5), 0.7, may_see)[0, 0].mean(0)
    expected = attention_weights(scores[None, None, None], may_see)[0, 0, 0]
    assert float(drawn[4]) == 0
    # four standard deviations of a share, whatever the temperature of the slope
    for share, chance in zip(drawn[:4].tolist(), expected[:4].tolist(), strict=True):
        assert share == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / count))


def test_straight_through_gumbel_gradient_is_that_of_softmax() -> None:
    scores = random(1, 1, 3, 4).requires_grad_()
    may_see = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]).bool()[None, None]
    torch.manual_seed(3)
    noise = -torch.empty_like(scores).exponential_().log()
    soft = attention_weights((scores + noise) / 0.5, may_see)
    slope = random(1, 1, 3, 4)
    (expected,) = torch.autograd.grad(soft, scores, slope)
    torch.manual_seed(3)
    got = straight_through_gumbel(scores, 0.5, may_see)
    torch.testing.assert_close(torch.autograd.grad(got, scores, slope)[0], expected)
    assert bool((got[0, 0, 2] == 0).all())  # a blind query


@pytest.mark.parametrize("name", ATTENTION_SCORES)
def test_hard_attention_evaluation_returns_value_of_best_key(name: str) -> None:
    score = make_score(name, 3).double()
    hard = HardAttention(score).eval()
    query, keys, values = random(2, 1, 4, 3), score.prepare(random(2, 1, 5, 3)), random(2, 1, 5, 2)
    mask = Mask.lengths(torch.tensor([5, 2]))
    soft = Attention(score).weights(query, keys, mask)
    chosen = soft[:, 0].argmax(-1)
    expected = torch.stack([values[b, 0][chosen[b]] for b in range(2)])
    before = torch.get_rng_state()
    assert torch.equal(hard(query, keys, values, mask)[:, 0], expected)
    assert torch.equal(before, torch.get_rng_state())  # nothing is drawn
    assert torch.equal(hard.weights(query, keys, mask)[:, 0].argmax(-1), chosen)


def test_hard_attention_capture_draws_no_random_numbers() -> None:
    hard, mask = HardAttention(DotScore()), Mask()
    query, keys, values = random(1, 1, 20, 2), random(1, 1, 5, 2), random(1, 1, 5, 2)

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return hard(query, keys, values, mask)

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))
    assert not torch.equal(run(1), hard.reference(query, keys, values, mask))
    state = torch.get_rng_state()
    hard.weights(query, keys, mask)
    assert torch.equal(state, torch.get_rng_state())


def test_hard_attention_refuses_invalid_temperature() -> None:
    with pytest.raises(ValueError, match="got a temperature of 0.0; expected a number above 0"):
        HardAttention(DotScore(), 0.0)


# --- the score function ---------------------------------------------------------------------------


def test_reinforce_loss_matches_equation() -> None:
    table, rewards = random(2, 3, 4).log_softmax(-1), random(2, 3, 3)
    keys = torch.randint(4, (2, 3, 3))
    for baseline in (False, True):
        got = reinforce_loss(table.gather(-1, keys), rewards, baseline)
        for b, t in product(range(2), range(3)):
            r = rewards[b, t].tolist()
            others = [(sum(r) - own) / 2 if baseline else 0.0 for own in r]
            terms = [
                (own - other) * float(table[b, t, key])
                for own, other, key in zip(r, others, keys[b, t].tolist(), strict=True)
            ]
            assert float(got[b, t]) == pytest.approx(-sum(terms) / 3, abs=1e-12)


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), seeds)
def test_reinforce_gradient_is_unbiased(S: int, samples: int, baseline: bool, seed: int) -> None:
    torch.manual_seed(seed)
    baseline = baseline and samples > 1
    scores, rewards = random(S).requires_grad_(), 3 * random(S)
    expected = -(scores.softmax(0) * rewards).sum()  # -E[r]
    (true,) = torch.autograd.grad(expected, scores)
    got = gradient_moments(scores.detach(), rewards, samples, baseline)
    torch.testing.assert_close(got.mean, true, rtol=0, atol=1e-12)


def test_reinforce_with_own_sample_in_baseline_is_biased() -> None:
    """Take the mean over all samples, including the sample itself, as the baseline."""
    scores, rewards = random(3).requires_grad_(), random(3)
    (true,) = torch.autograd.grad(-(scores.softmax(0) * rewards).sum(), scores)
    chances, total = scores.detach().softmax(0), torch.zeros(3).double()
    for pair in product(range(3), repeat=2):
        keys = torch.tensor(pair)
        drawn = rewards[keys]
        loss = reinforce_loss(scores.log_softmax(0).gather(-1, keys), drawn - drawn.mean(), False)
        total += chances[keys].prod() * torch.autograd.grad(loss, scores)[0]
    assert float((total - true).abs().max()) > 1e-3


def test_reinforce_samples_match_exact_moments() -> None:
    torch.manual_seed(2)
    scores, rewards, samples, count = random(4), random(4) - 3, 3, 40_000
    leaves = scores.expand(count, -1).clone().requires_grad_()
    table = leaves.log_softmax(-1)
    keys = sample_keys(table, samples)
    loss = reinforce_loss(table.gather(-1, keys), rewards[keys])
    (slopes,) = torch.autograd.grad(loss.sum(), leaves)
    spread = gradient_moments(scores, rewards, samples)
    torch.testing.assert_close(slopes.mean(0), spread.mean, rtol=0, atol=0.02)
    assert float(slopes.var(0).sum()) == pytest.approx(spread.variance, rel=0.05)


@pytest.mark.parametrize("samples", [2, 3, 4])
def test_reinforce_baseline_lowers_variance_for_log_likelihoods(samples: int) -> None:
    torch.manual_seed(samples)
    for _ in range(10):
        scores, rewards = random(4), -2 - random(4).abs()
        with_it = gradient_moments(scores, rewards, samples, True).variance
        without = gradient_moments(scores, rewards, samples, False).variance
        print(f"{samples} draws: variance {without:.3f}, with the baseline {with_it:.3f}")
        assert with_it < without / 2


def test_reinforce_baseline_variance_is_invariant_to_reward_offset() -> None:
    scores, rewards = random(4), random(4)
    plain, more = (gradient_moments(scores, r, 2).variance for r in (rewards, rewards + 100))
    assert more == pytest.approx(plain)
    far = gradient_moments(scores, rewards + 100, 2, False).variance
    assert far > 100 * gradient_moments(scores, rewards, 2, False).variance


def test_reinforce_baseline_adds_variance_for_zero_mean_reward() -> None:
    """Check the documented case where the baseline adds variance."""
    scores, rewards = torch.zeros(4).double(), torch.tensor([1.0, -1.0, 1.0, -1.0]).double()
    with_it, without = (gradient_moments(scores, rewards, 2, b).variance for b in (True, False))
    assert with_it > without


def test_reinforce_loss_detaches_rewards() -> None:
    rewards = random(2, 3).requires_grad_()
    table = random(2, 4).log_softmax(-1).requires_grad_()
    loss = reinforce_loss(table[:, :3], rewards).sum()
    assert torch.autograd.grad(loss, rewards, allow_unused=True)[0] is None


def test_leave_one_out_baseline_needs_two_samples() -> None:
    rewards = torch.tensor([[1.0, 2.0, 6.0]])
    assert leave_one_out_baseline(rewards).tolist() == [[4.0, 3.5, 1.5]]
    with pytest.raises(
        ValueError, match="got 1 sample for a baseline; expected at least 2; try baseline=False"
    ):
        leave_one_out_baseline(rewards[:, :1])


def test_sample_keys_follow_probabilities() -> None:
    table = torch.tensor([[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]).log()
    keys = sample_keys(table, 20_000)
    assert keys.shape == (2, 20_000)
    shares = [float((keys[0] == key).double().mean()) for key in range(3)]
    assert shares == pytest.approx([0.1, 0.2, 0.7], abs=0.015)
    assert bool((keys[1] == 0).all())
    assert sample_keys(table.expand(4, 2, 3), 1).shape == (4, 2, 1)


def test_reinforce_trains_a_lookup_model() -> None:
    """Five shuffled cards with a name and a value: find the card by name, predict its value."""
    names = values = 5
    ask, predict = nn.Linear(names, names, bias=False), nn.Linear(values, values)
    optimizer = torch.optim.Adam([*ask.parameters(), *predict.parameters()], lr=0.05)
    eye = torch.eye(5)

    def deal(rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        cards = torch.rand(rows, 5).argsort(-1)  # the name at each position
        worth = torch.randint(values, (rows, 5))
        position = torch.randint(5, (rows,))
        row = torch.arange(rows)
        return cards, worth, cards[row, position], worth[row, position]

    def look(cards: Tensor, expected: Tensor) -> Tensor:
        return (ask(eye[expected])[:, None] @ eye[cards].mT)[:, 0].log_softmax(-1)

    for _ in range(200):
        cards, worth, expected, answer = deal(64)
        table = look(cards, expected)
        keys = sample_keys(table, 4)
        read = predict(eye[worth.gather(1, keys)])  # (rows, draws, values)
        likelihood = read.log_softmax(-1).gather(2, answer[:, None, None].expand(-1, 4, 1))[..., 0]
        loss = reinforce_loss(table.gather(-1, keys), likelihood) - likelihood.mean(-1)
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
    with torch.no_grad():
        cards, worth, expected, answer = deal(500)
        position = look(cards, expected).argmax(-1)
        predicted = predict(eye[worth.gather(1, position[:, None])[:, 0]]).argmax(-1)
    assert float((predicted == answer).double().mean()) > 0.97
