"""--json of every command: one writer, valid JSON, and null for what is not a finite number."""

import ast
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import saccade.cli
from saccade.cli.console import json_line
from saccade.cli.main import COMMANDS, app
from saccade.config import override_settings
from saccade.recipes.translation import dates_recipe
from saccade.runs.run import Run
from saccade.types.results import Evaluation

Command = Callable[..., Any]
FOLDER = Path(saccade.cli.__file__).parent
SMALL = ["--set=train.steps=2", "--set=model.width=4", "--set=train.threads=1"]


def strict(text: str) -> Any:
    """Parse JSON as a strict parser does, which refuses NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_all_json_is_written_by_one_function() -> None:
    """Only `json_line` calls the json module; commands with --json print through it."""
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        if path.stem not in ("console", "resumable_output"):  # a request, compared as text
            assert not {"json.dumps", "json.dump"} & {*calls}, path


def commands_with_json() -> set[str]:
    group: Any = typer.main.get_command(app)
    return {
        name
        for name in COMMANDS
        if any("--json" in parameter.opts for parameter in group.commands[name].params)
    }


def test_json_line_has_null_for_what_is_not_finite() -> None:
    value = {"a": math.nan, "b": [math.inf, -math.inf, 1.5], "c": ("\u2028", math.nan)}
    line = json_line(value)
    assert strict(line) == {"a": None, "b": [None, None, 1.5], "c": ["\u2028", None]}
    assert len(line.splitlines()) == 1


@pytest.fixture
def arguments(
    trained_runs: dict[str, Path], words_file: Path, tmp_path: Path
) -> dict[str, list[object]]:
    """Return quick arguments of each command that has --json."""
    run = shutil.copytree(trained_runs["transformer"], tmp_path / "run")
    table = tmp_path / "table.csv"
    rows = [f"{i % 7},{i * 37 % 11},{'yes' if i % 7 > 3 else 'no'}" for i in range(120)]
    table.write_text("a,b,answer\n" + "\n".join(rows) + "\n")
    return {
        "list": ["tasks"],
        "settings": ["translate"],
        "summary": ["lenet", "--input=1,28,28"],
        "data": [words_file],
        "train": ["translate", "--data", words_file, "--model=seq2seq", "--out=new", *SMALL],
        "finetune": [run, "--data", words_file, "--out=tuned", "--set=train.steps=2"],
        "predict": [run, "abc"],
        "evaluate": [run],
        "show": [run],
        "look": [run, "abc"],
        "search": [run, "abc"],
        "compare": [words_file, "--models=seq2seq", "--seeds=1", "--steps=2", *SMALL[1:]],
        "demo": ["--out=demo"],
        "doctor": ["--compare", table, table, "--target=answer"],
    }


def test_every_command_with_json_is_tried(arguments: dict[str, list[object]]) -> None:
    slow = {"check", "prune"}  # they take long; their own tests parse the JSON
    assert commands_with_json() == {*arguments} | slow


def test_json_of_every_command_is_valid(
    arguments: dict[str, list[object]], saccade: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Run.evaluate

    def with_undefined(run: Run, *args: Any, **options: Any) -> Evaluation:
        found = evaluate(run, *args, **options)
        undefined = {**found.metrics, "undefined": math.nan, "unbounded": math.inf}
        return Evaluation(undefined, found.conventions, found.tables, {"floor": undefined})

    monkeypatch.setattr(Run, "evaluate", with_undefined)
    short = {"data.size": 600, "train.steps": 2, "model.width": 4, "data.max_new_tokens": 4}
    recipe = override_settings(dates_recipe(), short)
    monkeypatch.setattr("saccade.recipes.translation.dates_recipe", lambda: recipe)
    for command, given in arguments.items():
        result = saccade(command, *given, "--json", "--quiet")
        assert result.code == 0, (command, result.err)
        values = [strict(line) for line in result.out.splitlines()]
        assert values, command
        if command == "evaluate":
            assert (
                values[0]["undefined"] is None and values[0]["floors"]["floor"]["unbounded"] is None
            )
