import json
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from saccade.errors import RunError
from saccade.io.run_folder import read_metrics
from saccade.training.callbacks import MetricsLog, training_progress_bar
from saccade.training.config import TrainConfig
from saccade.training.loop import EvalEvent, EvalProgressEvent, Event, ReportEvent, StepEvent
from saccade.training.progress import show_progress
from saccade.training.state import TrainState
from saccade.types.progress import Progress, ignore_progress


def stepped(step: int, loss: float = 2.5, progress: float | None = None) -> StepEvent:
    return StepEvent(
        step, step / 10 if progress is None else progress, 6.0 * step, loss, 0.25, 1e-3, 0.7, 120
    )


def reported(step: int) -> ReportEvent:
    return ReportEvent(step, 2.5, 0.25, 1e-3, 0.7, 240)


def steps_in(path: Path) -> list[int]:
    return [line["step"] for line in read_metrics(path)]


# --- the log --------------------------------------------------------------------------------------


def test_metrics_log_has_a_line_for_each_report_and_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path, TrainState()) as log:
        for event in (stepped(1), stepped(2), reported(2), EvalEvent(2, {"exact": 0.5}, True)):
            log(event)
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert (first["step"], first["loss"], first["accuracy"]) == (2, 2.5, 0.25)
    assert (first["learning_rate"], first["norm"]) == (1e-3, 0.7)
    assert first["rate"] > 0 and first["seconds"] >= 0
    assert second.pop("seconds") >= first["seconds"]
    assert second == {"step": 2, "dev_exact": 0.5, "best": True}


def test_metrics_log_rate_counts_only_the_steps_of_this_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with MetricsLog(tmp_path / "metrics.jsonl", TrainState(step=1, tokens=120)) as log:
        for event, seconds in (
            (stepped(2), 2.0),
            (EvalEvent(2, {"exact": 0.5}, True), 50.0),
            (stepped(3), 4.0),
            (reported(3), 0.0),
            (stepped(4), 3.0),
            (reported(4), 0.0),
        ):
            clock[0] += seconds
            log(event)
    rates = [line["rate"] for line in read_metrics(tmp_path / "metrics.jsonl") if "rate" in line]
    assert rates == [240 / 6, 120 / 3]


def test_metrics_log_flushes_every_line(tmp_path: Path) -> None:
    with MetricsLog(tmp_path / "metrics.jsonl", TrainState()) as log:
        log(reported(2))
        assert steps_in(tmp_path / "metrics.jsonl") == [2]


def test_metrics_log_drops_later_lines_of_an_interrupted_session(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path, TrainState()) as log:
        for step in (2, 4, 6):
            log(reported(step))
    with MetricsLog(path, TrainState(step=4)) as log:
        assert steps_in(path) == [2, 4]
        log(reported(6))
    assert steps_in(path) == [2, 4, 6]


def test_metrics_log_drops_an_evaluation_after_the_last_checkpoint(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metrics.jsonl"
    events = [reported(4), EvalEvent(4, {"exact": 0.5}, True)]
    with MetricsLog(path, TrainState()) as log:
        for event in events:
            log(event)
    with MetricsLog(path, TrainState(step=4, last_eval_step=4)):
        assert ["best" in line for line in read_metrics(path)] == [False, True]
    with MetricsLog(path, TrainState(step=4, last_eval_step=2)):
        assert ["best" in line for line in read_metrics(path)] == [False]


@pytest.mark.parametrize("cut", ['{"step": 6, "lo', "{", '{"step": 6, "loss": "\xc3', "\x00\x00"])
def test_read_metrics_skips_a_truncated_last_line(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 2}\n{"step": 4}\n' + cut.encode("latin-1"))
    assert steps_in(path) == [2, 4]
    with MetricsLog(path, TrainState(step=4)) as log:
        log(reported(6))
    assert steps_in(path) == [2, 4, 6]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_read_metrics_of_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_metrics_log_reports_a_full_disk(tmp_path: Path) -> None:
    with MetricsLog(tmp_path / "metrics.jsonl", TrainState()) as log:
        log._file.close()
        log._file = open("/dev/full", "a", encoding="utf-8")
        with pytest.raises(RunError, match="No space left on device.*continue with --resume"):
            log(reported(2))


# --- the bar --------------------------------------------------------------------------------------


TEN_STEPS = TrainConfig(steps=10)


def output_of(
    terminal: bool, *events: Event, settings: TrainConfig = TEN_STEPS, unit: str = "tokens"
) -> str:
    file = StringIO()
    console = Console(file=file, force_terminal=terminal, width=140, color_system=None)
    with training_progress_bar(console, settings, unit) as on_event:
        for event in events:
            on_event(event)
    return file.getvalue()


def test_progress_bar_shows_loss_accuracy_speed_and_evaluation() -> None:
    text = output_of(True, stepped(1), stepped(2), EvalEvent(2, {"exact": 0.5, "chrf": 61.0}, True))
    assert "loss 2.500" in text
    assert "accuracy 25.0 %" in text
    assert "tokens/s" in text
    assert "dev at step 2: exact 50.0 % chrf 61.00" in text


@pytest.mark.parametrize("width", [80, 100, 140])
def test_progress_bar_stays_on_one_line(width: int) -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None)
    with training_progress_bar(console, TEN_STEPS) as on_event:
        for event in (stepped(1), EvalEvent(1, {"exact": 0.5, "chrf": 61.0}, True), stepped(5)):
            on_event(event)
            time.sleep(0.02)  # a speed such as people have
    last = file.getvalue().split("\r")[-1]
    assert last.count("\n") == 1
    assert "━" in last and "tokens/s  dev at step 1: exact 50.0 %" in last


def test_progress_bar_is_not_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of(True, stepped(1))
    assert capsys.readouterr().out == ""


def test_progress_bar_shows_a_moving_average_of_the_loss() -> None:
    text = output_of(False, stepped(1, loss=4.0), stepped(2, loss=2.0), EvalEvent(2, {}, False))
    assert "loss 3.900" in text  # 0.95 · 4 + 0.05 · 2


def test_plain_lines_are_printed_at_each_evaluation_without_a_terminal() -> None:
    text = output_of(False, stepped(1), stepped(2), EvalEvent(2, {"exact": 0.5}, True), stepped(3))
    [line] = text.splitlines()
    assert line.startswith("step 2/10  loss 2.500  accuracy 25.0 %")
    assert line.endswith("dev at step 2: exact 50.0 %")
    assert "\x1b" not in text


def test_progress_bar_respects_a_quiet_console() -> None:
    console = Console(file=(file := StringIO()), quiet=True)
    with training_progress_bar(console, TEN_STEPS) as on_event:
        on_event(stepped(1))
        on_event(EvalEvent(1, {"exact": 0.5}, True))
    assert file.getvalue() == ""


def test_show_progress_shows_a_bar_on_terminals_only() -> None:
    for terminal in (True, False):
        file = StringIO()
        console = Console(file=file, force_terminal=terminal, width=100)
        with show_progress(console, "answering") as bar:
            bar.update("answering", 3, None)
        assert ("answering" in file.getvalue()) == terminal


def test_show_progress_update_is_a_progress_callback() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=100)
    with show_progress(console, "reading") as bar:
        on_progress: Progress = bar.update
        on_progress("encoding", 3, 10)
        task = bar.bars.tasks[0]
        assert (task.description, task.completed, task.total) == ("encoding", 3, 10)
        on_progress("encoding", 3, None)
    assert ignore_progress("encoding", 3, None) is None
