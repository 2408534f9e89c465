"""Those who are told what happens in the loop, and can change nothing: a bar, and a log."""

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
    """A line of JSON for every report and every evaluation, in `metrics.jsonl`."""

    def __init__(self, path: Path, state: TrainState):
        """Go on from where training stands: later lines are those of a sitting that was cut off."""
        self.path = path
        self.began = time.monotonic() - state.seconds
        kept = [line for line in read_metrics(path) if _is_behind(line, state)]
        # whole or not at all: a full disk must not cost the lines that are there
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
        self._file = path.open("a", encoding="utf-8")
        self._last = time.monotonic()  # when the last step, or the evaluation after it, ended
        self._tokens, self._spent = 0, 0.0  # of this sitting's steps since the last report

    def __call__(self, event: Event) -> None:
        """Write what is worth keeping."""
        now = time.monotonic()
        if isinstance(event, StepEvent):
            self._tokens += event.tokens
            self._spent += now - self._last
            self._last = now
        elif isinstance(event, ReportEvent):
            speed = self._tokens / max(self._spent, 1e-9)
            self._tokens, self._spent = 0, 0.0
            judged = {} if event.accuracy is None else {"accuracy": event.accuracy}
            measured = {} if event.ratio is None else {"ratio": event.ratio}
            self._write(
                step=event.step,
                loss=event.loss,
                **judged,
                learning_rate=event.learning_rate,
                norm=event.norm,
                **measured,
                rate=round(speed, 1),
                seconds=round(now - self.began, 2),
            )
        elif isinstance(event, EvalEvent):
            scores = {f"dev_{name}": value for name, value in event.scores.items()}
            self._last = now
            seconds = round(now - self.began, 2)
            self._write(step=event.step, **scores, best=event.is_best, seconds=seconds)

    def fsync(self) -> None:
        """Put the lines on the disk itself: a checkpoint must not outlive those before it."""
        with self._or_say():
            os.fsync(self._file.fileno())

    def _write(self, **values: Any) -> None:
        with self._or_say():
            self._file.write(json.dumps(values) + "\n")
            self._file.flush()

    @contextmanager
    def _or_say(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"{self.path} could not be written: {error.strerror or error}. The last checkpoint "
                "is safe: make room, then go on with --resume."
            ) from error

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # a full disk has been told of already
            self._file.close()


def _is_behind(line: dict[str, Any], state: TrainState) -> bool:
    """Whether a line was written before this standing was; at one step there may be two."""
    return line["step"] <= (state.last_eval_step if "best" in line else state.step)


class _Figures(ProgressColumn):
    """What a person watches: loss, accuracy, speed, and the last evaluation."""

    def render(self, task: Task) -> Text:
        return Text(task.fields.get("figures", ""))


@contextmanager
def training_progress_bar(console: Console, start: int, steps: int) -> Iterator[EventCallback]:
    """A bar on `console` that follows the loop; on no terminal, a plain line now and then."""
    if not console.is_terminal:
        yield _PlainLines(console, steps)
        return
    columns = (
        TextColumn("train"),
        BarColumn(bar_width=None),
        _Figures(Column(no_wrap=True)),  # the bar gives way, not the figures
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        bar = progress.add_task("train", total=1.0, figures="")
        progress.update(bar, completed=start / steps)
        figures = _Smooth(scores=2 if console.width >= 100 else 1)

        def on_event(event: Event) -> None:
            figures(event)
            if isinstance(event, StepEvent):
                progress.update(bar, completed=event.step / steps, figures=figures.text())
                if event.progress > event.step / steps:  # bounded by the clock
                    progress.update(bar, completed=event.progress)
            elif isinstance(event, EvalEvent):
                progress.update(bar, figures=figures.text())

        yield on_event


class _PlainLines:
    """For a log file: a line at most every ten seconds, and one at each evaluation."""

    def __init__(self, console: Console, steps: int):
        self.console, self.steps = console, steps
        self.figures, self.said = _Smooth(), time.monotonic()

    def __call__(self, event: Event) -> None:
        self.figures(event)
        now = time.monotonic()
        if isinstance(event, EvalEvent) or now - self.said > 10:
            self.said = now
            # bounded by the clock alone, a run has more steps than anyone would read
            of = f"/{self.steps}" if self.steps < 10**8 else ""
            self.console.print(
                f"step {event.step}{of}  {self.figures.text()}",
                highlight=False,
                soft_wrap=True,
            )


class _Smooth:
    """Running figures of the loop, for showing."""

    def __init__(self, scores: int = 2) -> None:
        self.scores = scores  # how many of the last evaluation there is room for
        self.loss = self.accuracy = self.speed = math.nan
        self.dev = ""
        self.then = time.monotonic()

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, StepEvent):
            speed = event.tokens / max(now - self.then, 1e-9)
            self.loss = _towards(self.loss, event.loss)
            if event.accuracy is not None:
                self.accuracy = _towards(self.accuracy, event.accuracy)
            self.speed = _towards(self.speed, speed)
        elif isinstance(event, EvalEvent):
            shown = [n for n in ("exact", "chrf", "loss", "accuracy", "rmse") if n in event.scores][
                : self.scores
            ]
            self.dev = "  dev " + " ".join(_figure(name, event.scores[name]) for name in shown)
        self.then = now

    def text(self) -> str:
        if math.isnan(self.loss):
            return ""
        accuracy = "" if math.isnan(self.accuracy) else f"  accuracy {100 * self.accuracy:.1f} %"
        return f"loss {self.loss:.3f}{accuracy}  {self.speed:,.0f} tokens/s{self.dev}"


def _towards(old: float, new: float) -> float:
    return new if math.isnan(old) else 0.95 * old + 0.05 * new


def _figure(name: str, value: float) -> str:
    in_hundred = name in ("accuracy", "exact")
    return f"{name} {100 * value:.1f} %" if in_hundred else f"{name} {value:.2f}"
