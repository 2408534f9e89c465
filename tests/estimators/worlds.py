"""Small Markov decision processes for tests."""

import numpy as np

from saccade.estimators.reinforcement.mdp import TransitionTable


def random_table(seed: int, states: int = 3, actions: int = 2, end: float = 0.3) -> TransitionTable:
    """Return a random table; every step ends its episode with a probability of `end`."""
    random = np.random.default_rng(seed)
    shape = states, actions, states + 1
    probabilities = random.dirichlet(np.ones(states), size=(states, actions)) * (1 - end)
    probabilities = np.concatenate([probabilities, np.full((states, actions, 1), end)], axis=2)
    next_states = np.broadcast_to(np.array([*range(states), 0]), shape).copy()
    terminated = np.zeros(shape, bool)
    terminated[:, :, -1] = True
    rewards = random.normal(size=shape)
    return TransitionTable(
        probabilities, next_states, rewards, terminated, random.dirichlet(np.ones(states))
    )
