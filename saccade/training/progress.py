"""A bar for anything that can be counted; what does it without torch can have one, too."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text


class ProgressHandle:
    """Is told how far it is."""

    def __init__(self, progress: Progress, what: str, total: int | None, done: int):
        self.progress = progress
        self.task_id = progress.add_task(what, total=total, completed=done)

    def __call__(self, more: int) -> None:
        """So many more are done."""
        self.progress.advance(self.task_id, more)

    def update(self, what: str, done: int, total: int) -> None:
        """What is being done, and how far it is (of 0: nobody knows how far)."""
        self.progress.update(self.task_id, description=what, completed=done, total=total or None)


class _Rate(ProgressColumn):
    def __init__(self, unit: str):
        super().__init__(Column(no_wrap=True))
        self.unit = unit

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.1f} {self.unit}/s" if task.speed else "")


@contextmanager
def show_progress(
    console: Console, what: str, *, total: int | None = None, done: int = 0, unit: str = ""
) -> Iterator[ProgressHandle]:
    """A bar that goes away when all is done; on no terminal, nothing.

    With a `unit` (sentences) it also shows how many of them are done in a second.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        *([_Rate(unit)] if unit else []),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        # the bar takes standard output to its own place, which only on a screen is the same one
        redirect_stdout=sys.stdout.isatty(),
    ) as progress:
        yield ProgressHandle(progress, what, total, done)
