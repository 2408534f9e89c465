"""Ours: the task, the optimiser and the loop that `saccade train` uses, compiled or not."""

import time

import torch
from peers.gate import Gate, facts_of
from peers.letters import language_task
from peers.pipe import THREADS, Pipe

from saccade.decoding import Marks, greedy
from saccade.optim import adamw
from saccade.tasks.reading import Prompted
from saccade.training import Event, Standing, train
from saccade.training.loop import Stepped


def compete(pipe: Pipe, what: str, kind: str) -> None:
    """Train for ever, a window at a time; or write."""
    if what == "write":
        _write(pipe, kind)
        return
    gate = Gate(pipe)
    task = language_task(kind, compile=what == "compiled")
    settings = task.recipe.train

    def tell(event: Event) -> None:
        if isinstance(event, Stepped):
            gate(event.tokens)

    facts = facts_of(task, task.model, lambda batch: task.loss(batch).total)
    if settings.compile:
        task.compile()
    optimizer = adamw(task.model, settings.learning_rate, settings.weight_decay)
    gate.ready(task.model, **facts, about="its own loop")
    train(
        task,
        optimizer,
        settings,
        Standing(),
        tell=tell,
        save=lambda standing: None,
        stop=lambda: False,
    )


def _write(pipe: Pipe, kind: str) -> None:
    """Go on with the prompts that come, the likeliest token each time."""
    torch.set_num_threads(THREADS)
    task = language_task(kind)
    task.model.eval()
    stepper, marks = Prompted(task.writing), Marks(2, -1, ())
    parameters = sum(weight.numel() for weight in task.model.parameters())
    pipe.say(parameters=parameters, about="its own search")
    while command := pipe.hear():
        prompts = torch.tensor(command["prompts"])
        limits = torch.full((len(prompts),), command["tokens"])
        began = time.perf_counter()
        with torch.inference_mode():
            for _ in range(command["repeats"]):
                found = greedy(stepper, prompts, marks=marks, limits=limits)
        seconds = time.perf_counter() - began
        pipe.say(answers=[answer.ids for answer in found], seconds=seconds)
