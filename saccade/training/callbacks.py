"""Training callbacks: the metrics log and the progress bar. They receive events only."""

import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from saccade.errors import RunError
from saccade.io.atomic import write_atomically
from saccade.io.run_folder import read_metrics
from saccade.training.loop import (
    EvalEvent,
    Event,
    EventCallback,
    ReportEvent,
    StepEvent,
    TrainState,
)


class MetricsLog:
    """Write a JSON line for every report and every evaluation to `metrics.jsonl`."""

    def __init__(self, path: Path, state: TrainState):
        """Keep the lines up to `state`; drop later ones, left by an interrupted session."""
        self.path = path
        self.started = time.monotonic() - state.seconds
        kept = [line for line in read_metrics(path) if _precedes(line, state)]
        # atomic: a full disk must not lose the existing lines
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
        self._file = path.open("a", encoding="utf-8")
        self._last = time.monotonic()  # end of the last step or evaluation
        self._tokens, self._spent = 0, 0.0  # in this session's steps since the last report

    def __call__(self, event: Event) -> None:
        """Write a line for a report or an evaluation."""
        now = time.monotonic()
        if isinstance(event, StepEvent):
            self._tokens += event.tokens
            self._spent += now - self._last
            self._last = now
        elif isinstance(event, ReportEvent):
            speed = self._tokens / max(self._spent, 1e-9)
            self._tokens, self._spent = 0, 0.0
            accuracy = {} if event.accuracy is None else {"accuracy": event.accuracy}
            ratio = {} if event.ratio is None else {"ratio": event.ratio}
            self._write(
                step=event.step,
                loss=event.loss,
                **accuracy,
                learning_rate=event.learning_rate,
                norm=event.norm,
                **ratio,
                rate=round(speed, 1),
                seconds=round(now - self.started, 2),
            )
        elif isinstance(event, EvalEvent):
            scores = {f"dev_{name}": value for name, value in event.scores.items()}
            self._last = now
            seconds = round(now - self.started, 2)
            self._write(step=event.step, **scores, best=event.is_best, seconds=seconds)

    def fsync(self) -> None:
        """Flush the lines to disk; called before a checkpoint that depends on them is written."""
        with self._explain_write_errors():
            os.fsync(self._file.fileno())

    def _write(self, **values: Any) -> None:
        with self._explain_write_errors():
            self._file.write(json.dumps(values) + "\n")
            self._file.flush()

    @contextmanager
    def _explain_write_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"{self.path} could not be written: {error.strerror or error}. The last checkpoint "
                "is safe; free disk space, then continue with --resume."
            ) from error

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # a full disk was reported by the write that failed
            self._file.close()


def _precedes(line: dict[str, Any], state: TrainState) -> bool:
    """Return True if a line is not newer than `state`; a step has up to two lines."""
    return line["step"] <= (state.last_eval_step if "best" in line else state.step)


class _MetricsColumn(ProgressColumn):
    """Loss, accuracy, speed and the last evaluation."""

    def render(self, task: Task) -> Text:
        return Text(task.fields.get("metrics", ""))


@contextmanager
def training_progress_bar(console: Console, start: int, steps: int) -> Iterator[EventCallback]:
    """Yield a callback that shows a progress bar, or prints lines if `console` is no terminal."""
    if not console.is_terminal:
        yield _PlainLines(console, steps)
        return
    columns = (
        TextColumn("train"),
        BarColumn(bar_width=None),
        _MetricsColumn(Column(no_wrap=True)),  # the bar shrinks, not the metrics
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        bar = progress.add_task("train", total=1.0, metrics="")
        progress.update(bar, completed=start / steps)
        metrics = _RunningMetrics(scores=2 if console.width >= 100 else 1)

        def on_event(event: Event) -> None:
            metrics(event)
            if isinstance(event, StepEvent):
                progress.update(bar, completed=event.step / steps, metrics=metrics.text())
                if event.progress > event.step / steps:  # limited by time
                    progress.update(bar, completed=event.progress)
            elif isinstance(event, EvalEvent):
                progress.update(bar, metrics=metrics.text())

        yield on_event


class _PlainLines:
    """Print a line every ten seconds and at each evaluation, for log files."""

    def __init__(self, console: Console, steps: int):
        self.console, self.steps = console, steps
        self.metrics, self.last_printed = _RunningMetrics(), time.monotonic()

    def __call__(self, event: Event) -> None:
        self.metrics(event)
        now = time.monotonic()
        if isinstance(event, EvalEvent) or now - self.last_printed > 10:
            self.last_printed = now
            # a run limited by time only has a placeholder of very many steps
            of = f"/{self.steps}" if self.steps < 10**8 else ""
            self.console.print(
                f"step {event.step}{of}  {self.metrics.text()}",
                highlight=False,
                soft_wrap=True,
            )


class _RunningMetrics:
    """Moving averages of the training metrics, and the last evaluation."""

    def __init__(self, scores: int = 2) -> None:
        self.scores = scores  # number of evaluation scores to show
        self.loss = self.accuracy = self.speed = math.nan
        self.dev = ""
        self.last_event = time.monotonic()

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, StepEvent):
            speed = event.tokens / max(now - self.last_event, 1e-9)
            self.loss = _moving_average(self.loss, event.loss)
            if event.accuracy is not None:
                self.accuracy = _moving_average(self.accuracy, event.accuracy)
            self.speed = _moving_average(self.speed, speed)
        elif isinstance(event, EvalEvent):
            names = [n for n in ("exact", "chrf", "loss", "accuracy", "rmse") if n in event.scores][
                : self.scores
            ]
            self.dev = "  dev " + " ".join(
                _format_score(name, event.scores[name]) for name in names
            )
        self.last_event = now

    def text(self) -> str:
        if math.isnan(self.loss):
            return ""
        accuracy = "" if math.isnan(self.accuracy) else f"  accuracy {100 * self.accuracy:.1f} %"
        return f"loss {self.loss:.3f}{accuracy}  {self.speed:,.0f} tokens/s{self.dev}"


def _moving_average(old: float, new: float) -> float:
    return new if math.isnan(old) else 0.95 * old + 0.05 * new


def _format_score(name: str, value: float) -> str:
    is_share = name in ("accuracy", "exact")
    return f"{name} {100 * value:.1f} %" if is_share else f"{name} {value:.2f}"
