"""Progress of anything that can be counted: a bar in a terminal, lines elsewhere. Free of torch."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

LINE_INTERVAL = 10.0  # seconds between two lines where there is no terminal


class ProgressReporter(Protocol):
    """Shows progress; `update` is a `saccade.types.progress.Progress`."""

    def update(self, what: str, done: int, total: int | None) -> None:
        """Show that `done` of `total` items of `what` are finished; None or 0: total unknown."""
        ...


class ProgressHandle:
    """A bar on the screen."""

    def __init__(self, bars: RichProgress, what: str, total: int | None, done: int):
        self.bars = bars
        self.task_id = bars.add_task(what, total=total, completed=done)

    def update(self, what: str, done: int, total: int | None) -> None:
        """Show that `done` of `total` items of `what` are finished; None or 0: total unknown."""
        self.bars.update(self.task_id, description=what, completed=done, total=total or None)


class ProgressLines:
    """A line at intervals, for logs and notebooks: "checking: 3 of 16 after 20 s"."""

    def __init__(
        self, print_line: Callable[[str], None], what: str, total: int | None, done: int, unit: str
    ):
        self.print_line, self.unit = print_line, unit
        self.what, self.done, self.total, self.first = what, done, total, done

    def update(self, what: str, done: int, total: int | None) -> None:
        """Remember the progress for the next line."""
        self.what, self.done, self.total = what, done, total

    def report(self, seconds: float) -> None:
        """Print the progress after so many seconds."""
        done = f": {self.done:,}" if self.done else ""
        if self.total:
            done = f": {self.done:,} of {self.total:,}"
        speed = ""
        if self.unit and self.done > self.first:
            speed = f", {(self.done - self.first) / seconds:,.1f} {self.unit}/s"
        self.print_line(f"{self.what}{done} after {seconds:,.0f} s{speed}")

    def report_until(self, wait: Callable[[float], bool], clock: Callable[[], float]) -> None:
        """Print a line after each `LINE_INTERVAL` until `wait` returns True."""
        start = clock()
        while not wait(LINE_INTERVAL):
            self.report(clock() - start)


class _ItemsPerSecond(ProgressColumn):
    def __init__(self, unit: str):
        super().__init__(Column(no_wrap=True))
        self.unit = unit

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.1f} {self.unit}/s" if task.speed else "")


def is_live(console: Console) -> bool:
    """Return True if a console can redraw a line.

    `FORCE_COLOR` makes rich take a file for a terminal, for its colours; bars do not belong there.
    """
    forced = bool(os.environ.get("FORCE_COLOR")) and not console.file.isatty()
    return console.is_terminal and not console.is_dumb_terminal and not forced


@contextmanager
def show_progress(
    console: Console, what: str, *, total: int | None = None, done: int = 0, unit: str = ""
) -> Iterator[ProgressReporter]:
    """Show a bar that disappears at the end; if `console` is not a terminal, a line now and then.

    With a `unit` (sentences) it also shows the number of items per second. A quiet console shows
    nothing.
    """
    if not is_live(console):
        lines = ProgressLines(
            lambda line: console.print(line, soft_wrap=True), what, total, done, unit
        )
        with _in_background(lines, console.quiet):
            yield lines
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        *([_ItemsPerSecond(unit)] if unit else []),
        TimeRemainingColumn(),
    )
    with RichProgress(
        *columns,
        console=console,
        transient=True,
        disable=console.quiet,
        # rich would send standard output to its own console, which is a file if output is piped
        redirect_stdout=sys.stdout.isatty(),
    ) as bars:
        yield ProgressHandle(bars, what, total, done)


@contextmanager
def _in_background(lines: ProgressLines, quiet: bool) -> Iterator[None]:
    """Print the lines from a thread, so that they come while one long operation runs."""
    if quiet:
        yield
        return
    finished = threading.Event()
    thread = threading.Thread(
        target=lines.report_until, args=(finished.wait, time.monotonic), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
