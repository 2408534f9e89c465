"""One session of a model that fits itself: checkpoint, metrics log, signals. No torch."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from saccade.io.atomic import write_atomically
from saccade.io.run_folder import read_metrics
from saccade.training.estimator import Estimator, FitContext
from saccade.training.progress import show_progress
from saccade.training.signals import EvaluationStopped, StopFlag

Weights = Mapping[str, Any]


class WeightFiles(NamedTuple):
    """Functions that read and write weights: as tensors, or as arrays where there is no torch."""

    read: Callable[[Path], tuple[dict[str, Any], dict[str, Any]]]
    write: Callable[[Path, Weights, dict[str, Any]], None]


class _FitLog:
    """metrics.jsonl of a fit: one line per report, rewritten atomically."""

    def __init__(self, path: Path, seconds: float, lines: int | None):
        """Continue after so many lines; None, as in old checkpoints: those of so many seconds."""
        self.path = path
        self.started = time.monotonic() - seconds
        logged = read_metrics(path)
        if lines is None:
            lines = sum(line.get("seconds", inf) <= seconds for line in logged)
        self.lines = logged[:lines]

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def write(self, metrics: Mapping[str, Any]) -> None:
        step = len(self.lines) + 1
        self.lines.append({"step": step, **metrics, "seconds": round(self.seconds(), 2)})
        content = "".join(json.dumps(line) + "\n" for line in self.lines)
        write_atomically(self.path, content.encode())


def run_fit_session(
    estimator: Estimator,
    state_dict: Callable[[], Weights],
    evaluate: Callable[[], tuple[dict[str, float], float]],
    folder: Path,
    files: WeightFiles,
    *,
    name: str,
    threads: int,
    scratch_dir: Path | None,
    console: Console,
    stop: StopFlag | None = None,
    is_calibrated_later: bool = False,
) -> str:
    """Fit until it is done or stopped; return the stop reason, "fitted" or "stop".

    An estimator that cannot resume starts again. `evaluate` returns the metrics on the dev split
    and the selection score. Weights that are calibrated later are saved as those of an unfinished
    run.
    """
    stop = StopFlag() if stop is None else stop
    checkpoint = folder / "checkpoint" / "fitting.safetensors"
    new: dict[str, Any] = {"seconds": 0.0, "lines": 0}
    state, metadata = files.read(checkpoint) if checkpoint.exists() else (None, new)
    log = _FitLog(folder / "metrics.jsonl", metadata["seconds"], metadata.get("lines"))

    def save(state: dict[str, Any]) -> None:
        checkpoint.parent.mkdir(exist_ok=True)
        files.write(checkpoint, state, {"seconds": log.seconds(), "lines": len(log.lines)})

    def evaluate_now() -> tuple[dict[str, float], float]:
        with stop.stoppable_evaluation():
            return evaluate()

    on_dev: list[tuple[dict[str, float], float]] = []
    with ExitStack() as stack:
        bar = stack.enter_context(show_progress(console, f"fitting {name}"))
        context = FitContext(
            bar.update,
            log.write,
            stop,
            save,
            state,
            threads,
            scratch_dir,
            lambda: on_dev.append(evaluate_now()),
            stop.stoppable_evaluation,
        )
        try:
            estimator.fit(context)
            if stop():
                return "stop"
            metrics, score = on_dev[-1] if on_dev else evaluate_now()
        except EvaluationStopped:
            return "stop"
    metadata = {"step": 1, "goodness": score, "ended": "" if is_calibrated_later else "fitted"}
    files.write(folder / "model.safetensors", state_dict(), metadata)
    log.write({**{f"dev_{name}": value for name, value in metrics.items()}, "best": True})
    checkpoint.unlink(missing_ok=True)
    return "fitted"
