"""Markov chains against numpy's eigenvectors, and against counts made by hand."""

from collections import Counter

import numpy as np
import pytest

from saccade.estimators.markov import OTHER_STATE, MarkovChain, fit_markov_chain
from saccade.estimators.ngram.model import NGram

TEXT = "a b a c a b b c a a d c b a c b e a".split()


def test_transition_matrix_is_that_of_counted_pairs() -> None:
    chain = fit_markov_chain(TEXT, 9)
    pairs = Counter(zip(TEXT, [*TEXT[1:], TEXT[0]], strict=True))
    for i, one in enumerate(chain.states):
        for j, other in enumerate(chain.states):
            assert chain.matrix[i, j] == pairs[one, other] / TEXT.count(one)
    assert chain.states[0] == "a"


def test_stationary_distribution_is_the_left_eigenvector_of_one() -> None:
    chain = fit_markov_chain(TEXT, 9)
    values, vectors = np.linalg.eig(chain.matrix.T)
    main = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    np.testing.assert_allclose(chain.stationary(), main / main.sum(), atol=1e-12)
    shares = [TEXT.count(state) / len(TEXT) for state in chain.states]
    np.testing.assert_allclose(chain.stationary(), shares, atol=1e-12)


def test_powers_converge_at_the_rate_of_the_second_eigenvalue() -> None:
    chain = fit_markov_chain(TEXT, 9)
    product = np.eye(len(chain.states))
    for steps in range(6):
        np.testing.assert_allclose(chain.power(steps), product, atol=1e-12)
        product = product @ chain.matrix
    expected = np.sort(np.abs(np.linalg.eigvals(chain.matrix)))[-2]
    assert chain.second_modulus() == pytest.approx(expected)
    assert chain.distance(60) < 1e-6 < chain.distance(4)
    rate = (chain.distance(18) / chain.distance(6)) ** (1 / 12)
    assert rate == pytest.approx(expected, rel=0.15)
    round_trip = MarkovChain(["x", "y"], np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert round_trip.second_modulus() == 1 and round_trip.distance(99) == 0.5
    np.testing.assert_allclose(round_trip.stationary(), 0.5)


def test_rare_tokens_share_a_state() -> None:
    chain = fit_markov_chain(TEXT, 3)
    assert chain.states == ["a", "b", OTHER_STATE]
    np.testing.assert_allclose(chain.matrix.sum(axis=1), 1)
    others = sum(TEXT.count(word) for word in "cde") / len(TEXT)
    assert chain.stationary()[2] == pytest.approx(others)
    with pytest.raises(ValueError, match="got 0 tokens and 3 states"):
        fit_markov_chain([], 3)


def test_a_bigram_model_is_the_same_chain() -> None:
    chain = fit_markov_chain(TEXT, 9)
    ids = np.array([chain.states.index(word) for word in [*TEXT, TEXT[0]]])
    model = NGram(2, len(chain.states), "none").fit(ids)
    np.testing.assert_allclose(model.transition_matrix(), chain.matrix, atol=1e-12)
    np.testing.assert_allclose(model.stationary_distribution(), chain.stationary(), atol=1e-12)
