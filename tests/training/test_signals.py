"""Signals: a graceful stop of a training, and exit codes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.cli.main import run as saccade
from saccade.errors import Stopped
from saccade.io.run_folder import read_metrics
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.translation.evaluate import TranslationEvaluator
from saccade.training.loop import EvalProgressEvent, Event
from saccade.training.signals import STOP_SIGNALS, raise_on_signal, stop_on_signal

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


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_signal_while_the_commands_are_loaded_ends_the_process(number: signal.Signals) -> None:
    # a module that the commands import, and whose import is interrupted
    code = "import builtins, os, sys; load = builtins.__import__\n"
    code += "def interrupted(name, *rest):\n"
    code += "    if name == 'saccade.cli.check': os.kill(os.getpid(), int(sys.argv[1]))\n"
    code += "    return load(name, *rest)\n"
    code += "builtins.__import__ = interrupted\n"
    code += "from saccade.__main__ import start; start()"
    result = subprocess.run([sys.executable, "-c", code, str(int(number))], capture_output=True)
    assert result.returncode == -number  # a shell reports 128 + number
    assert b"Traceback" not in result.stderr


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
