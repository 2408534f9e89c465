"""One sitting of a network's training: from its newest checkpoint, or from the beginning."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor
from torch.optim import Optimizer

from saccade.optim import Wishes, optimizer_named
from saccade.storage import write_tensors
from saccade.training.interrupts import interrupts
from saccade.training.loop import Event, Standing
from saccade.training.loop import train as train_loop
from saccade.training.observers import MetricsLog, progress_bar
from saccade.training.precision import device_named, keep_memory
from saccade.training.resume import Beside, load_checkpoint, take, why_not_exact, write_checkpoint


def learn(
    task: Any,
    folder: Path,
    *,
    show: Console,
    said: Callable[[str], None],
    tell: Callable[[Event], None],
) -> str:
    """Train until it ends, with the best weights in `folder` and in the task; why it ended."""
    settings = task.recipe.train
    keep_memory()
    task.model.to(device_named(settings.device))
    if settings.compile:
        task.compile()
    optimizer = _optimizer(task)
    for reason in why_not_exact(settings):
        said(f"Stopped and resumed, this run may differ in the last bits: {reason}.")
    standing = load_checkpoint(folder / "checkpoint", task.model, optimizer, said)
    task.carried = standing.carried
    weights = folder / "model.safetensors"
    kept = 0  # the step whose weights this sitting has put into model.safetensors
    with ExitStack() as stack:
        log = stack.enter_context(MetricsLog(folder / "metrics.jsonl", standing))
        bar = stack.enter_context(progress_bar(show, standing.step, settings.steps))
        stop = stack.enter_context(interrupts())
        beside = stack.enter_context(Beside())

        def tell_all(event: Event) -> None:
            for listener in (log, bar, tell):
                listener(event)

        def save(standing: Standing) -> None:
            nonlocal kept
            taken = take(task.model, optimizer, standing)
            best = _best(standing) if standing.best_step != kept else None
            kept = standing.best_step

            def write() -> None:
                log.settle()
                write_checkpoint(folder / "checkpoint", taken)
                if best is not None:
                    write_tensors(weights, *best)

            beside.begin(write)

        ended = train_loop(task, optimizer, settings, standing, tell=tell_all, save=save, stop=stop)
        save(standing)
    if standing.best_weights:
        task.model.load_state_dict(standing.best_weights)
        write_tensors(weights, *_best(standing, ended))
    task.model.eval()
    return ended


def keep_start(task: Any, folder: Path) -> None:
    """Keep weights that are not by chance as the checkpoint before the first step.

    Who resumes a training that was killed before its first one has nowhere else to find them.
    """
    write_checkpoint(folder / "checkpoint", take(task.model, _optimizer(task), Standing()))


def _optimizer(task: Any) -> Optimizer:
    train = task.recipe.train
    wishes = Wishes(train.learning_rate, train.weight_decay, train.momentum, train.beta2)
    return optimizer_named(train.optimizer, task.model, wishes)


def _best(standing: Standing, ended: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    facts = {"step": standing.best_step, "goodness": standing.best, "ended": ended}
    return standing.best_weights, facts
