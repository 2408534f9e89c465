"""Signals: a graceful stop of a training, and exit codes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from saccade.cli.main import run as saccade
from saccade.errors import Stopped
from saccade.io.run_folder import read_metrics
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.translation.evaluate import TranslationEvaluator
from saccade.training.loop import EvalProgressEvent, Event
from saccade.training.signals import STOP_SIGNALS, raise_on_signal, stop_on_signal
from tests.moments import CommandServer, Ended

Recipes = Callable[..., Any]
Outcomes = Callable[[Path], dict[str, Any]]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_stop_on_signal_sets_the_flag_and_then_interrupts(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with stop_on_signal() as stop:
        assert not stop()
        signal.raise_signal(number)
        assert stop() and stop.number == number
        assert "Ctrl-C again" in capsys.readouterr().err
        with pytest.raises(Stopped) as caught:
            signal.raise_signal(number)
    assert caught.value.signal_number == number
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_raise_on_signal_interrupts_and_keeps_the_number(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with raise_on_signal() as stopped, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    assert stopped.number == number
    assert signal.getsignal(number) == before


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as by nohup
    try:
        with raise_on_signal() as stopped, stop_on_signal() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop() and stopped.number is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("number", "code"), CODES.items())
def test_interrupted_command_exits_with_the_code_of_the_signal(
    number: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(path: Path) -> Any:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:  # as the import of a C extension does
            raise ImportError("half imported") from None

    monkeypatch.setattr("saccade.io.run_folder.read_run_settings", interrupted)
    assert saccade(["evaluate", "runs/none"]) == code
    assert capsys.readouterr().err.splitlines()[-1] == "Stopped."


@pytest.mark.parametrize(("number", "code"), CODES.items())
def test_signal_while_the_arguments_are_parsed_has_its_own_code(
    number: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        signal.raise_signal(number)

    # typer itself ends with 130 and without a message, whatever the signal
    monkeypatch.setattr("typer.core.TyperGroup.resolve_command", interrupted)
    assert saccade(["list"]) == code
    assert capsys.readouterr().err.splitlines()[-1] == "Stopped."


@pytest.mark.parametrize(("number", "code"), CODES.items())
def test_stopped_training_exits_with_the_code_of_the_signal(
    number: signal.Signals,
    code: int,
    words_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    original = TranslationEvaluator.evaluate

    def evaluate(self: TranslationEvaluator, *arguments: Any, **options: Any) -> Any:
        signal.raise_signal(number)
        return original(self, *arguments, **options)

    monkeypatch.setattr(TranslationEvaluator, "evaluate", evaluate)
    folder = tmp_path / "run"
    small = ("model.width=8", "train.steps=8", "train.evaluate_every=2", "train.threads=1")
    arguments = ["train", str(words_file), *(f"--set={value}" for value in small)]
    assert saccade([*arguments, "--out", str(folder)]) == code
    assert f"Resume with: saccade train --resume {folder}" in capsys.readouterr().err
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["000000002.safetensors"]


# --- at any moment --------------------------------------------------------------------------------

SMALL = ("model.width=8", "train.steps=4", "train.evaluate_every=2", "train.threads=1")
SMALL += ("train.batch_tokens=128", "data.max_new_tokens=8")
# what a process does before it has any module; the same moments as in `tests.moments`
EARLY = """
import os, sys

def hook(event, arguments):
    if event == "import" and arguments[0] == sys.argv[2]:
        os.kill(os.getpid(), int(sys.argv[1]))

