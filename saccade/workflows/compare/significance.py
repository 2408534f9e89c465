r"""Decision whether two models differ, from their test scores over several seeds.

Two things are random: which inputs are in the test set, and the seed of a training. A difference
is stated only if both support it:

1. the paired bootstrap over the test set (Koehn 2004), on the scores of each input averaged over
   a model's seeds, gives a confidence interval that excludes 0. For m pairs of models each
   interval is at level 1 - 0.05 / m (Bonferroni), so that the probability of any false positive
   due to the choice of the test set is below 5 %;
2. the seeds separate the models: the ranges of their test scores do not overlap (the worst of one
   is above the best of the other), or the permutation test over the seeds is below that level.

Otherwise the pair is undecided, which does not mean that the models are equal; the summary has the
number of seeds, or of test examples, that would be needed for a difference of this size. With one
seed there is no range, so the statement holds for these two trainings only; likewise where the
seeds do not change the score.

Where a task has no score per input (the loss of a language model) there is no interval, and only
the permutation test remains: with a and b seeds, the share of the (a + b)! / (a! b!) assignments of
the scores to the models whose means differ by as much or more. If one model's scores all lie above
the other's it is 2 a! b! / (a + b)!, so that two models need 4 seeds of each; 3 are never enough.

The number of seeds that is needed follows from the difference δ of the means and the standard
deviation σ of the seeds, n = 2 (z σ / δ)² with the normal quantile z of the level; that of test
examples from the width of the interval, which shrinks with their square root.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, count
from math import ceil, comb
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from saccade.metrics.significance import paired_bootstrap
from saccade.seeding import generator
from saccade.types.results import ComparisonMetric
from saccade.workflows.compare.measure import ModelResults

SIGNIFICANCE_LEVEL = 0.05  # probability of a false positive, over all pairs
BOOTSTRAP_RESAMPLES = 4000
MAX_EXACT_ASSIGNMENTS = 50_000  # of scores to two models; of more, as many are sampled
MAX_STATED_NUMBER = 100_000  # seeds or examples; a larger estimate is not worth a statement


class ModelDifference(NamedTuple):
    """Comparison of two models, with a one-sentence summary."""

    better: str  # in the order of the table if it is undecided
    worse: str
    difference: float
    interval: tuple[float, float] | None  # None: no score per input
    seeds_overlap: bool | None  # None: one seed, or the seeds change nothing
    is_significant: bool
    summary: str
    seeds_needed: int | None = None  # None: decided, or seeds would not decide it


def rank_models(rows: list[ModelResults], metric: ComparisonMetric) -> list[ModelResults]:
    """Sort models by their mean on the test set, the best first."""
    return sorted(rows, key=lambda row: row.mean("test") or 0.0, reverse=metric.higher_is_better)


def pairwise_differences(
    rows: Sequence[ModelResults], metric: ComparisonMetric
) -> list[ModelDifference]:
    """Compare every pair of models by the rule at the top of this module."""
    pairs = list(combinations(rows, 2))
    return [
        _compare_pair(first, second, metric, SIGNIFICANCE_LEVEL / len(pairs))
        for first, second in pairs
    ]


def _compare_pair(
    first: ModelResults, second: ModelResults, metric: ComparisonMetric, level: float
) -> ModelDifference:
    a, b = first.values("test"), second.values("test")
    difference = float(np.mean(a) - np.mean(b))
    seeds_overlap = _ranges_overlap(a, b)
    by_seeds = seeds_overlap is not None and permutation_p(a, b) <= level
    interval = _bootstrap_interval(first, second, level)
    if interval is None:
        is_significant = by_seeds
    else:
        excludes_zero = not interval[0] <= 0 <= interval[1]
        is_significant = excludes_zero and (not seeds_overlap or by_seeds)
    first_is_better = (difference >= 0) == metric.higher_is_better
    better, worse = (first, second) if first_is_better else (second, first)
    evidence = list(_evidence(a, b, interval, seeds_overlap, level))
    needed = None
    if is_significant:
        unit = "points of " if metric.higher_is_better else "of "
        size = f"{abs(difference):.3g} {unit}{metric.name}"
        verdict = f"{better.model} is better than {worse.model} by {size}"
    else:
        scores = first.per_example()
        needed, statement = _needed(a, b, interval, level, 0 if scores is None else len(scores))
        evidence += [statement] if statement else []
        verdict = f"{first.model} and {second.model}: undecided"
    return ModelDifference(
        better.model,
        worse.model,
        difference,
        interval,
        seeds_overlap,
        is_significant,
        f"{verdict} ({'; '.join(evidence)}).",
        needed,
    )


def _needed(
    a: list[float],
    b: list[float],
    interval: tuple[float, float] | None,
    level: float,
    examples: int,
) -> tuple[int | None, str]:
    """Return how many seeds would decide an undecided pair, and a statement of what is needed."""
    difference = abs(float(np.mean(a) - np.mean(b)))
    if difference == 0:
        return None, "the means are equal"
    if interval is not None and interval[0] <= 0 <= interval[1]:
        half_width = (interval[1] - interval[0]) / 2
        number = ceil(examples * max(1.0, half_width / difference) ** 2) + 1
        return None, _statement(number, "test examples")
    if len(a) > 1 and _ranges_overlap(a, b) is None:  # more seeds give the same scores
        return None, ""
    needed = seeds_needed(a, b, level) if interval is None else seeds_needed(a, b, level, 2)
    return needed, _statement(needed, "seeds")


def _statement(number: int, what: str) -> str:
    if number > MAX_STATED_NUMBER:
        return f"more than {MAX_STATED_NUMBER:,} {what} needed"
    return f"about {number:,} {what} needed" if number > 10 else f"{number} {what} needed"


def seeds_needed(a: list[float], b: list[float], level: float, min_seeds: int = 1) -> int:
    """Return how many seeds of each model would show a difference of this size."""
    by_permutation = next(n for n in count(2) if separation_probability(n, n) <= level)
    smallest = max(min_seeds, by_permutation)
    spread = float(np.sqrt((np.var(a) * len(a) + np.var(b) * len(b)) / max(len(a) + len(b) - 2, 1)))
    difference = abs(float(np.mean(a) - np.mean(b)))
    quantile = NormalDist().inv_cdf(1 - level / 2)
    by_spread = ceil(2 * (quantile * spread / difference) ** 2)
    return max(smallest, by_spread, min(len(a), len(b)) + 1)


def permutation_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the share of assignments of the scores to two models with as different means.

    All assignments are counted, or a fixed random sample if there are too many.
    """
    scores = np.array([*a, *b], np.float64)
    observed = abs(float(np.mean(a) - np.mean(b)))
    if comb(len(scores), len(a)) <= MAX_EXACT_ASSIGNMENTS:
        chosen = np.array(list(combinations(range(len(scores)), len(a))))
    else:
        draw = generator(0, "permutations of seeds")
        orders = draw.random((MAX_EXACT_ASSIGNMENTS, len(scores))).argsort(axis=1)
        chosen = np.vstack([np.arange(len(a)), orders[:, : len(a)]])
    sums = scores[chosen].sum(axis=1)
    differences = np.abs(sums / len(a) - (scores.sum() - sums) / len(b))
    # rounding: an equal difference counts
    return float(np.mean(differences >= observed * (1 - 1e-9)))


