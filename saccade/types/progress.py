"""The one signature of progress callbacks. Does not import torch."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """Callback that receives the name of the work, how much is done and the total (None: open)."""

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Report progress."""
        ...


def ignore_progress(what: str, done: int, total: int | None) -> None:
    """Discard progress reports."""


class ProgressCounter:
    """Counts finished items and reports the running total to a progress callback."""

    def __init__(self, on_progress: Progress, what: str, total: int | None = None):
        self.on_progress, self.what, self.total = on_progress, what, total
        self.done = 0

    def advance(self, count: int) -> None:
        """Report `count` more finished items."""
        self.done += count
        self.on_progress(self.what, self.done, self.total)


@runtime_checkable
class ProgressCallback(Protocol):
    """Callback of one operation that receives how much is done of how much."""

    def __call__(self, done: int, total: int) -> None:
        """Report progress."""
        ...
