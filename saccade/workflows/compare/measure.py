"""Results of one training, and of the trainings of one model over several seeds."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from saccade.errors import RunError
from saccade.io.tensors import read_tensors
from saccade.metrics.seeds import SeedInterval, stratified_bootstrap
from saccade.runs.run import Run
from saccade.training.device import set_num_threads
from saccade.types.arrays import FloatArray
from saccade.types.results import ComparisonMetric

CONVERGED_SHARE = 0.9  # share of the best dev score that counts as converged


class RunResult(NamedTuple):
    """Result of one training."""

    seed: int
    stop_reason: str
    parameters: int
    tokens_per_second: float | None  # of training; None for models without steps
    dev: float  # best during training
    test: float
    seconds: float | None  # of training until 90 % of the best dev score
    milliseconds: float  # inference per input: the test set in one batch, or one example
    curve: FloatArray  # (evaluations, 2): seconds, dev score
    per_example: FloatArray | None  # score of each test input
    steps: tuple[int, ...] = ()  # step of each evaluation
    unit: str = "tokens"  # what `tokens_per_second` counts

    def curve_over(self, steps: bool) -> FloatArray:
        """Return the curve over seconds, or over steps."""
        return np.column_stack([self.steps, self.curve[:, 1]]) if steps else self.curve


class ModelResults(NamedTuple):
    """Results of one model over its seeds."""

    model: str
    runs: tuple[RunResult, ...]

    def values(self, name: str) -> list[float]:
        """Return a field of each seed's result, without None."""
        values = [getattr(result, name) for result in self.runs]
        return [float(value) for value in values if value is not None]

    def mean(self, name: str) -> float | None:
        """Return the mean of a field over the seeds."""
        values = self.values(name)
        return float(np.mean(values)) if values else None

    def seed_interval(self) -> SeedInterval:
        """Return the interquartile mean of the test scores over the seeds, with its interval."""
        return stratified_bootstrap([self.values("test")])

    def per_example(self) -> FloatArray | None:
        """Return the score of each test input, averaged over the seeds."""
        scores = [run.per_example for run in self.runs if run.per_example is not None]
        return np.mean(scores, axis=0) if scores else None

    def to_dict(self) -> dict[str, Any]:
        """Return means, and the results of each seed under "seeds", for JSON."""
        fields = ("parameters", "tokens_per_second", "dev", "test", "seconds", "milliseconds")
        seeds = []
        for run in self.runs:
            values = {name: getattr(run, name) for name in ("seed", "stop_reason", *fields)}
            seeds.append({**values, "curve": run.curve.tolist(), "steps": list(run.steps)})
        means = {name: self.mean(name) for name in fields}
        return {"model": self.model, **means, "seeds": seeds}


def read_stop_reason(folder: Path) -> str:
    """Return why the training in a folder ended; "" if it has not."""
    if not (folder / "model.safetensors").exists():
        return ""
    _, metadata = read_tensors(folder / "model.safetensors")
    return str(metadata.get("ended", ""))


def measure_run(run: Run, metric: ComparisonMetric, seed: int) -> RunResult:
    """Evaluate a finished run on its test split, and read its metrics log."""
    set_num_threads(run.recipe.train.threads)
    test = metric.factor * run.evaluate()[metric.name]
    curve = validation_curve(run.metrics(), metric)
    if not len(curve):
        raise RunError(
            f"{run.folder} has no dev_{metric.name} in its metrics.jsonl; train it again."
        )
    best = curve[:, 1].max() if metric.higher_is_better else curve[:, 1].min()
    milliseconds, per_example = time_inference(run, metric)
    return RunResult(
        seed=seed,
        stop_reason=read_stop_reason(run.folder),
        parameters=run.parameters,
        tokens_per_second=_median_speed(run.metrics()),
        dev=float(best),
        test=float(test),
        seconds=seconds_to_converge(curve, metric),
        milliseconds=milliseconds,
        curve=curve,
        per_example=per_example,
        steps=tuple(line["step"] for line in run.metrics() if f"dev_{metric.name}" in line),
        unit=getattr(run.components.objective, "unit", "tokens"),
    )


def _median_speed(lines: list[dict[str, Any]]) -> float | None:
    rates = [line["rate"] for line in lines if "rate" in line]
    return float(np.median(rates)) if rates else None


def validation_curve(lines: list[dict[str, Any]], metric: ComparisonMetric) -> FloatArray:
    """Return seconds and dev score of each evaluation, (n, 2).

    The time of an evaluation that was logged without one is interpolated from other lines.
    """
    timed = [(0.0, 0.0)] + [(line["step"], line["seconds"]) for line in lines if "seconds" in line]
    steps, seconds = np.array(timed).T
    points = []
    for line in lines:
        if (score := line.get(f"dev_{metric.name}")) is not None:
            time_of_step = line.get("seconds", _interpolate(line["step"], steps, seconds))
            points.append((time_of_step, metric.factor * score))
    return np.array(points, np.float64).reshape(-1, 2)


def _interpolate(step: int, steps: FloatArray, seconds: FloatArray) -> float:
    """Return the time of a step; extrapolate past the last line at the mean speed."""
    if step > steps[-1] > 0:
        return float(seconds[-1] * step / steps[-1])
    return float(np.interp(step, steps, seconds))


def seconds_to_converge(curve: FloatArray, metric: ComparisonMetric) -> float | None:
    """Return the seconds until 90 % of the best score (for a loss: 1 / 0.9 of the lowest)."""
    if not len(curve):
        return None
    if metric.higher_is_better:
        best = curve[:, 1].max()
        share = CONVERGED_SHARE if best > 0 else 1 / CONVERGED_SHARE
        reached = curve[curve[:, 1] >= share * best]
    else:
        reached = curve[curve[:, 1] <= curve[:, 1].min() / CONVERGED_SHARE]
    return float(reached[0, 0])


def time_inference(run: Run, metric: ComparisonMetric) -> tuple[float, FloatArray | None]:
    """Return milliseconds per input, and the score of each prediction if the metric has one."""
    split = run.split("test")
    inputs = run.evaluator.inputs(split)
    is_per_example = bool(inputs)
    if not is_per_example:
        inputs = [run.inspector.example_input(split)]
        run.predict(inputs)  # warm-up; the inputs of a split were predicted by the evaluation
    start = time.perf_counter()
    predictions = run.predict(inputs)
    milliseconds = 1000 * (time.perf_counter() - start) / len(inputs)
    if not is_per_example:
        return milliseconds, None
    return milliseconds, run.evaluator.score_each(split, predictions)
