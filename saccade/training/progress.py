"""A progress bar for anything that can be counted. Free of torch."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

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


class ProgressHandle:
    """A bar on the screen; its `update` is a `saccade.types.progress.Progress`."""

    def __init__(self, bars: RichProgress, what: str, total: int | None, done: int):
        self.bars = bars
        self.task_id = bars.add_task(what, total=total, completed=done)

    def update(self, what: str, done: int, total: int | None) -> None:
        """Show that `done` of `total` items of `what` are finished; None or 0: total unknown."""
        self.bars.update(self.task_id, description=what, completed=done, total=total or None)


class _ItemsPerSecond(ProgressColumn):
    def __init__(self, unit: str):
        super().__init__(Column(no_wrap=True))
        self.unit = unit

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.1f} {self.unit}/s" if task.speed else "")


@contextmanager
def show_progress(
    console: Console, what: str, *, total: int | None = None, done: int = 0, unit: str = ""
) -> Iterator[ProgressHandle]:
    """Show a bar that disappears at the end; show nothing if `console` is not a terminal.

    With a `unit` (sentences) it also shows the number of items per second.
    """
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
        disable=not console.is_terminal,
        # rich would send standard output to its own console, which is a file if output is piped
        redirect_stdout=sys.stdout.isatty(),
    ) as bars:
        yield ProgressHandle(bars, what, total, done)
