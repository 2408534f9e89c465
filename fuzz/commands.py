"""The target `commands`: a command line, run in this process in a folder of its own.

The case is a JSON list of arguments. The folder has small data files and some trained runs. Long
commands are interrupted as with Ctrl-C, which they must obey.
"""

import io
import json
import random
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from fuzz.base_runs import base_export, base_run, data_files
from fuzz.contract import Violation, check_message, interrupted
from fuzz.mutate import HOSTILE, expand, hostile_value, mutate_text
from fuzz.sandbox import sandbox

RUNS = ("bahdanau", "gru", "ngrams", "mlp", "skipgram", "kernel", "attention_cnn", "captioner")
EXIT_CODES = (0, 1, 2, 130)
# short trainings: each option is in the command unless the case has it
SHORT = {"train.steps": "2", "model.epochs": "1"}


def commands_target(content: bytes) -> None:
    """Run a command line; it ends with a result, a message or an interrupt."""
    arguments = _arguments(content)
    if arguments is None:
        return
    from saccade.cli import main

    caught: list[BaseException | None] = []
    report = main._report_error

    def record(error: BaseException | None, debug: bool) -> int:
        caught.append(error)
        return report(error, debug)

    runs = {name: base_run(name) for name in RUNS if any(name in text for text in arguments)}
    with sandbox() as folder:
        _fill(folder, runs, arguments)
        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")  # as Python opens it
        stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b"abc\nthe cat\n"), "utf-8")
        main._report_error = record
        try:
            with redirect_stdout(out), redirect_stderr(err), interrupted():
                code = main.run(arguments)
                _check(code, caught)
        finally:
            main._report_error = report
            sys.stdin = stdin


def _arguments(content: bytes) -> list[str] | None:
    try:
        case = expand(json.loads(content))
    except (ValueError, RecursionError):
        return None
    if not isinstance(case, list) or not all(isinstance(text, str) for text in case):
        return None
    # an operating system passes no such arguments; the runner must not read a device for ever
    if any("\0" in text or len(text) > 100_000 for text in case):
        return None
    return [
        text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
        if "\ud800" in text
        else text
        for text in case
    ]


def _fill(folder: Path, runs: dict[str, Path], arguments: list[str]) -> None:
    has_captions = any("captions.tsv" in argument for argument in arguments)
    for name, content in data_files().items():
        top = name.split("/")[0]
        if any(top in argument for argument in arguments) or (top == "photos" and has_captions):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    for name, run in runs.items():
        shutil.copytree(run, folder / "runs" / name)
    if any("vectors.txt" in argument for argument in arguments):
        shutil.copy(base_export("word2vec"), folder / "vectors.txt")


def _check(code: int, caught: list[BaseException | None]) -> None:
    for error in caught:
        if isinstance(error, Exception) and code != 2:
            raise error
        if isinstance(error, MemoryError):
            raise error
        if isinstance(error, Exception) and not isinstance(error, OSError):
            check_message(error)
    if code not in EXIT_CODES:
        raise Violation(f"the exit code {code}")


# --- grammar --------------------------------------------------------------------------------------

DATA = ("pairs.tsv", "text.txt", "labels.csv", "table.csv", "classes.csv", "series.csv")
DATA += ("photos", "captions.tsv")
PHOTO = "photos/dark/1.png"
RUN_PATHS = tuple(f"runs/{name}" for name in RUNS)
TASKS = "translate language classify table forecast vectors kernel-regression".split()
TASKS += ["bert", "image", "caption", "contrastive"]
SMALL_SETS = ("model.width=8", "train.steps=2", "data.tokenizer.kind=character", "train.threads=1")
OUT = ("out", "runs/new", ".", "runs", "table.csv", "a/b/c", "runs/mlp", "")
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {  # choices of each argument
    "train": (TASKS + list(DATA), DATA),  # type: ignore[dict-item]
    "predict": (RUN_PATHS, ("abc", "the cat", "size=3", "0.5", PHOTO)),
    "evaluate": (RUN_PATHS,),
    "show": (RUN_PATHS,),
    "look": (RUN_PATHS, ("abc", "the cat", "a good film", PHOTO)),
    "check": (RUN_PATHS,),
    "data": (DATA,),
    "settings": (TASKS,),  # type: ignore[arg-type]
    "list": (("models", "tasks", "recipes", "datasets"),),
    "export": (RUN_PATHS, ("word2vec", "glove", "huggingface", "ctranslate2", "word2vec-binary")),
    "import": (("word2vec", "glove", "gpt2", "word2vec-binary", "fasttext"), ("vectors.txt",)),
    "finetune": (RUN_PATHS, DATA),
    "compare": (TASKS, DATA),  # type: ignore[dict-item]
    "prune": (RUN_PATHS,),
    "doctor": (TASKS, DATA),  # type: ignore[dict-item]
    "copy": (RUN_PATHS, OUT),
    "plot": (("activations", "signal", "losses", "init", "schedules"),),
    "summary": (("lenet", "resnet18", "vit", "efficientnet_lite0"),),
    "demo": (),
}


