r"""Markov chains: transition matrix, its powers, the stationary distribution. No torch.

P_ij = P(X_{t+1} = j | X_t = i), rows sum to 1. Over k steps it is Pᵏ (Chapman–Kolmogorov). Where
the chain is irreducible and aperiodic, every row of Pᵏ tends to π, with π P = π, at the rate |λ₂|ᵏ
of the second largest eigenvalue.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saccade.types.arrays import FloatArray, IntArray

OTHER_STATE = "…"  # all tokens that have no state of their own
PERIODIC_MODULUS = 1 - 1e-9  # of the second eigenvalue, from which on powers do not converge


def stationary_distribution(matrix: FloatArray) -> FloatArray:
    r"""Return π with π P = π and Σ π = 1: the long-run frequency of each state.

    It is unique if the chain has exactly one closed communicating class; transient states have
    π = 0.
    """
    closed = closed_class(matrix)
    # π (I − P) = 0 has rank one too few; Σ π = 1 replaces its last equation
    equations = np.eye(len(closed)) - matrix[np.ix_(closed, closed)].T
    equations[-1] = 1.0
    stationary = np.zeros(len(matrix))
    stationary[closed] = np.linalg.solve(equations, np.eye(len(closed))[-1])
    return stationary


def closed_class(matrix: FloatArray) -> IntArray:
    """Return the closed communicating class of a chain; more than one is an error."""
    reach = (matrix > 0) | np.eye(len(matrix), dtype=bool)
    for _ in range(len(matrix).bit_length()):
        reach = reach.astype(np.float32) @ reach.astype(np.float32) > 0
    closed = np.flatnonzero((~reach | reach.T).all(axis=1))
    unreachable = closed[~reach[closed[0], closed]]
    if len(unreachable):
        raise ValueError(
            f"got a reducible chain: token {closed[0]} never reaches token {unreachable[0]}, nor "
            "the reverse, so the stationary distribution depends on the start; try a smoothing."
        )
    return closed


@dataclass(frozen=True, eq=False)
class MarkovChain:
    """A chain over named states."""

    states: Sequence[str]
    matrix: FloatArray  # (N, N), rows sum to 1

    def power(self, steps: int) -> FloatArray:
        r"""Return Pᵏ, the transition probabilities over k steps."""
        if steps < 0:
            raise ValueError(f"got {steps} steps; expected 0 or more.")
        return np.linalg.matrix_power(self.matrix, steps)

    def stationary(self) -> FloatArray:
        """Return the stationary distribution."""
        return stationary_distribution(self.matrix)

    def second_modulus(self) -> float:
        """Return |λ₂|, the rate at which powers converge; 1: a periodic chain, which does not."""
        moduli = np.sort(np.abs(np.linalg.eigvals(self.matrix)))
        return float(moduli[-2]) if len(moduli) > 1 else 0.0

    def distance(self, steps: int) -> float:
        r"""Return max_i ½ Σ_j |Pᵏ_ij - π_j|: the total variation distance from π, worst start."""
        return float(np.abs(self.power(steps) - self.stationary()).sum(axis=1).max() / 2)


def fit_markov_chain(tokens: Sequence[str], max_states: int) -> MarkovChain:
    r"""Fit a chain to a sequence by relative frequencies, P_ij = c(ij) / c(i).

    The `max_states` − 1 most frequent tokens have a state each, all others share one. The first
    token follows the last, so that every state has a successor; π is then the relative frequency
    of each state, exactly.
    """
    if not tokens or max_states < 2:
        raise ValueError(
            f"got {len(tokens)} tokens and {max_states} states; expected one token or more and two "
            "states or more."
        )
    words, numbers, counts = np.unique(list(tokens), return_inverse=True, return_counts=True)
    order = np.lexsort((np.arange(len(words)), -counts))
    kept = order if len(order) <= max_states else order[: max_states - 1]
    state = np.full(len(words), len(kept))
    state[kept] = np.arange(len(kept))
    path = state[numbers.reshape(-1)]
    names = [str(words[index]) for index in kept]
    if len(kept) < len(words):
        names.append(OTHER_STATE)
    pairs = np.zeros((len(names), len(names)))
    np.add.at(pairs, (path, np.roll(path, -1)), 1.0)
    return MarkovChain(names, pairs / pairs.sum(axis=1, keepdims=True))
