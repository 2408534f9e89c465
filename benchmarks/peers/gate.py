"""Training in windows: a gate at the end of every step, and the loop of those that have none."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from peers.corpus import BETAS, CLIP, RATE, SMOOTHING, padded_target
from peers.pipe import THREADS, Pipe
from peers.shares import profiled, shares
from timing import operations
from torch import Tensor, nn

from saccade.data.vocabulary import PAD
from saccade.tasks.translation import TranslationTask
from saccade.training.device import tune_malloc
from saccade.types.shapes import Batch

COUNTED = 2  # batches whose operations are counted


class Gate:
    """Counts the tokens of every step, and lets none begin once its window is over."""

    def __init__(self, pipe: Pipe):
        self._pipe = pipe
        self._model: nn.Module = nn.Identity()
        self._watching: AbstractContextManager[Any] | None = None
        torch.set_num_threads(THREADS)
        torch.manual_seed(1)
        tune_malloc()

    def ready(self, model: nn.Module, **facts: Any) -> None:
        """All is built: tell so, and wait for the first window."""
        self._model = model
        self._pipe.say(**facts)
        self._wait()

    def __call__(self, tokens: int) -> None:
        """A step is done."""
        self._tokens += tokens
        self._steps += 1
        if self._steps < self._least or (now := time.perf_counter()) < self._end:
            return
        if self._watching is None:
            self._pipe.say(tokens=self._tokens, seconds=now - self._began, steps=self._steps)
        else:
            self._watching.__exit__(None, None, None)
            self._pipe.say(**shares(self._seen), steps=self._steps)
        self._wait()

    def _wait(self) -> None:
        """Sleep until a command comes: a window of so many seconds, or a profile of some steps."""
        command = self._pipe.hear()
        self._tokens, self._steps, self._watching = 0, 0, None
        self._least = command.get("steps", 1)
        if command["do"] == "profile":
            self._watching = profiled(self._model)
            self._seen = self._watching.__enter__()
        self._began = time.perf_counter()
        self._end = self._began + command.get("seconds", 0.0)


def smoothed(logits: Tensor, gold: Tensor) -> Tensor:
    """The loss as a careful user writes it: of all places, those of padding left out."""
    return F.cross_entropy(
        logits.flatten(0, 1), gold.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
    )


def facts_of(
    task: TranslationTask, model: nn.Module, loss: Callable[[Batch], Tensor]
) -> dict[str, Any]:
    """How large it is, and how many operations a target token costs."""
    batches = list(islice(task.batches("train", 0), COUNTED))
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.train()
    done = sum(operations(model, partial(loss, batch)) for batch in batches)
    return {
        "parameters": sum(parameter.numel() for parameter in learned),
        "operations": done / sum(batch.tokens for batch in batches),
    }


@torch.no_grad()
def losses_without_dropout(
    task: TranslationTask, model: nn.Module, logits: Callable[[Batch], Tensor]
) -> dict[str, float]:
    """The loss of the first batch, theirs and ours; equal if both compute the same."""
    batch = next(task.batches("train", 0))
    model.eval()
    task.model.eval()
    theirs = smoothed(logits(batch), padded_target(batch))
    return {"loss": float(theirs), "ours": float(task.loss(batch).total) / batch.tokens}


def train_for_ever(
    task: TranslationTask, model: nn.Module, loss: Callable[[Batch], Tensor], gate: Gate
) -> None:
    """A plain loop with torch's own fused AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, fused=True)
    model.train()
    for batch in task.batches("train", 0):
        loss(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        gate(batch.tokens)
