"""Every number among the options of the commands has a finite range."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from saccade.cli.main import COMMANDS, PLOT_COMMANDS, run

EXTREMES = [
    str(10**30),
    str(-(10**30)),
    "1e308",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "9" * 5000,
    "",
    "\0",
]


def numeric_options() -> Iterator[tuple[list[str], str, Any]]:
    """Yield a command, the name of an option that takes a number, and its typer.Option."""
    for prefix, commands in ((), COMMANDS), (("plot",), PLOT_COMMANDS):
        for name, command in commands.items():
            for option, hint in get_type_hints(command, include_extras=True).items():
                kinds = {int, float} & {
                    *get_args(hint),
                    *get_args(next(iter(get_args(hint)), None)),
                }
                if kinds:
                    yield [*prefix, name], option, get_args(hint)[1]


OPTIONS = list(numeric_options())


@pytest.mark.parametrize(
    ("command", "option", "declared"),
    OPTIONS,
    ids=[f"{' '.join(command)} {option}" for command, option, _ in OPTIONS],
)
def test_number_among_the_options_has_a_finite_range(
    command: list[str],
    option: str,
    declared: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert math.isfinite(declared.min) and math.isfinite(declared.max)
    monkeypatch.chdir(tmp_path)
    for value in EXTREMES:
        code = run([*command, f"--{option.replace('_', '-')}={value}", "missing"])
        message = capsys.readouterr().err
        assert code == 2 and "Internal error" not in message and len(message) < 1000, message
    assert list(tmp_path.iterdir()) == []


def test_options_with_numbers_are_found() -> None:
    found = {(*command, option) for command, option, _ in OPTIONS}
    assert {("predict", "beam"), ("train", "minutes"), ("plot", "signal", "width")} <= found
