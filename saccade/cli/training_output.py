"""Output that `train`, `finetune` and `demo` share: progress, chosen settings, results."""

import shlex
import signal
from typing import TYPE_CHECKING, Any

from saccade.cli.console import make_table, print_json, scores_table, stderr_console
from saccade.errors import Stopped

if TYPE_CHECKING:
    from saccade.runs.run import Run
    from saccade.runs.train import TrainOptions, TrainResult
    from saccade.tasks.base import Choice

STOP_REASONS = {
    "steps": "all steps done",
    "minutes": "time budget used up",
    "patience": "stopped early, no improvement on dev",
    "fitted": "the fit is complete",
}


def training_options() -> "TrainOptions":
    """Return options that report progress and the chosen settings on standard error."""
    from saccade.runs.train import TrainOptions

    console = stderr_console()

    def print_choices(choices: "list[Choice]") -> None:
        if choices:
            table = make_table("setting", "value", "because")
            for choice in choices:
                table.add_row(choice.path, str(choice.value), choice.reason)
            console.print(table, "")

    return TrainOptions(console=console, log=console.print, on_choices=print_choices)


def raise_if_stopped(result: "TrainResult") -> None:
    """Raise `Stopped` with the command to resume if the training was stopped."""
    if result.stop_reason == "stop":
        where = shlex.quote(str(result.run.folder))
        raise Stopped(
            f"Stopped and saved. Resume with: saccade train --resume {where}",
            result.signal_number or signal.SIGINT,
        )


def report_training(result: "TrainResult", json: bool) -> None:
    """Evaluate a finished run on its test split; print the scores and the next commands."""
    raise_if_stopped(result)
    run = result.run
    where = shlex.quote(str(run.folder))
    console = stderr_console()
    evaluation = run.evaluate()
    transfer, sentences = _transfer(run)
    online = getattr(run.recipe.train, "online", False)  # nothing is held out then
    heading = "" if online else " On held-out data:"
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
    if any(not arguments.startswith("-") for arguments in run.inspector.views()):
        console.print(f"  saccade look {where} {example} --save map.png", soft_wrap=True)


def _transfer(run: "Run") -> tuple[dict[str, Any], list[str]]:
    """Return how fine-tuning changed the scores: for --json, and as sentences."""
    if "before" not in run.metadata:
        return {}, []
    from saccade.workflows.finetune import describe_transfer, transfer_reports

    reports = transfer_reports(run)
    return {"transfer": [report._asdict() for report in reports]}, describe_transfer(reports)
