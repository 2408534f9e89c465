"""Training in measurement windows: a gate after every step, and a plain training loop."""

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

from saccade.data.special_tokens import PAD
from saccade.tasks.translation.objective import TranslationObjective
from saccade.training.device import tune_malloc
from saccade.types.shapes import Batch

COUNTED_BATCHES = 2  # whose operations are counted


class Gate:
    """Counts the tokens of every step, and blocks when the window is over."""

    def __init__(self, pipe: Pipe):
        self._pipe = pipe
        self._model: nn.Module = nn.Identity()
        self._watching: AbstractContextManager[Any] | None = None
        torch.set_num_threads(THREADS)
        torch.manual_seed(1)
        tune_malloc()

    def ready(self, model: nn.Module, **facts: Any) -> None:
        """Report the facts of the built model and wait for the first window."""
        self._model = model
        self._pipe.send(**facts)
        self._wait()

    def __call__(self, tokens: int) -> None:
        """Count a finished step."""
        self._tokens += tokens
        self._steps += 1
        if self._steps < self._min_steps or (now := time.perf_counter()) < self._end:
            return
        if self._watching is None:
            self._pipe.send(tokens=self._tokens, seconds=now - self._start, steps=self._steps)
        else:
            self._watching.__exit__(None, None, None)
            self._pipe.send(**shares(self._seen), steps=self._steps)
        self._wait()

    def _wait(self) -> None:
        """Wait for a command: a window of some seconds, or a profile of some steps."""
        command = self._pipe.receive()
        self._tokens, self._steps, self._watching = 0, 0, None
        self._min_steps = command.get("steps", 1)
        if command["do"] == "profile":
            self._watching = profiled(self._model)
            self._seen = self._watching.__enter__()
        self._start = time.perf_counter()
        self._end = self._start + command.get("seconds", 0.0)


def smoothed(logits: Tensor, gold: Tensor) -> Tensor:
    """Return the label-smoothed cross-entropy without padded positions."""
    return F.cross_entropy(
        logits.flatten(0, 1), gold.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
    )


def facts_of(
    objective: TranslationObjective, model: nn.Module, loss: Callable[[Batch], Tensor]
) -> dict[str, Any]:
    """Return the number of parameters, and the operations per target token."""
    batches = list(islice(objective.batches("train", 0), COUNTED_BATCHES))
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.train()
    done = sum(operations(model, partial(loss, batch)) for batch in batches)
    return {
        "parameters": sum(parameter.numel() for parameter in learned),
        "operations": done / sum(batch.tokens for batch in batches),
    }


@torch.no_grad()
def losses_without_dropout(
    objective: TranslationObjective, model: nn.Module, logits: Callable[[Batch], Tensor]
) -> dict[str, float]:
    """Return the loss of the first batch, theirs and ours, without dropout."""
    batch = next(objective.batches("train", 0))
    model.eval()
    objective.model.eval()
    theirs = smoothed(logits(batch), padded_target(batch))
    return {"loss": float(theirs), "ours": float(objective.loss(batch).total) / batch.tokens}


def train_until_closed(
    objective: TranslationObjective, model: nn.Module, loss: Callable[[Batch], Tensor], gate: Gate
) -> None:
    """Train in a plain loop with torch's fused AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, fused=True)
    model.train()
    for batch in objective.batches("train", 0):
        loss(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        gate(batch.tokens)
