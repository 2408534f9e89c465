"""Targets and losses of reinforcement learning against loops."""

import math
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.nn.policy_gradient import (
    categorical_log_probs,
    clipped_surrogate_loss,
    gaussian_log_probs,
    policy_gradient_loss,
)
from saccade.nn.temporal_difference import discounted_returns, generalised_advantages, q_targets

SEEDS = st.integers(0, 2**32 - 1)
SHARES = st.floats(0, 1)


def tensors(seed: int, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in shapes]


@given(SEEDS, st.integers(1, 5), st.integers(1, 4), SHARES, st.booleans())
def test_q_targets_equal_loops(
    seed: int, rows: int, actions: int, discount: float, double: bool
) -> None:
    rewards, values, chooser = tensors(seed, (rows,), (rows, actions), (rows, actions))
    terminated = (tensors(seed + 1, (rows,))[0] > 0).double()
    expected = []
    for row in range(rows):
        by = chooser if double else values
        best = max(range(actions), key=lambda a: float(by[row, a]))
        following = 0.0 if terminated[row] else float(values[row, best])
        expected.append(float(rewards[row]) + discount * following)
    found = q_targets(rewards, terminated, values, discount, chooser if double else None)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


def arrays(seed: int, steps: int, count: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    ends = (draw.random((steps, count)) < 0.3).astype(float)
    return {
        "rewards": draw.normal(size=(steps, count)),
        "ends": ends,
        "values": draw.normal(size=(steps, count)),
        "last": draw.normal(size=count),
    }


@given(SEEDS, st.integers(1, 9), st.integers(1, 3), SHARES, SHARES)
def test_advantages_and_returns_equal_the_sums_of_their_definitions(
    seed: int, steps: int, count: int, discount: float, trace: float
) -> None:
    given_ = arrays(seed, steps, count)
    rewards, ends, values, last = given_.values()
    advantages = generalised_advantages(rewards, ends, values, last, discount, trace)
    returns = discounted_returns(rewards, ends, last, discount)
    for n in range(count):
        for t in range(steps):
            total, weight = 0.0, 1.0
            gain, factor = 0.0, 1.0
            for k in range(t, steps):
                after = last[n] if k == steps - 1 else values[k + 1, n]
                bootstrap = 0.0 if ends[k, n] else discount * after
                total += weight * (rewards[k, n] + bootstrap - values[k, n])
                weight *= discount * trace
                gain += factor * rewards[k, n]
                factor *= discount
                if ends[k, n]:
                    factor = 0.0
                    break
            gain += factor * last[n]
            assert math.isclose(advantages[t, n], total, rel_tol=1e-10, abs_tol=1e-10)
            assert math.isclose(returns[t, n], gain, rel_tol=1e-10, abs_tol=1e-10)


def test_whole_trace_is_the_return_minus_the_value() -> None:
    rewards, ends, values, last = arrays(3, 7, 2).values()
    advantages = generalised_advantages(rewards, ends, values, last, 0.9, 1.0)
    returns = discounted_returns(rewards, ends, last, 0.9)
    np.testing.assert_allclose(advantages, returns - values, rtol=1e-10, atol=1e-12)


@given(SEEDS, st.integers(1, 5), st.integers(1, 4))
def test_distributions_equal_those_of_torch(seed: int, rows: int, actions: int) -> None:
    logits, means, spread, taken = tensors(
        seed, (rows, actions), (rows, actions), (actions,), (rows, actions)
    )
    draw = torch.Generator().manual_seed(seed)
    chosen = torch.randint(actions, (rows, 1), generator=draw)
    categorical = torch.distributions.Categorical(logits=logits)
    gaussian = torch.distributions.Normal(means, spread.exp())
    pairs = [
        (categorical_log_probs(logits, chosen.double()), categorical, chosen.squeeze(1)),
        (gaussian_log_probs(means, spread, taken), gaussian, taken),
    ]
    for (log_probs, entropy), distribution, value in pairs:
        expected = distribution.log_prob(value), distribution.entropy()
        for found, one in zip((log_probs, entropy), expected, strict=True):
            whole = one.sum(-1) if one.dim() == 2 else one
            np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-9)


def test_clipped_surrogate_equals_its_cases() -> None:
    """Outside of the interval, only a change for the worse has a gradient."""
    for ratio, advantage in [(1.5, 2.0), (1.5, -2.0), (0.5, 2.0), (0.5, -2.0), (1.1, 3.0)]:
        log_prob = torch.tensor([math.log(ratio)], dtype=torch.float64, requires_grad=True)
        old, weight = torch.zeros(1, dtype=torch.float64), torch.tensor([advantage])
        loss = clipped_surrogate_loss(log_prob, old, weight.double(), 0.2)
        clipped = min(max(ratio, 0.8), 1.2)
        assert math.isclose(float(loss.detach()), -min(ratio * advantage, clipped * advantage))
        (gradient,) = torch.autograd.grad(loss.sum(), log_prob)
        is_clipped = (advantage > 0 and ratio > 1.2) or (advantage < 0 and ratio < 0.8)
        assert math.isclose(float(gradient), 0.0 if is_clipped else -ratio * advantage)
        plain = clipped_surrogate_loss(log_prob, old, weight.double(), None)
        assert math.isclose(float(plain.detach()), -ratio * advantage)


def test_gradients_of_the_losses() -> None:
    logits, means, spread, taken, advantages, old = tensors(
        1, (4, 3), (4, 3), (3,), (4, 3), (4,), (4,)
    )
    chosen = torch.tensor([[0.0], [2.0], [1.0], [1.0]], dtype=torch.float64)

    def discrete(x: torch.Tensor) -> torch.Tensor:
        log_probs, entropy = categorical_log_probs(x, chosen)
        return policy_gradient_loss(log_probs, advantages) + entropy

    def continuous(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        log_probs, entropy = gaussian_log_probs(x, y, taken)
        return clipped_surrogate_loss(log_probs, old - 5, advantages, 0.2) + entropy

    assert torch.autograd.gradcheck(discrete, (logits.requires_grad_(),))
    assert torch.autograd.gradcheck(continuous, (means.requires_grad_(), spread.requires_grad_()))
