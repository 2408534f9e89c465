"""Permutation importance of the columns of a table (Breiman 2001; Fisher et al. 2019)."""

from collections.abc import Callable, Sequence

import numpy as np

from saccade.seeding import generator
from saccade.types.arrays import FloatArray


def permutation_importance(
    score: Callable[[FloatArray], float],
    features: FloatArray,
    columns: Sequence[slice],
    repeats: int,
    seed: int = 0,
) -> FloatArray:
    r"""Return how much worse the score becomes if one column is shuffled: (columns, repeats).

    \[ I_{jk} = s(X) - s(X^{(j,k)}) \]

    with \(X^{(j,k)}\) the rows X whose features of column j are permuted among the rows. A column
    that the model does not use has importance 0; one of several correlated columns has less than
    all of them together. Agrees with scikit-learn's `permutation_importance`, except that the
    features of one column (one-hot) are shuffled together.

    Args:
        score: from features to a score, higher is better.
        features: the encoded rows, (N, D).
        columns: the features of each column.
        repeats: shuffles of each column.
        seed: of the shuffles.
    """
    before = score(features)
    drops = np.empty((len(columns), repeats))
    for number, column in enumerate(columns):
        for repeat in range(repeats):
            order = generator(seed, f"permutation of column {number}", repeat).permutation(
                len(features)
            )
            shuffled = features.copy()
            shuffled[:, column] = features[order, column]
            drops[number, repeat] = before - score(shuffled)
    return drops
