"""Integrated gradients and permutation importance against closed forms and scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.inspection import permutation_importance as sklearn_importance
from sklearn.linear_model import LinearRegression

from saccade.inspection.importance import permutation_importance
from saccade.inspection.integrated_gradients import integrated_gradients


def test_integrated_gradients_of_products_and_squares() -> None:
    x, b = torch.tensor([3.0, -2.0, 0.5]), torch.tensor([1.0, 0.0, 0.5])
    squares = integrated_gradients(lambda rows: (rows**2).sum(1), x, b)
    torch.testing.assert_close(squares, x**2 - b**2)
    zero = torch.zeros(3)
    products = integrated_gradients(lambda rows: rows[:, 0] * rows[:, 1], x, zero)
    torch.testing.assert_close(products, torch.tensor([-3.0, -3.0, 0.0]))  # shared equally


def test_integrated_gradients_add_up_and_respect_the_shape() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x, b = torch.randn(3, 4), torch.randn(3, 4)

    def value(rows: torch.Tensor) -> torch.Tensor:
        return network(rows.flatten(1))[:, 0]

    with torch.no_grad():
        found = integrated_gradients(value, x, b)  # gradients are enabled inside
        difference = value(x[None]) - value(b[None])
    assert found.shape == (3, 4)
    torch.testing.assert_close(found.sum()[None], difference, atol=1e-4, rtol=1e-4)


def test_permutation_importance_agrees_with_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(400, 3))
    y = x @ [2.0, -0.5, 0.0] + 0.1 * draw.normal(size=400)
    model = LinearRegression().fit(x, y)
    ours = permutation_importance(
        lambda rows: model.score(rows, y), x, [slice(n, n + 1) for n in range(3)], repeats=40
    )
    theirs = sklearn_importance(model, x, y, n_repeats=40, random_state=0)
    spread = theirs.importances_std + 1e-6
    assert ours.shape == (3, 40)
    np.testing.assert_array_less(np.abs(ours.mean(1) - theirs.importances_mean), 2 * spread)
    assert ours.mean(1).argmax() == 0 and abs(ours.mean(1)[2]) < 1e-3


def test_features_of_one_column_are_shuffled_together() -> None:
    categories = np.eye(3)[np.arange(300) % 3]

    def is_one_hot(rows: np.ndarray) -> float:
        return float((rows.sum(1) == 1).mean())

    assert permutation_importance(is_one_hot, categories, [slice(0, 3)], repeats=2).tolist() == [
        [0.0, 0.0]
    ]
    apart = permutation_importance(is_one_hot, categories, [slice(0, 1)], repeats=1)
    assert apart[0, 0] > 0.2


def test_permutation_importance_is_a_function_of_the_seed() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2))

    def score(features: np.ndarray) -> float:
        return float((features[:, 0] * rows[:, 1]).sum())

    columns = [slice(0, 1)]
    same = [permutation_importance(score, rows, columns, 3, seed=1) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert not np.array_equal(same[0], permutation_importance(score, rows, columns, 3, seed=2))
    assert same[0][0, 0] != pytest.approx(same[0][0, 1])
