r"""Bandits: exploration methods over many parallel runs, and the lower bound on their regret.

The regret after T steps is Σ_t (μ* − μ_{a_t}), the gap of the chosen arms to the best one. For any
method that is consistent on all problems (Lai and Robbins 1985),

\[ \liminf_{T \to \infty} \frac{R_T}{\ln T} \ge \sum_{a: \mu_a < \mu^*}
   \frac{\mu^* - \mu_a}{\mathrm{KL}(\mu_a, \mu^*)}. \]

Sutton and Barto 2018, chapter 2; Lattimore and Szepesvári 2020.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from saccade.seeding import generator
from saccade.types.arrays import FloatArray, IntArray


class Arms(NamedTuple):
    """The arms of a bandit with rewards 0 and 1: the probability of a reward of each."""

    means: FloatArray  # (K,)

    @property
    def gaps(self) -> FloatArray:
        """Gap of each arm to the best one (K,)."""
        return np.asarray(self.means.max() - self.means)

    def lower_bound(self) -> float:
        r"""Return the constant of Lai and Robbins: Σ_a Δ_a / KL(μ_a, μ*), regret per ln T."""
        best = float(self.means.max())
        return sum(
            (best - mean) / bernoulli_divergence(mean, best)
            for mean in self.means.tolist()
            if mean < best
        )


def parse_arms(values: Sequence[float]) -> Arms:
    """Return arms with these probabilities; raise `ValueError` unless they can be compared."""
    means = np.array(values, dtype=np.float64)
    if len(means) < 2 or not ((means >= 0) & (means <= 1)).all():
        raise ValueError(
            f"got the arms {list(values)}; expected two probabilities or more, from 0 to 1."
        )
    return Arms(means)


def bernoulli_divergence(p: float, q: float) -> float:
    r"""Return KL(p, q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)), in nats."""
    total = 0.0
    for one, other in ((p, q), (1 - p, 1 - q)):
        if one > 0:
            total += one * np.log(one / other) if other > 0 else np.inf
    return float(total)


class BanditMethod(ABC):
    """A method with the state of R independent runs; `select` and `update` alternate."""

    def __init__(self, runs: int, arms: int):
        self.counts = np.zeros((runs, arms))
        self.means = np.zeros((runs, arms))  # of the rewards of each arm

    @abstractmethod
    def scores(self, step: int, random: np.random.Generator) -> FloatArray:
        """Return a score of each arm (R, K); the largest is taken, ties at random."""

    def select(self, step: int, random: np.random.Generator) -> IntArray:
        """Return the arm of each run at a step, counted from 1 (R,)."""
        return argmax_at_random(self.scores(step, random), random)

    def update(self, taken: IntArray, rewards: FloatArray) -> None:
        """Add the rewards of the arms that were taken: μ ← μ + (r − μ) / n."""
        rows = np.arange(len(taken))
        self.counts[rows, taken] += 1
        error = rewards - self.means[rows, taken]
        self.means[rows, taken] += error / self.counts[rows, taken]


def argmax_at_random(scores: FloatArray, random: np.random.Generator) -> IntArray:
    """Return the index of the largest score of each row, one of equal ones at random."""
    is_best = scores == scores.max(axis=1, keepdims=True)
    return np.asarray((is_best * (random.random(scores.shape) + 1)).argmax(axis=1))


class EpsilonGreedyArms(BanditMethod):
    """The arm with the best mean, but a random one with probability ε."""

    epsilon = 0.1

    def scores(self, step: int, random: np.random.Generator) -> FloatArray:
        """Return the means, or zeros in runs that explore."""
        explores = random.random(len(self.means)) < self.epsilon
        return np.where(explores[:, None], 0.0, self.means)


class OptimisticArms(BanditMethod):
    """Greedy from means of 1 on, updated with the constant step 0.1, so that all arms are tried."""

    step_size = 0.1

    def __init__(self, runs: int, arms: int):
        super().__init__(runs, arms)
        self.means += 1.0

    def scores(self, step: int, random: np.random.Generator) -> FloatArray:
        """Return the estimates."""
        return self.means

    def update(self, taken: IntArray, rewards: FloatArray) -> None:
        """Move the estimates by a constant step, which forgets the optimistic start slowly."""
        rows = np.arange(len(taken))
        self.means[rows, taken] += self.step_size * (rewards - self.means[rows, taken])


class UCB1(BanditMethod):
    r"""The largest upper confidence bound μ_a + √(2 ln t / n_a) (Auer et al. 2002)."""

    def scores(self, step: int, random: np.random.Generator) -> FloatArray:
        """Return the bounds; that of an arm not yet tried is infinite."""
        width = np.sqrt(2 * np.log(step) / np.maximum(self.counts, 1))
        return np.where(self.counts > 0, self.means + width, np.inf)


class ThompsonSampling(BanditMethod):
    """The arm that is best in a draw from the posterior, Beta(1 + wins, 1 + losses)."""

    def scores(self, step: int, random: np.random.Generator) -> FloatArray:
        """Return a draw from the posterior of each arm (Thompson 1933)."""
        wins = self.means * self.counts
        return random.beta(1 + wins, 1 + self.counts - wins)


class GradientBandit(BanditMethod):
    r"""Stochastic gradient ascent on preferences h: π = softmax(h), with the mean as baseline.

    h_a ← h_a + α (r − r̄) (1[a taken] − π_a), whose expectation is α ∂E[r]/∂h_a (Williams 1992;
    Sutton and Barto 2018, section 2.8).
    """

    step_size = 0.1

    def __init__(self, runs: int, arms: int):
        super().__init__(runs, arms)
        self.preferences = np.zeros((runs, arms))
        self.baseline, self.steps = np.zeros(runs), 0

    def probabilities(self) -> FloatArray:
        """Return π = softmax(h) (R, K)."""
        weights = np.exp(self.preferences - self.preferences.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def scores(self, step: int, random: np.random.Generator) -> FloatArray:
        """Return h plus Gumbel noise, whose largest has the probabilities of softmax(h)."""
        return self.preferences + random.gumbel(size=self.preferences.shape)

    def update(self, taken: IntArray, rewards: FloatArray) -> None:
        """Ascend the gradient; the baseline is the mean of the rewards before."""
        error = self.step_size * (rewards - self.baseline)
        change = -self.probabilities()
        change[np.arange(len(taken)), taken] += 1
        self.preferences += error[:, None] * change
        self.steps += 1
        self.baseline += (rewards - self.baseline) / self.steps


BANDIT_METHODS: dict[str, Callable[[int, int], BanditMethod]] = {
    "ε-greedy, ε = 0.1": EpsilonGreedyArms,
    "optimistic start": OptimisticArms,
    "UCB1": UCB1,
    "Thompson sampling": ThompsonSampling,
    "gradient bandit": GradientBandit,
}


class BanditRuns(NamedTuple):
    """Regret and choices of a method in R runs of T steps."""

    regret: FloatArray  # (R, T) cumulative
    best: FloatArray  # (T,) share of the runs that took the best arm

    def final_regret(self) -> tuple[float, float]:
        """Return the mean regret after the last step, and its standard error."""
        last = self.regret[:, -1]
        error = last.std(ddof=1) / np.sqrt(len(last)) if len(last) > 1 else np.nan
        return float(last.mean()), float(error)


def run_bandit(
    method: Callable[[int, int], BanditMethod], arms: Arms, *, steps: int, runs: int, seed: int
) -> BanditRuns:
    """Return the regret of a method; each arm has the same rewards for every method."""
    state, gaps = method(runs, len(arms.means)), arms.gaps
    choices, rewards = generator(seed, "choices"), generator(seed, "rewards")
    taken = np.zeros((steps, runs), np.int64)
    rows = np.arange(runs)
    for step in range(steps):
        taken[step] = state.select(step + 1, choices)
        drawn = rewards.random((runs, len(gaps))) < arms.means
        state.update(taken[step], drawn[rows, taken[step]].astype(np.float64))
    return BanditRuns(gaps[taken].T.cumsum(axis=1), (gaps[taken] == 0).mean(axis=1))
