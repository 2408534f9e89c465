"""Ours: the task, the optimiser and the loop that `saccade train` uses."""

from typing import Any

from peers.corpus import OURS, training_task
from peers.gate import Gate, facts_of
from peers.pipe import Pipe

from saccade.optim import adamw
from saccade.training.loop import Event, StepEvent, TrainState, train_loop


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train for ever, a window at a time."""
    train_ours(Gate(pipe), training_task(folder, **OURS[kind]))


def train_ours(gate: Gate, task: Any) -> None:
    """Any task of ours, by our own loop."""
    settings = task.recipe.train

    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent):
            gate(event.tokens)

    facts = facts_of(task, task.model, lambda batch: task.loss(batch).total)
    if settings.compile:
        task.compile()
    beta2 = {} if settings.beta2 is None else {"beta2": settings.beta2}
    optimizer = adamw(task.model, settings.learning_rate, settings.weight_decay, **beta2)
    gate.ready(task.model, **facts, about="its own loop")
    train_loop(
        task,
        optimizer,
        settings,
        TrainState(),
        on_event=on_event,
        save=lambda state: None,
        stop=lambda: False,
    )
