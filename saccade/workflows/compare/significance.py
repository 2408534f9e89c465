r"""Decision whether two models differ, from their test scores over several seeds.

Two things are random: which inputs are in the test set, and the seed of a training. A difference
is stated only if both support it:

1. the paired bootstrap over the test set (Koehn 2004), on the scores of each input averaged over
   a model's seeds, gives a confidence interval that excludes 0. For m pairs of models each
   interval is at level 1 - 0.05 / m (Bonferroni), so that the probability of any false positive
   due to the choice of the test set is below 5 %;
2. the ranges of the test scores over the seeds do not overlap: the worst of one model is above
   the best of the other.

Otherwise the pair is undecided. With one seed there is no range, so the statement holds for these
two trainings only; likewise where the seeds do not change the score.

Where a task has no score per input (the loss of a language model) there is no interval, and only
the seeds remain. If a and b trainings came from the same distribution, one group would lie
entirely above the other with probability 2 a! b! / (a + b)! (permutation test); that must be below
0.05 / m as well. For two models this takes 4 seeds of each; 3 are never enough.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, count
from math import comb
from typing import NamedTuple

import numpy as np

from saccade.metrics.significance import paired_bootstrap
from saccade.types.results import ComparisonMetric
from saccade.workflows.compare.measure import ModelResults

SIGNIFICANCE_LEVEL = 0.05  # probability of a false positive, over all pairs
BOOTSTRAP_RESAMPLES = 4000


class ModelDifference(NamedTuple):
    """Comparison of two models, with a one-sentence summary."""

    better: str  # in the order of the table if it is undecided
    worse: str
    difference: float
    interval: tuple[float, float] | None  # None: no score per input
    seeds_overlap: bool | None  # None: one seed, or the seeds change nothing
    is_significant: bool
    summary: str


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
    interval = _bootstrap_interval(first, second, level)
    if interval is None:
        is_significant = seeds_overlap is False and separation_probability(len(a), len(b)) <= level
    else:
        is_significant = not interval[0] <= 0 <= interval[1] and not seeds_overlap
    first_is_better = (difference >= 0) == metric.higher_is_better
    better, worse = (first, second) if first_is_better else (second, first)
    evidence = "; ".join(_evidence(a, b, interval, seeds_overlap, level))
    if is_significant:
        unit = "points of " if metric.higher_is_better else "of "
        size = f"{abs(difference):.3g} {unit}{metric.name}"
        summary = f"{better.model} is better than {worse.model} by {size} ({evidence})."
    else:
        summary = f"{first.model} and {second.model}: undecided ({evidence})."
    return ModelDifference(
        better.model, worse.model, difference, interval, seeds_overlap, is_significant, summary
    )


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
        yield "one seed: holds for these two trainings only"
    elif seeds_overlap is None:
        yield "the seeds change nothing: holds for these two trainings only"
    else:
        ranges = f"{min(a):.4g}–{max(a):.4g} and {min(b):.4g}–{max(b):.4g}"
        yield f"seeds {ranges} {'overlap' if seeds_overlap else 'do not overlap'}"
        probability = separation_probability(len(a), len(b))
        if interval is None and not seeds_overlap and probability > level:
            needed = next(n for n in count(2) if separation_probability(n, n) <= level)
            yield (
                f"{100 * probability:.3g} % probable by seed variation alone: {needed} seeds needed"
            )
