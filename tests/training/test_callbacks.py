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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by a number that tests advance."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def lines_of(clock: list[float], steps: int, seconds: float, **options: object) -> list[str]:
    """Return the lines of so many steps of so many seconds, without a terminal."""
    file = StringIO()
    console = Console(file=file, force_terminal=False, width=140, color_system=None)
    settings = TrainConfig(steps=steps, **options)
    with training_progress_bar(console, settings) as on_event:
        for step in range(1, steps + 1):
            clock[0] += seconds
            on_event(stepped(step, progress=step / steps))
    return file.getvalue().splitlines()


def test_plain_lines_come_every_ten_seconds_or_five_percent(clock: list[float]) -> None:
    assert len(lines_of(clock, 1024, 1.0)) == 102  # every ten seconds
    assert len(lines_of(clock, 1024, 0.125)) == 19  # every 52 steps: five percent, which take 6.5 s
    assert len(lines_of(clock, 1024, 2**-7)) == 4  # no more than one in 2 s
    assert lines_of(clock, 1024, 2**-10) == []  # it is over in a second


def test_plain_lines_show_time_in_a_time_budget() -> None:
    settings = TrainConfig(minutes=1)
    text = output_of(
        False, stepped(2, progress=0.2), EvalEvent(2, {"loss": 2.0}, True), settings=settings
    )
    assert text.startswith("step 2 of about 10, 12 s of 1 min  loss 2.500")


def test_progress_bar_shows_time_in_a_time_budget() -> None:
    text = output_of(True, stepped(2, progress=0.2), settings=TrainConfig(minutes=1))
    assert "12 s of 1 min" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_speed_has_the_unit_of_the_task(terminal: bool) -> None:
    events = (stepped(1), EvalEvent(1, {"accuracy": 0.5}, True))
    assert "rows/s" in output_of(terminal, *events, unit="rows")
    assert "tokens" not in output_of(terminal, *events, unit="rows")


def test_plain_lines_name_the_step_of_an_older_evaluation(clock: list[float]) -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=False, width=140)
    with training_progress_bar(console, TrainConfig(steps=1000)) as on_event:
        on_event(stepped(101))
        on_event(EvalEvent(101, {"exact": 0.022}, True))
        clock[0] += 11
        on_event(stepped(157, progress=0.157))
    first, second = file.getvalue().splitlines()
    assert first.startswith("step 101/1,000  ") and first.endswith("dev at step 101: exact 2.2 %")
    assert second.startswith("step 157/1,000  ") and second.endswith("dev at step 101: exact 2.2 %")


@pytest.mark.parametrize("terminal", [True, False])
def test_long_evaluation_is_shown(terminal: bool, clock: list[float]) -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=terminal, width=140, color_system=None)
    with training_progress_bar(console, TEN_STEPS) as on_event:
        on_event(stepped(5))
        for done in (50, 100, 150):
            clock[0] += 6
            on_event(EvalProgressEvent(5, "predicting", done, 500))
    assert ("dev at step 5: predicting 100/500" in file.getvalue()) or terminal
    if not terminal:
        assert len(file.getvalue().splitlines()) == 1
    else:
        assert "dev at step 5: predicting 150/500" in file.getvalue()


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
