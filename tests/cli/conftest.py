"""Fixture that runs the command line in a temporary folder."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The messages on one line."""
        return " ".join(self.err.split())


@pytest.fixture
def saccade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandResult]:
    """`saccade("train", …)` in a folder of its own."""
    from saccade.cli.main import run  # not before the shape checks are in place

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> CommandResult:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return CommandResult(code, *capsys.readouterr())

    return call