def _ranges_overlap(a: list[float], b: list[float]) -> bool | None:
    """Return None if there is no range: one seed, or seeds that change nothing."""
    if max(a) == min(a) and max(b) == min(b):
        return None
    return max(min(a), min(b)) <= min(max(a), max(b))


def separation_probability(a: int, b: int) -> float:
    r"""2 a! b! / (a + b)!, the probability that one of two equal groups lies above the other."""
    return 2 / comb(a + b, a)


def _bootstrap_interval(
    first: ModelResults, second: ModelResults, level: float
) -> tuple[float, float] | None:
    """Return the interval of the mean difference of the scores per input."""
    first_scores, second_scores = first.per_example(), second.per_example()
    if first_scores is None or second_scores is None:
        return None
    found = paired_bootstrap(
        first_scores, second_scores, n_resamples=BOOTSTRAP_RESAMPLES, confidence_level=1 - level
    )
    return found.low, found.high


def _evidence(
    a: list[float],
    b: list[float],
    interval: tuple[float, float] | None,
    seeds_overlap: bool | None,
    level: float,
) -> Iterator[str]:
    """Yield the facts behind a verdict, for people."""
    if interval is not None:
        contains = "contains" if interval[0] <= 0 <= interval[1] else "excludes"
        confidence = f"{100 * (1 - level):.3g} %"
        yield f"{confidence} interval {interval[0]:.3g} … {interval[1]:.3g} {contains} 0"
    if seeds_overlap is None and min(len(a), len(b)) < 2:
        yield "one seed each: it would hold for these two trainings only"
    elif seeds_overlap is None:
        yield "the seeds change nothing: it would hold for these two trainings only"
    else:
        ranges = f"{min(a):.4g}–{max(a):.4g} and {min(b):.4g}–{max(b):.4g}"
        yield f"seeds {ranges} {'overlap' if seeds_overlap else 'do not overlap'}"
        if interval is None or seeds_overlap:
            probability = permutation_p(a, b)
            yield f"{100 * probability:.3g} % probable by seed variation alone"