sys.addaudithook(hook)
from saccade.__main__ import start
start()
"""
MOMENTS: dict[str, tuple[str, str, int]] = {
    "opening the data": ("open", "words.tsv", 1),
    "writing the settings": ("open", ".run.toml", 1),
    "importing the metrics": ("import", "sacrebleu.metrics.chrf", 1),
    "writing a checkpoint": ("os.rename", "checkpoint/", 1),
    "writing the weights": ("os.rename", "model.safetensors", 1),
    "drawing the report": ("os.rename", "curves.png", 1),
    "writing the scores": ("os.rename", "scores.json", 1),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    started = CommandServer(tmp_path_factory.mktemp("server"), ("saccade.plots.curves",))
    yield started
    started.close()


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_signal_while_the_commands_are_loaded_ends_the_process(number: signal.Signals) -> None:
    result = subprocess.run(
        [sys.executable, "-c", EARLY, str(int(number)), "saccade.cli.check"], capture_output=True
    )
    assert result.returncode == CODES[number]
    assert result.stderr == b"Stopped.\n"


def folder_with(words_file: Path, folder: Path) -> list[str]:
    """Copy the data into a folder; return a command that trains on it."""
    shutil.copy(words_file, folder / "words.tsv")
    return ["train", "words.tsv", *(f"--set={value}" for value in SMALL), "--out", "run"]


def messages_of_stop(ended: Ended) -> list[str]:
    assert "Traceback" not in ended.errors and "Internal error" not in ended.errors, ended.errors
    return [line for line in ended.errors.splitlines() if line.startswith("Stopped")]


RESUME_HINT = "Stopped and saved. Resume with: saccade train --resume run"


@pytest.mark.parametrize("number", [signal.SIGTERM])
@pytest.mark.parametrize("moment", ["opening the data", "writing a checkpoint"])
def test_signal_at_any_moment_of_a_training_stops_it_with_one_message(
    number: signal.Signals, moment: str, server: CommandServer, words_file: Path, tmp_path: Path
) -> None:
    command = folder_with(words_file, tmp_path)
    ended = server(command, tmp_path, signals=(number,), moment=MOMENTS[moment])
    assert ended.code == CODES[number], ended.errors
    [message] = messages_of_stop(ended)
    is_run = (tmp_path / "run" / "run.toml").exists()
    assert message == (RESUME_HINT if is_run else "Stopped.")
    assert not list(tmp_path.rglob(".*"))  # no temporary files


@pytest.mark.long
@pytest.mark.parametrize("number", STOP_SIGNALS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_command_typed_again_after_a_signal_succeeds(
    number: signal.Signals,
    moment: str,
    server: CommandServer,
    words_file: Path,
    tmp_path: Path,
) -> None:
    test_signal_at_any_moment_of_a_training_stops_it_with_one_message(
        number, moment, server, words_file, tmp_path
    )
    is_run = (tmp_path / "run" / "run.toml").exists()
    again = ["train", "--resume", "run"] if is_run else folder_with(words_file, tmp_path)
    assert server(again, tmp_path).code == 0


def test_second_signal_ends_the_process(
    server: CommandServer, words_file: Path, tmp_path: Path
) -> None:
    command = folder_with(words_file, tmp_path)
    both = (signal.SIGINT, signal.SIGTERM)
    ended = server(command, tmp_path, signals=both, moment=MOMENTS["writing a checkpoint"])
    assert ended.code in (130, 143)
    assert messages_of_stop(ended) == ["Stopped."]


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_second_signal_leaves_no_wrong_file(
    moment: str, server: CommandServer, words_file: Path, tmp_path: Path, outcome_of: Outcomes
) -> None:
    command = folder_with(words_file, tmp_path)
    assert server([*command[:-1], "whole"], tmp_path).code == 0
    # two different ones: of two equal signals that wait, the second is dropped by the system
    both = (signal.SIGINT, signal.SIGTERM)
    ended = server(command, tmp_path, signals=both, moment=MOMENTS[moment])
    assert ended.code in (130, 143)
    assert messages_of_stop(ended) == ["Stopped."]
    is_run = (tmp_path / "run" / "run.toml").exists()
    assert server(["train", "--resume", "run"] if is_run else command, tmp_path).code == 0
    assert outcome_of(tmp_path / "run") == outcome_of(tmp_path / "whole")


def test_signal_after_the_work_is_done_changes_nothing(
    server: CommandServer, words_file: Path, tmp_path: Path
) -> None:
    command = ["copy", "dates", "mine.toml"]
    ended = server(command, tmp_path, signals=(signal.SIGTERM,), moment=("atexit", "", 1))
    assert (ended.code, ended.errors) == (0, "")
    assert ended.output.startswith("Wrote mine.toml")


# a call into compiled code that would take half an hour, which a signal does not interrupt
DEAF = """
import hashlib, os, sys, threading
from saccade.io import run_folder

def read_settings(path):
    threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)

