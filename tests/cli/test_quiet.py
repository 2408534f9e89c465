"""--quiet, colours, and the line that is shown while torch is loaded."""

import io
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from saccade.cli import console as cli_console
from saccade.cli.console import has_colour, load_torch, set_quiet, stdout_console, transient_line

Command = Callable[..., Any]


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_console, "_quiet", False)


@pytest.mark.parametrize("position", [0, 3])
def test_quiet_prints_results_and_errors_only(
    position: int, words_file: Path, saccade: Command
) -> None:
    arguments = ["train", "translate", "--data", str(words_file), "--set", "train.steps=2"]
    arguments += ["--model", "seq2seq", "--set", "model.width=4", "--out", f"run{position}"]
    arguments.insert(position, "--quiet")
    result = saccade(*arguments)
    assert (result.code, result.out, result.err) == (0, "", "")
    found = saccade("predict", f"run{position}", "--file", words_file, "--quiet")
    assert found.code == 0 and found.out.count("\n") == 160 and found.err == ""
    failed = saccade("predict", "gone", "abc", "--quiet")
    assert failed.code == 2 and "gone is not a run" in failed.err
    assert "lines/s" in saccade("predict", f"run{position}", "--file", words_file).err


def test_line_is_shown_in_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(stream: io.StringIO) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            with transient_line("Loading PyTorch …"):
                pass
        return stream.getvalue()

    line = "Loading PyTorch …"
    monkeypatch.setenv("TERM", "xterm")
    assert written(Terminal()) == f"{line}\r{' ' * len(line)}\r"
    assert written(io.StringIO()) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert written(Terminal()) == ""
    monkeypatch.setenv("TERM", "xterm")
    set_quiet(True)
    assert written(Terminal()) == ""


def test_line_is_not_shown_if_torch_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    @contextmanager
    def record(text: str) -> Iterator[None]:
        lines.append(text)
        yield

    monkeypatch.setattr(cli_console, "transient_line", record)
    load_torch()
    assert "torch" in sys.modules and lines == []
    monkeypatch.delitem(sys.modules, "torch")  # as in a new process
    monkeypatch.setattr("builtins.__import__", lambda name, *rest: lines.append(name))
    load_torch()
    assert lines == ["Loading PyTorch …", "torch"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "translate", "WORDS", "--set=train.steps=1", "--set=model.width=4", "--out=new"),
        ("train", "--resume", "RUN"),
        ("finetune", "RUN", "WORDS", "--set=train.steps=1", "--out=new"),
        ("evaluate", "RUN"),
        ("predict", "RUN", "abc"),
        ("look", "RUN", "abc"),
        ("prune", "RUN"),
        ("check", "RUN"),
        ("compare", "copy", "--models=seq2seq", "--steps=1"),
        ("doctor", "--compare", "WORDS", "WORDS"),
    ],
)
def test_commands_show_the_line_before_torch_is_loaded(
    arguments: tuple[str, ...],
    saccade: Command,
    words_file: Path,
    trained_runs: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Loading(Exception):
        """The line would be shown now."""

    def load() -> None:
        raise Loading

    for module in ("opening", "compare", "doctor"):
        monkeypatch.setattr(f"saccade.cli.{module}.load_torch", load)
    places = {"WORDS": words_file, "RUN": trained_runs["seq2seq"]}
    result = saccade(*(places.get(argument, argument) for argument in arguments))
    assert result.code == 1 and "Internal error (Loading" in result.err


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_follow_the_environment(
    environment: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert has_colour(stdout_console()) is expected


def test_no_color_reaches_every_table(
    trained_runs: dict[str, Path], saccade: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = shutil.copytree(trained_runs["transformer"], tmp_path / "run")
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for arguments in (
        ("settings", "translate"),
        ("show", run),
        ("list", "models"),
        ("evaluate", run),
        ("look", run, "abc"),
    ):
        result = saccade(*arguments)
        assert result.code == 0 and "\x1b[3" not in result.out, arguments
