"""Progress where there is no terminal, and what counts as one."""

import io

import pytest
from rich.console import Console

from saccade.training.progress import LINE_INTERVAL, ProgressLines, is_live, show_progress


class Ticks:
    """A clock that advances by what is waited for, and a wait that ends after some calls."""

    def __init__(self, count: int):
        self.now, self.left = 100.0, count

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.left -= 1
        return self.left < 0

    def __call__(self) -> float:
        return self.now


def test_lines_report_what_was_done_and_how_fast() -> None:
    printed: list[str] = []
    lines = ProgressLines(printed.append, "reading", None, 100, "lines")
    ticks = Ticks(1)
    lines.report_until(ticks.wait, ticks)
    lines.update("predicting", 300, 1000)
    lines.report_until(Ticks(0).wait, ticks)  # ends before the first line
    ticks = Ticks(2)
    lines.report_until(ticks.wait, ticks)
    assert LINE_INTERVAL == 10
    assert printed == [
        "reading: 100 after 10 s",
        "predicting: 300 of 1,000 after 10 s, 20.0 lines/s",
        "predicting: 300 of 1,000 after 20 s, 10.0 lines/s",
    ]


def test_lines_without_a_count_show_the_time() -> None:
    printed: list[str] = []
    ticks = Ticks(1)
    ProgressLines(printed.append, "checking", None, 0, "").report_until(ticks.wait, ticks)
    assert printed == ["checking after 10 s"]


def test_show_progress_prints_lines_from_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgressLines, "report_until", lambda lines, wait, clock: lines.report(3))
    for quiet in (False, True):
        file = io.StringIO()
        with show_progress(Console(file=file, quiet=quiet), "checking", total=4) as bar:
            bar.update("checking", 1, 4)
        assert ("checking: " in file.getvalue()) is not quiet


def test_forced_colours_do_not_make_a_file_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_live(Console(file=io.StringIO(), force_terminal=True))
    assert not is_live(Console(file=io.StringIO()))
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console(file=io.StringIO())
    assert console.is_terminal and not is_live(console)
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not is_live(Console(file=io.StringIO(), force_terminal=True))