def command_options() -> dict[str, list[str]]:
    """Return the options of each command, as typer has them."""
    import typer

    from saccade.cli.main import app

    group: Any = typer.main.get_command(app)
    return {
        name: [text for option in command.params for text in option.opts if text[:1] == "-"]
        for name, command in group.commands.items()
    }


def setting_names() -> list[str]:
    """Return the settings of all tasks."""
    from saccade.config import flatten
    from saccade.tasks.registry import TASKS as SPECS

    found: dict[str, None] = {}
    for task in SPECS:
        try:
            from saccade.recipes.resolve import resolve_recipe

            found |= dict.fromkeys(flatten(resolve_recipe(task).recipe))
        except Exception:  # a task that needs data to be resolved
            continue
    return list(found) or ["model.width"]


_KNOWN: dict[str, Any] = {}


def mutate_command(content: bytes, max_size: int, seed: int) -> bytes:
    """Change an argument, or make another command of the grammar."""
    if not _KNOWN:
        _KNOWN.update(options=command_options(), settings=setting_names())
    draw = random.Random(seed)
    arguments = _arguments(content) or []
    if not arguments or draw.random() < 0.3:
        arguments = _new_command(draw)
    for _ in range(draw.randint(1, 2)):
        arguments = _changed(arguments, draw)
    return json.dumps(arguments).encode()[:max_size]


def _new_command(draw: random.Random) -> list[str]:
    name = draw.choice(list(COMMANDS))
    arguments = [name, *(draw.choice(list(choices)) for choices in COMMANDS[name])]
    if name in ("train", "compare", "finetune"):
        for text in draw.sample(SMALL_SETS, 2):
            arguments += ["--set", text]
    return arguments


def _changed(arguments: list[str], draw: random.Random) -> list[str]:
    chosen = draw.random()
    options = _KNOWN["options"].get(arguments[0], ["--help"])
    if chosen < 0.3 and options:
        option = draw.choice(options)
        return [*arguments, option, _value(option, draw)]
    if chosen < 0.5:
        return [*arguments, "--set", f"{draw.choice(_KNOWN['settings'])}={_text(draw)}"]
    at = draw.randrange(len(arguments))
    if chosen < 0.6:
        return arguments[:at] + arguments[at + 1 :] or ["list"]
    if chosen < 0.7:
        return [*arguments[:at], _text(draw), *arguments[at:]]
    new = mutate_text(arguments[at], draw) if chosen < 0.9 else _text(draw)
    return [*arguments[:at], new, *arguments[at + 1 :]]


def _value(option: str, draw: random.Random) -> str:
    if option in ("--out", "--save"):
        return draw.choice([*OUT, "a.png", "a.svg", "answers.csv", _text(draw)])
    if option in ("--file", "--data"):
        return draw.choice([*DATA, "-", _text(draw)])
    return _text(draw)


def _text(draw: random.Random) -> str:
    value = hostile_value(draw) if draw.random() < 0.3 else draw.choice(HOSTILE)
    if isinstance(value, dict):
        return "9" * 5000 if "$digits" in value else "nan"
    return value if isinstance(value, str) else json.dumps(value)
