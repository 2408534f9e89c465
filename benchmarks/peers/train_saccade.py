"""Our model: the objective, optimiser and loop of `saccade train`."""

from typing import Any

from peers.corpus import OURS, training_objective
from peers.gate import Gate, facts_of
from peers.pipe import Pipe

from saccade.optim import adamw
from saccade.training.loop import Event, StepEvent, train_loop
from saccade.training.objective import Validation
from saccade.training.state import TrainState


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train until the pipe is closed, one measurement window at a time."""
    train_ours(Gate(pipe), training_objective(folder, **OURS[kind]))


def train_ours(gate: Gate, objective: Any) -> None:
    """Train with our own loop."""
    settings = objective.recipe.train

    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent):
            gate(event.tokens)

    facts = facts_of(objective, objective.model, lambda batch: objective.loss(batch).total)
    if settings.compile:
        objective.compile()
    beta2 = {} if settings.beta2 is None else {"beta2": settings.beta2}
    optimizer = adamw(objective.model, settings.learning_rate, settings.weight_decay, **beta2)
    gate.ready(objective.model, **facts, about="its own loop")
    train_loop(
        objective,
        lambda examples: Validation(
            {}, 0.0
        ),  # never called: settings.evaluate_every is out of reach
        optimizer,
        settings,
        TrainState(),
        on_event=on_event,
        save=lambda state: None,
        stop=lambda: False,
    )
