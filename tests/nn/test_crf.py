"""Linear-chain CRF: equal to enumeration of all tags, whatever the padding and the neighbours."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.data.tagging.schemes import allowed_moves
from saccade.nn.crf import (
    ChainScores,
    LinearChainCRF,
    log_partition,
    sequence_score,
    tag_marginals,
    viterbi,
)

TAGS = 3
LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def chain_and_emissions(
    lengths: list[int], seed: int, extra: int = 0
) -> tuple[ChainScores, Tensor]:
    torch.manual_seed(seed)
    chain = ChainScores(
        *(torch.randn(*size, dtype=torch.float64) for size in ((TAGS, TAGS), (TAGS,), (TAGS,)))
    )
    return chain, 2 * torch.randn(len(lengths), max(lengths) + extra, TAGS, dtype=torch.float64)


def score_by_loops(emissions: Tensor, tags: tuple[int, ...], chain: ChainScores) -> float:
    """S(y) as in the docstring of the module, one term after another."""
    total = float(chain.start[tags[0]] + chain.end[tags[-1]])
    for t, tag in enumerate(tags):
        total += float(emissions[t, tag])
        if t:
            total += float(chain.transitions[tags[t - 1], tag])
    return total


@given(LENGTHS, st.integers(0, 10**6), st.integers(0, 3))
def test_crf_equals_enumeration(lengths: list[int], seed: int, extra: int) -> None:
    chain, emissions = chain_and_emissions(lengths, seed, extra)
    real = torch.tensor(lengths)
    log_z = log_partition(emissions, real, chain)
    best = viterbi(emissions, real, chain)
    marginals = tag_marginals(emissions, real, chain)
    for row, length in enumerate(lengths):
        paths = list(itertools.product(range(TAGS), repeat=length))
        scores = torch.tensor([score_by_loops(emissions[row], path, chain) for path in paths])
        scores = scores.double()
        torch.testing.assert_close(log_z[row], scores.logsumexp(0), rtol=1e-6, atol=1e-6)
        winner = paths[int(scores.argmax())]
        assert best.tags[row, :length].tolist() == [*winner]
        assert float(best.score[row]) == pytest.approx(float(scores.max()), abs=1e-6)
        assert not best.tags[row, length:].any() and not marginals[row, length:].any()
        p = scores.softmax(0)
        for t, tag in itertools.product(range(length), range(TAGS)):
            expected = sum(float(p[i]) for i, path in enumerate(paths) if path[t] == tag)
            assert float(marginals[row, t, tag]) == pytest.approx(expected, abs=1e-6)
        tags = torch.zeros(1, emissions.shape[1], dtype=torch.int64)
        tags[0, :length] = torch.tensor(winner)
        found = sequence_score(emissions[row : row + 1], tags, real[row : row + 1], chain)
        assert float(found) == pytest.approx(float(scores.max()), abs=1e-6)


def test_gradient_of_the_log_likelihood_is_that_of_finite_differences() -> None:
    lengths = [4, 1, 3]
    chain, emissions = chain_and_emissions(lengths, 3)
    tags = torch.randint(TAGS, emissions.shape[:2])
    variables = [part.requires_grad_() for part in (emissions, *chain)]

    def likelihood(emissions: Tensor, *scores: Tensor) -> Tensor:
        parts = ChainScores(*scores)
        real = torch.tensor(lengths)
        return sequence_score(emissions, tags, real, parts) - log_partition(emissions, real, parts)

    assert torch.autograd.gradcheck(likelihood, variables)


def test_forbidden_moves_have_no_probability_and_no_gradient() -> None:
    names = ["O", "B-x", "I-x", "B-y", "I-y"]
    torch.manual_seed(0)
    crf = LinearChainCRF(len(names))
    crf.allow_only(*map(torch.from_numpy, allowed_moves(names, is_bio=True)))
    emissions = torch.randn(64, 9, len(names))
    emissions[..., [2, 4]] += 8.0  # I-x and I-y everywhere, unless it is forbidden
    lengths = torch.randint(1, 10, (64,))
    decoded = crf.decode(emissions, lengths).tags
    for row, length in zip(decoded.tolist(), lengths.tolist(), strict=True):
        before = "O"
        for tag in (names[index] for index in row[:length]):
            assert not tag.startswith("I") or before in (f"B{tag[1:]}", tag)
            before = tag
    assert not crf.marginals(emissions, lengths)[:, 0, [2, 4]].any()
    tags = torch.tensor([[1, 2, 0, 3, 4, 4, 0, 1, 2]]).expand(64, -1)
    (-crf.log_likelihood(emissions, tags, torch.full((64,), 9)).sum()).backward()
    forbidden = crf.move_penalty < 0
    gradient = crf.transitions.grad
    assert gradient is not None and forbidden.sum() == 6
    assert not gradient[forbidden].any() and gradient[~forbidden].abs().min() > 0
    assert torch.isfinite(gradient).all()


def test_sum_of_all_probabilities_is_one() -> None:
    crf = LinearChainCRF(2).double()
    torch.manual_seed(1)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    emissions = torch.randn(1, 6, 2, dtype=torch.float64)
    paths = torch.tensor(list(itertools.product(range(2), repeat=6)))
    many = emissions.expand(len(paths), -1, -1)
    p = crf.log_likelihood(many, paths, torch.full((len(paths),), 6)).exp()
    assert float(p.sum().detach()) == pytest.approx(1.0, abs=1e-12)
    assert np.isfinite(p.detach().numpy()).all()
