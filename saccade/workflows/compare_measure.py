r"""One training measured, several put in a row, and what may be said of two rows.

When is one model better than another? Two things are chance: which inputs are in the test set, and
with which seed a model was trained. So a difference is stated only if both are spoken for:

1. the paired bootstrap over the test set (Koehn 2004), on the scores of each input averaged over
   a model's seeds, gives an interval that does not hold 0. Of m pairs of models each interval is
   of 1 - 0.05 / m (Bonferroni), so that the chance that any is the test set's luck is below 5 %;
2. the test scores over the seeds do not overlap: the worst of one model is above the best of the
   other.

Otherwise it is said to be none. With one seed there is nothing to overlap, so what is stated holds
of these two trainings and no more; likewise where the seeds change nothing.

Of a task that has no score for each input (a language model's loss) there is no interval, and the
seeds alone must do. If a and b trainings were alike, one side would be above the other by luck
with the chance 2 a! b! / (a + b)! (the permutation test); that has to be below 0.05 / m too. For
two models this takes 4 seeds of each, and 3 are never enough.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, count
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import RunError
from saccade.io.tensors import read_tensors
from saccade.metrics.significance import paired_bootstrap
from saccade.metrics.translation import chrf, normalize_for_match
from saccade.runs.run import Run
from saccade.training.device import set_num_threads

CONVERGED_SHARE = 0.9  # of the best score: how soon is that reached?
SIGNIFICANCE_LEVEL = 0.05  # of stating a difference that is the test set's luck

FloatArray = NDArray[np.float64]


class ComparisonMetric(NamedTuple):
    """What models are compared by."""

    name: str
    higher_is_better: bool  # whether more is better
    factor: float = 1.0  # shares are shown of 100

    @property
    def label(self) -> str:
        """As people read it."""
        return f"{self.name}, %" if self.factor == 100 else self.name


class RunResult(NamedTuple):
    """What one training came to."""

    seed: int
    stop_reason: str
    parameters: int
    tokens_per_second: float | None  # while training; None: it has no steps to time
    dev: float  # the best
    test: float
    seconds: float | None  # of training until 90 % of the best dev score
    milliseconds: float  # to answer one input, of the test set if it has inputs (all together)
    curve: FloatArray  # (evaluations, 2): seconds, dev score
    per_example: FloatArray | None  # the score of each input of the test set
    steps: tuple[int, ...] = ()  # of each evaluation

    def curve_over(self, steps: bool) -> FloatArray:
        """The curve as it is, or over the steps in place of the seconds."""
        return np.column_stack([self.steps, self.curve[:, 1]]) if steps else self.curve


class ModelResults(NamedTuple):
    """One model, over its seeds."""

    model: str
    runs: tuple[RunResult, ...]

    def values(self, name: str) -> list[float]:
        """A figure of each seed, where it has one."""
        values = [getattr(one, name) for one in self.runs]
        return [float(value) for value in values if value is not None]

    def mean(self, name: str) -> float | None:
        """Over the seeds."""
        values = self.values(name)
        return float(np.mean(values)) if values else None

    def per_example(self) -> FloatArray | None:
        """The score of each input, averaged over the seeds."""
        scores = [one.per_example for one in self.runs if one.per_example is not None]
        return np.mean(scores, axis=0) if scores else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: means, and under "seeds" what each came to."""
        named = ("parameters", "tokens_per_second", "dev", "test", "seconds", "milliseconds")
        seeds = []
        for one in self.runs:
            values = {name: getattr(one, name) for name in ("seed", "stop_reason", *named)}
            seeds.append({**values, "curve": one.curve.tolist(), "steps": list(one.steps)})
        return {"model": self.model, **{n: self.mean(n) for n in named}, "seeds": seeds}


class ModelDifference(NamedTuple):
    """One model against another: whether they differ, and the sentence that says so."""

    better: str  # in the order of the table, if neither is
    worse: str
    difference: float
    interval: tuple[float, float] | None  # None: no score for each input
    seeds_overlap: bool | None  # of the seeds; None: there is one only, or they change nothing
    is_significant: bool
    summary: str


# --- one training, measured -----------------------------------------------------------------------