run_folder.read_run_settings = read_settings
number = int(sys.argv[1])
sys.argv[1:] = ["evaluate", "runs/none"]
from saccade.__main__ import start
start()
"""


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_compiled_code_cannot_delay_the_end(number: signal.Signals) -> None:
    result = subprocess.run(
        [sys.executable, "-c", DEAF, str(int(number))], capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (CODES[number], "Stopped.\n")


# --- stopping an evaluation ---------------------------------------------------------------------


@pytest.mark.parametrize("at", [5, 13], ids=["in training", "after the last step"])
@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_evaluation_is_stopped_and_made_when_resumed(
    model: str,
    at: int,
    smallest: Recipes,
    trained_runs: dict[str, Path],
    outcome_of: Outcomes,
    tmp_path: Path,
) -> None:
    parts: list[EvalProgressEvent] = []

    def on_event(event: Event) -> None:
        if isinstance(event, EvalProgressEvent) and event.step == at:
            parts.append(event)
            if len(parts) == 2:
                signal.raise_signal(signal.SIGINT)

    stopped = train_recipe(smallest(model), tmp_path / "run", TrainOptions(on_event=on_event))
    assert (stopped.stop_reason, stopped.signal_number) == ("stop", signal.SIGINT)
    assert len(parts) == 2  # nothing was evaluated after the signal
    evaluated = [
        line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "best" in line
    ]
    assert evaluated == ([] if at == 5 else [5, 10])
    assert resume(tmp_path / "run", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "run") == outcome_of(trained_runs[model])


def test_sigterm_in_training_saves_and_exits_with_143(words_file: Path, tmp_path: Path) -> None:
    small = ("model.width=8", "train.steps=100000", "train.evaluate_every=100000")
    small += ("train.threads=1", "train.report_every=2", "train.batch_tokens=128")
    arguments = ["train", str(words_file), *(f"--set={value}" for value in small), "--out", "run"]
    started = subprocess.Popen(
        [sys.executable, "-m", "saccade", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size):
        assert started.poll() is None
        time.sleep(0.01)
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate()
    assert started.returncode == 143
    assert "Resume with: saccade train --resume run" in err and "Traceback" not in err
    assert list((tmp_path / "run" / "checkpoint").glob("*.safetensors"))


@pytest.mark.parametrize("part", ["count_cooccurrences", "truncated_svd", "GloVeTrainer.epoch"])
def test_pass_of_a_fit_is_left_and_repeated(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text("one two three two one three four one two\n" * 40)
    model = "svd" if part == "truncated_svd" else "glove"
    values = {"model.width": 4, "train.threads": 1, "data.min_count": 1, "model.epochs": 3}
    if model == "svd":
        del values["model.epochs"]
    recipe = resolve_recipe(
        "vectors", data=str(tmp_path / "text.txt"), model=model, changes=values
    ).recipe
    whole = train_recipe(recipe, tmp_path / "whole", TrainOptions()).run
    done: list[str] = []
    models = "saccade.tasks.word_vectors.models"

    def interrupted(*arguments: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        done.append(part)  # what comes after the signal
        return original(*arguments, **options)

    owner: Any = import_module(models)
    for name in part.split(".")[:-1]:
        owner = getattr(owner, name)
    original = getattr(owner, part.split(".")[-1])
    with monkeypatch.context() as patch:
        patch.setattr(owner, part.split(".")[-1], interrupted)
        stopped = train_recipe(recipe, tmp_path / "run", TrainOptions())
    assert (stopped.stop_reason, stopped.signal_number) == ("stop", signal.SIGTERM)
    assert not done
    resumed = resume(tmp_path / "run", {}, TrainOptions())
    assert resumed.stop_reason == "fitted"
    assert (resumed.run.model.unit_vectors == whole.model.unit_vectors).all()


# a model of each task, and the class whose method evaluates
EVALUATED = {
    "table": ("table", "saccade.tasks.tabular.scoring:NetworkScorer.outputs"),
    "classify": ("classify", "saccade.tasks.text_classification.scorer:LabelScorer.predict_proba"),
    "forecast": (
        "forecast",
        "saccade.tasks.forecasting.predict:ForecastPredictor.rolling_forecasts",
    ),
}


@pytest.mark.parametrize("task", EVALUATED)
def test_evaluation_of_every_task_is_left_where_it_stands(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, changes = tmp_path / "run", {"train.steps": 4, "train.evaluate_every": 2}
    data = {
        "table": "a,b\n" + "".join(f"{n % 17},{n % 2}\n" for n in range(80)),
        "classify": "label,text\n" + "good,a fine day\nbad,a sad day\n" * 20,
        "forecast": "value\n" + "".join(f"{n % 7}\n" for n in range(200)),
    }[task]
    (tmp_path / "data.csv").write_text(data)
    more = {"data.target": "b"} if task == "table" else {}
    recipe = resolve_recipe(
        EVALUATED[task][0],
        data=str(tmp_path / "data.csv"),
        model={"table": "mlp", "classify": "cnn", "forecast": "autoregressive"}[task],
        changes={**changes, **more, "train.threads": 1},
    ).recipe
    module, name = EVALUATED[task][1].split(":")
    owner = getattr(import_module(module), name.split(".")[0])
    method = name.split(".")[1]
    original = getattr(owner, method)
    done: list[str] = []

    def interrupted(self: Any, *arguments: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        done.append(task)  # what comes after the signal
        return original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, interrupted)
        stopped = train_recipe(recipe, folder, TrainOptions())
    assert stopped.stop_reason == "stop"
    assert not done
    assert [path.stem for path in (folder / "checkpoint").iterdir()] == ["000000002"]
    assert resume(folder, {}, TrainOptions()).stop_reason == "steps"
