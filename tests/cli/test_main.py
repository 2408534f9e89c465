"""Options, usage errors and exit codes of the whole command line."""

from collections.abc import Callable
from typing import Any

import pytest
import typer

from saccade.cli.main import COMMANDS, app
from saccade.cli.plot import PLOT_COMMANDS
from saccade.cli.roles import COLUMNS_SECTION
from saccade.data.task_roles import ROLE_NAMES

Command = Callable[..., Any]
MAX_OPTIONS = 12


def options_of(command: Any) -> list[str]:
    """Return the options of a command without those that have a section of their own.

    These are the nine that name columns, which are the same in every command, and those of
    choices and of layers.
    """
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    return [p.name for p in options if p.rich_help_panel is None]


def test_commands_have_no_more_than_12_options() -> None:
    group: Any = typer.main.get_command(app)
    counted = {name: len(options_of(group.commands[name])) for name in COMMANDS}
    plots = group.commands["plot"].commands
    counted |= {f"plot {name}": len(options_of(plots[name])) for name in PLOT_COMMANDS}
    assert counted["predict"] > 1 and counted["plot signal"] > 1
    assert not {name: count for name, count in counted.items() if count > MAX_OPTIONS}


def test_commands_with_data_have_the_same_options_for_columns(saccade: Command) -> None:
    group: Any = typer.main.get_command(app)
    for name in ("train", "finetune", "evaluate", "predict", "compare"):
        panels = [p.name for p in group.commands[name].params if hasattr(p, "rich_help_panel")]
        assert {*ROLE_NAMES} <= {*panels}
        text = saccade(name, "--help").out
        section = text[text.index(COLUMNS_SECTION) :]
        assert [line.split()[0] for line in section.splitlines() if line.startswith("  --")] == [
            f"--{role}" for role in ROLE_NAMES
        ]
        assert "--source COLUMN" in section
        assert "(bert, classify, embed, language, vectors)" in " ".join(section.split())


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("train", "dates", "--lr", "3"), "No such option --lr; try --set train.learning_rate=3"),
        (("train", "dates", "--epochs=3"), "No such option --epochs; try --set train.steps=…"),
        (("train", "dates", "--steps", "3"), "No such option --steps; try --set train.steps=3"),
        (("train", "dates", "--batch-size", "3"), "try --set train.batch_tokens=…"),
        (("train", "vectors", "--epochs", "3"), "try --set model.epochs=3"),
        (("train", "vectors", "--lr=0.1"), "try --set model.learning_rate=0.1"),
        (("train", "dates", "--num-layers=2", "--model", "luong"), "try --set model.depth=2"),
        (("train", "x.csv", "--target", "y", "--hidden-size", "8"), "try --set model.hidden=8"),
        (("compare", "table", "--optim", "sgd"), "try --set train.optimizer=sgd"),
        (("train", "run", "--on", "x.tsv"), "try saccade finetune RUN --data FILE"),
        (("predict", "run", "x", "--temperature", "2"), "try --search temperature=2"),
    ],
)
def test_habitual_options_get_a_hint(
    arguments: tuple[str, ...], hint: str, saccade: Command
) -> None:
    result = saccade(*arguments)
    assert (result.code, result.out) == (2, "") and hint in result.err


def test_unknown_options_get_the_usual_message(saccade: Command) -> None:
    result = saccade("evaluate", "run", "--lr", "3")
    assert result.code == 2 and "No such option" in result.err and "train." not in result.err


def test_help_is_a_command(saccade: Command) -> None:
    assert saccade("help").out == saccade("--help").out
    assert saccade("help", "train").out == saccade("train", "--help").out
    assert saccade("help", "plot", "zipf").out == saccade("plot", "zipf", "--help").out


@pytest.mark.parametrize("name", PLOT_COMMANDS)
def test_plot_help_has_an_example(name: str, saccade: Command) -> None:
    result = saccade("plot", name, "--help")
    assert result.code == 0 and f"saccade plot {name}" in result.out and "\b" not in result.out


def test_debug_shows_the_traceback_of_a_user_error(saccade: Command) -> None:
    plain, debug = saccade("evaluate", "gone"), saccade("evaluate", "gone", "--debug")
    assert (plain.code, debug.code) == (2, 2)
    assert "Traceback" not in plain.err and "Traceback" in debug.err
