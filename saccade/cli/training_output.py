"""Output that `train`, `finetune` and `demo` share: progress, chosen settings, results."""

import shlex
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from saccade.cli.console import make_table, print_json, scores_table, stderr_console
from saccade.cli.roles import column_settings
from saccade.errors import Stopped
from saccade.training.progress import show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from saccade.recipes.preview import DataPreview
    from saccade.runs.run import Run
    from saccade.runs.train import TrainOptions, TrainResult
    from saccade.tasks.base import Choice

STOP_REASONS = {
    "steps": "all steps done",
    "minutes": "time budget used up",
    "patience": "stopped early, no improvement on dev",
    "fitted": "the fit is complete",
}


class PreviewedCommand(NamedTuple):
    """Task or recipe, data and settings of a command, and the notes that were printed."""

    what: str
    data: str | None
    settings: dict[str, Any]
    printed: frozenset[str] = frozenset()


def preview_command(
    what: str, data: str | None, settings: dict[str, Any], columns: Mapping[str, str]
) -> PreviewedCommand:
    """Print what was understood of a training file; return the command with its columns.

    Does not import torch, so that errors of the file and its columns come first.
    """
    from saccade.recipes.preview import preview_data

    settings = settings | column_settings(what, columns)
    preview = preview_data(what, data, settings, ask_column if _is_interactive() else None)
    if preview is None:
        return PreviewedCommand(what, data, settings)
    return PreviewedCommand(
        preview.task, preview.data, settings | preview.settings, _print_preview(preview)
    )


def preview_run_data(run: Path, data: str, settings: Mapping[str, Any]) -> PreviewedCommand:
    """Print what was understood of another file for a run; return the task with its columns.

    Does not import torch, so that errors of the file and its columns come first.
    """
    from saccade.cli.opening import check_data, read_run_recipe
    from saccade.recipes.preview import preview_other_data

    recipe = read_run_recipe(run)
    check_data(recipe, data)
    if hasattr(recipe.data, "world"):
        return PreviewedCommand(recipe.task, data, dict(settings))
    preview = preview_other_data(recipe, data, settings)
    if preview is None:
        return PreviewedCommand(recipe.task, data, dict(settings))
    printed = _print_preview(preview)
    return PreviewedCommand(recipe.task, data, {**settings, **preview.settings}, printed)


def _print_preview(preview: "DataPreview") -> frozenset[str]:
    console = stderr_console()
    for note in preview.notes:
        console.print(note, soft_wrap=True)
    _print_choices(console, [(f"data.{c.role}", c.column, c.reason) for c in preview.choices])
    return frozenset(preview.notes)


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_column(question: str, columns: Sequence[str]) -> str | None:
    """Ask for one of some columns in a terminal; None if there is no answer."""
    console = stderr_console()
    console.print(f"{question} ({', '.join(columns)})")
    try:
        return console.input("> ").strip() or None
    except EOFError:
        return None


def _print_choices(console: "Console", rows: Sequence[tuple[str, object, str]]) -> None:
    if rows:
        table = make_table("setting", "value", "because")
        for path, value, reason in rows:
            table.add_row(path, str(value), reason)
        console.print(table, "")


def training_options(printed: Collection[str] = ()) -> "TrainOptions":
    """Return options that report progress and the chosen settings on standard error.

    Messages that are in `printed` were printed before.
    """
    from saccade.runs.train import TrainOptions

    console = stderr_console()

    def print_choices(choices: "list[Choice]") -> None:
        _print_choices(console, [(c.path, c.value, c.reason) for c in choices])

    def log(message: str) -> None:
        if message not in printed:
            console.print(message)

    return TrainOptions(console=console, log=log, on_choices=print_choices)


@contextmanager
def resume_hint(folder: Path, *, is_new: bool) -> Iterator[None]:
    """Add the command to resume to a `Stopped` that leaves a run in the folder.

    It interrupts a new training before its first step, or any training after its last one.
    """
    had_run = is_new and (folder / "run.toml").exists()
    try:
        yield
    except Stopped as error:
        if str(error) or had_run or not (folder / "run.toml").exists():
            raise
        raise Stopped(_resume_command(folder), error.signal_number) from None


def _resume_command(folder: Path) -> str:
    where = shlex.quote(str(folder))
    return f"Stopped and saved. Resume with: saccade train --resume {where}"


def raise_if_stopped(result: "TrainResult") -> None:
    """Raise `Stopped` with the command to resume if the training was stopped."""
    if result.stop_reason == "stop":
        raise Stopped(_resume_command(result.run.folder), result.signal_number or signal.SIGINT)


def report_training(result: "TrainResult", json: bool) -> None:
    """Evaluate a finished run on its test split; print the scores and the next commands."""
    raise_if_stopped(result)
    run = result.run
    where = shlex.quote(str(run.folder))
    console = stderr_console()
    with show_progress(console, "evaluating on the test split") as bar:
        evaluation = run.evaluate(on_progress=bar.update)
        transfer, sentences = _transfer(run)
    online = getattr(run.recipe.train, "online", False)  # nothing is held out then
    is_held_out = run.split("test") is not run.split("train")
    heading = "" if online else f" On {'held-out' if is_held_out else 'the training'} data:"
    console.print(f"\nTraining finished: {STOP_REASONS[result.stop_reason]}.{heading}")
    if json:
        print_json(
            {
                "run": str(run.folder),
                "stop_reason": result.stop_reason,
                "parameters": run.parameters,
                "test": evaluation.to_dict(),
                **transfer,
            }
        )
        return
    if not online:
        console.print(scores_table(evaluation, run.evaluator.headline))
    for sentence in sentences:
        console.print(sentence, soft_wrap=True)
    example_input = run.inspector.example_input(run.split("test"))
    example = shlex.quote(str(example_input))
    console.print(f"\nThe run is in {where}. Next:")
    console.print(f"  saccade predict {where} {example}", soft_wrap=True)
    console.print(f"  saccade evaluate {where} --all", soft_wrap=True)
    if any("--" not in arguments for arguments in run.inspector.views()):
        console.print(f"  saccade look {where} {example} --save map.png", soft_wrap=True)


def _transfer(run: "Run") -> tuple[dict[str, Any], list[str]]:
    """Return how fine-tuning changed the scores: for --json, and as sentences."""
    if "before" not in run.metadata:
        return {}, []
    from saccade.workflows.finetune import describe_transfer, transfer_reports

    reports = transfer_reports(run)
    return {"transfer": [report._asdict() for report in reports]}, describe_transfer(reports)