def read_stop_reason(place: Path) -> str:
    """Why the training in a folder ended; nothing if it has not."""
    if not (place / "model.safetensors").exists():
        return ""
    _, metadata = read_tensors(place / "model.safetensors")
    return str(metadata.get("ended", ""))


def comparison_metric(recipe: Any) -> ComparisonMetric:
    """What runs of a task are compared by.

    Translations: exact answers where tokens are letters (answers are then a word or a number),
    else chrF. All others: the loss.
    """
    if recipe.task == "translate":
        letters = recipe.data.tokenizer.kind == "character"
        return ComparisonMetric("exact", True, 100.0) if letters else ComparisonMetric("chrf", True)
    return ComparisonMetric("loss", False)


def measure_run(run: Run, metric: ComparisonMetric, seed: int) -> RunResult:
    """Score a finished run on its test set, and read its log."""
    set_num_threads(run.recipe.train.threads)
    test = metric.factor * run.evaluate()[metric.name]
    line = validation_curve(run.metrics(), metric)
    if not len(line):
        raise RunError(
            f"{run.folder} has no dev_{metric.name} in its metrics.jsonl; train it again."
        )
    best = line[:, 1].max() if metric.higher_is_better else line[:, 1].min()
    milliseconds, per_example = time_inference(run, metric)
    return RunResult(
        seed=seed,
        stop_reason=read_stop_reason(run.folder),
        parameters=run.parameters,
        tokens_per_second=_speed(run.metrics()),
        dev=float(best),
        test=float(test),
        seconds=seconds_to_converge(line, metric),
        milliseconds=milliseconds,
        curve=line,
        per_example=per_example,
        steps=tuple(x["step"] for x in run.metrics() if f"dev_{metric.name}" in x),
    )


def _speed(lines: list[dict[str, Any]]) -> float | None:
    rates = [line["rate"] for line in lines if "rate" in line]
    return float(np.median(rates)) if rates else None


def validation_curve(lines: list[dict[str, Any]], metric: ComparisonMetric) -> FloatArray:
    """Seconds and dev score of each evaluation, (n, 2).

    Where an evaluation has no time of its own, it follows from the reports around it.
    """
    timed = [(0.0, 0.0)] + [(line["step"], line["seconds"]) for line in lines if "seconds" in line]
    steps, seconds = np.array(timed).T
    points = []
    for line in lines:
        if (score := line.get(f"dev_{metric.name}")) is not None:
            when = line.get("seconds", _at(line["step"], steps, seconds))
            points.append((when, metric.factor * score))
    return np.array(points, np.float64).reshape(-1, 2)


def _at(step: int, steps: FloatArray, seconds: FloatArray) -> float:
    """When a step was made; past the last report, at the pace up to it."""
    if step > steps[-1] > 0:
        return float(seconds[-1] * step / steps[-1])
    return float(np.interp(step, steps, seconds))


def seconds_to_converge(line: FloatArray, metric: ComparisonMetric) -> float | None:
    """Seconds until 90 % of the best score was reached (of a loss: until 1 / 0.9 times it)."""
    if not len(line):
        return None
    if metric.higher_is_better:
        reached = line[line[:, 1] >= CONVERGED_SHARE * line[:, 1].max()]
    else:
        reached = line[line[:, 1] <= line[:, 1].min() / CONVERGED_SHARE]
    return float(reached[0, 0])


def time_inference(run: Run, metric: ComparisonMetric) -> tuple[float, FloatArray | None]:
    """Milliseconds for one input, and the score of each answer where answers have one."""
    pairs = getattr(run.task, "pairs", None)
    inputs = [run.task.example_input()] if pairs is None else list(pairs["test"].sources())
    if pairs is None:
        run.predict(inputs)  # the first finds nothing in its place; pairs were scored before
    began = time.perf_counter()
    answers = run.predict(inputs)
    milliseconds = 1000 * (time.perf_counter() - began) / len(inputs)
    if pairs is None or metric.name not in EXAMPLE_METRICS:
        return milliseconds, None
    scores = [
        EXAMPLE_METRICS[metric.name](answer.text, wanted)
        for answer, wanted in zip(answers, pairs["test"].targets(), strict=True)
    ]
    return milliseconds, metric.factor * np.array(scores, np.float64)


