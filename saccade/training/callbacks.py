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
from saccade.training.budget import format_duration
from saccade.training.config import TrainConfig
from saccade.training.loop import (
    EvalEvent,
    EvalProgressEvent,
    Event,
    EventCallback,
    ReportEvent,
    StepEvent,
    SwitchEvent,
)
from saccade.training.state import TrainState

# without a terminal: seconds and share of the training between two lines
LINE_SECONDS, MIN_LINE_SECONDS, LINE_PROGRESS = 10.0, 2.0, 0.05
SCORE_NAMES = ("return", "exact", "chrf", "f1", "loss", "accuracy", "rmse")


class MetricsLog:
    """Write a JSON line for every report, evaluation and switch to `metrics.jsonl`."""

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
        """Write a line for a report, an evaluation or a switch of the optimizer."""
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
        elif isinstance(event, SwitchEvent):
            self._write(**event._asdict())
        else:
            self._last = now

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
def training_progress_bar(
    console: Console, settings: TrainConfig, unit: str = "tokens", start: float = 0.0
) -> Iterator[EventCallback]:
    """Yield a callback that shows a progress bar, or prints lines if `console` is no terminal.

    Args:
        console: where to show it.
        settings: length of the training.
        unit: plural noun of what `StepEvent.tokens` counts.
        start: share of the training that earlier sessions have done.
    """
    if not console.is_terminal:
        yield _PlainLines(console, settings, unit)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        _MetricsColumn(Column(no_wrap=True)),  # the bar shrinks, not the metrics
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        bar = progress.add_task("train", total=1.0, metrics="")
        progress.update(bar, completed=start)
        metrics = _RunningMetrics(unit, is_narrow=console.width < 100)

        def on_event(event: Event) -> None:
            metrics(event)
            if isinstance(event, StepEvent):
                what = "train" if settings.minutes is None else _clock_text(event, settings.minutes)
                progress.update(
                    bar, description=what, completed=event.progress, metrics=metrics.text()
                )
            elif isinstance(event, EvalEvent):
                progress.update(bar, metrics=metrics.text())
            elif isinstance(event, EvalProgressEvent):
                progress.update(bar, metrics=_evaluation_text(event))

        yield on_event


class _PlainLines:
    """Print lines for log files: one per evaluation, and one every 10 s or 5 % of the training."""

    def __init__(self, console: Console, settings: TrainConfig, unit: str):
        self.console, self.settings = console, settings
        self.metrics = _RunningMetrics(unit)
        self.last_time, self.last_progress = time.monotonic(), 0.0
        self.label = ""

    def __call__(self, event: Event) -> None:
        self.metrics(event)
        waited = time.monotonic() - self.last_time
        if isinstance(event, StepEvent):
            self.label = _step_text(event, self.settings)
            advanced = event.progress - self.last_progress
            if waited >= LINE_SECONDS or (waited >= MIN_LINE_SECONDS and advanced >= LINE_PROGRESS):
                self.last_progress = event.progress
                self._print(self.metrics.text())
        elif isinstance(event, EvalEvent):
            self._print(self.metrics.text())
        elif isinstance(event, EvalProgressEvent) and waited >= LINE_SECONDS:
            self._print(_evaluation_text(event))

    def _print(self, text: str) -> None:
        self.last_time = time.monotonic()
        self.console.print(f"{self.label}  {text}", highlight=False, soft_wrap=True)


class _RunningMetrics:
    """Moving averages of the training metrics, and the last evaluation with its step."""

    def __init__(self, unit: str, is_narrow: bool = False) -> None:
        self.unit, self.is_narrow = unit, is_narrow
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
            names = [n for n in SCORE_NAMES if n in event.scores][: 1 if self.is_narrow else 2]
            scores = " ".join(_format_score(name, event.scores[name]) for name in names)
            self.dev = f"  dev at step {event.step:,}: {scores}"
        self.last_event = now

    def text(self) -> str:
        if math.isnan(self.loss):
            return ""
        accuracy = f"  accuracy {100 * self.accuracy:.1f} %"
        if math.isnan(self.accuracy) or (self.is_narrow and self.dev):
            accuracy = ""
        return f"loss {self.loss:.3f}{accuracy}  {self.speed:,.0f} {self.unit}/s{self.dev}"


def _step_text(event: StepEvent, settings: TrainConfig) -> str:
    """Return `step 3/10`, or in a time budget `step 3 of about 10, 45 s of 3 min`."""
    if settings.minutes is None:
        return f"step {event.step:,}/{settings.max_steps:,.0f}"
    expected = f" of about {event.step / event.progress:,.0f}" if event.progress > 0.05 else ""
    return f"step {event.step:,}{expected}, {_clock_text(event, settings.minutes)}"


def _clock_text(event: StepEvent, minutes: float) -> str:
    return f"{format_duration(event.seconds)} of {format_duration(60 * minutes)}"


def _evaluation_text(event: EvalProgressEvent) -> str:
    total = f"/{event.total:,}" if event.total else ""
    return f"dev at step {event.step:,}: {event.what} {event.done:,}{total}"


def _moving_average(old: float, new: float) -> float:
    return new if math.isnan(old) else 0.95 * old + 0.05 * new


def _format_score(name: str, value: float) -> str:
    is_share = name in ("accuracy", "exact", "f1")
    return f"{name} {100 * value:.1f} %" if is_share else f"{name} {value:.2f}"