EXAMPLE_METRICS: dict[str, Callable[[str, str], float]] = {
    "exact": lambda answer, wanted: float(
        normalize_for_match(answer) == normalize_for_match(wanted)
    ),
    "chrf": lambda answer, wanted: chrf([answer], [wanted]).value,
}


# --- what can be said -----------------------------------------------------------------------------


def rank_models(rows: list[ModelResults], metric: ComparisonMetric) -> list[ModelResults]:
    """The best mean on the test set first."""
    return sorted(rows, key=lambda row: row.mean("test") or 0.0, reverse=metric.higher_is_better)


def pairwise_differences(
    rows: Sequence[ModelResults], metric: ComparisonMetric
) -> list[ModelDifference]:
    """Every pair of models, the better first, by the rule at the top of this file."""
    pairs = list(combinations(rows, 2))
    return [
        _difference(one, other, metric, SIGNIFICANCE_LEVEL / len(pairs)) for one, other in pairs
    ]


def _difference(
    one: ModelResults, other: ModelResults, metric: ComparisonMetric, chance: float
) -> ModelDifference:
    a, b = one.values("test"), other.values("test")
    difference = float(np.mean(a) - np.mean(b))
    seeds_overlap = _overlap(a, b)
    interval = _interval(one, other, chance)
    if interval is None:
        is_significant = seeds_overlap is False and _by_luck(len(a), len(b)) <= chance
    else:
        is_significant = not interval[0] <= 0 <= interval[1] and not seeds_overlap
    better, worse = (one, other) if (difference >= 0) == metric.higher_is_better else (other, one)
    summary = "; ".join(_evidence(a, b, interval, seeds_overlap, chance))
    if is_significant:
        size = (
            f"{abs(difference):.3g} {'points ' if metric.higher_is_better else ''}of {metric.name}"
        )
        said = f"{better.model} is better than {worse.model} by {size} ({summary})."
    else:
        said = f"{one.model} and {other.model}: no difference ({summary})."
    return ModelDifference(
        better.model, worse.model, difference, interval, seeds_overlap, is_significant, said
    )


def _overlap(a: list[float], b: list[float]) -> bool | None:
    """Whether the ranges do; None if there is no range: one seed, or seeds that change nothing."""
    if max(a) == min(a) and max(b) == min(b):
        return None
    return max(min(a), min(b)) <= min(max(a), max(b))


def _by_luck(a: int, b: int) -> float:
    """The chance that one of two groups of trainings that are alike is above the other."""
    return 2 / comb(a + b, a)


def _interval(one: ModelResults, other: ModelResults, chance: float) -> tuple[float, float] | None:
    """Of the difference of the scores of each input, averaged over the seeds."""
    first, second = one.per_example(), other.per_example()
    if first is None or second is None:
        return None
    found = paired_bootstrap(first, second, n_resamples=4000, confidence_level=1 - chance)
    return found.low, found.high


def _evidence(
    a: list[float],
    b: list[float],
    interval: tuple[float, float] | None,
    seeds_overlap: bool | None,
    chance: float,
) -> Iterator[str]:
    if interval is not None:
        holds = "holds 0" if interval[0] <= 0 <= interval[1] else "without 0"
        share = f"{100 * (1 - chance):.3g} %"
        yield f"{share} of test sets: {interval[0]:.3g} … {interval[1]:.3g}, {holds}"
    if seeds_overlap is None and min(len(a), len(b)) < 2:
        yield "one seed: of these two trainings and no more"
    elif seeds_overlap is None:
        yield "the seeds change nothing: of these two trainings and no more"
    else:
        ranges = f"{min(a):.4g}–{max(a):.4g} and {min(b):.4g}–{max(b):.4g}"
        yield f"seeds {ranges}, which {'overlap' if seeds_overlap else 'do not overlap'}"
        luck = _by_luck(len(a), len(b))
        if interval is None and not seeds_overlap and luck > chance:
            enough = next(n for n in count(2) if _by_luck(n, n) <= chance)
            yield f"by luck in {100 * luck:.3g} % of cases: {enough} seeds would be needed"
