"""Parts of a batch side by side, a thread for each.

The framework shares out every operation among the cores, which then wait for one another some
thousand times a step, and for the small operations of a recurrent model longer than they work.
Here each thread takes its part of the batch the whole way, forward and back, and they meet once
a step. The gradients are added in the order of the parts, so the sum does not depend on which
thread was first.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from saccade.seeding import thread_rng
from saccade.training.config import TrainConfig
from saccade.training.device import autocast

T = TypeVar("T")
R = TypeVar("R")

MAX_BATCH_PARTS = 4  # parts; with more cores, several work on one


def thread_map(act: Callable[[T], R], things: Sequence[T]) -> Iterator[R]:
    """What `act` gives for each thing, in order; as many at a time as there are threads.

    One thing alone is done here, with all threads.
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(things) == 1:
        yield from map(act, things)
        return
    pool = ThreadPoolExecutor(threads, "apart", torch.set_num_threads, (1,))
    try:
        yield from pool.map(act, things)
    finally:
        pool.shutdown(cancel_futures=True)


class PartGradients(NamedTuple):
    """The summed loss of a part, how many of its tokens were right, and its gradients."""

    total: float
    correct: int | None
    gradients: tuple[Tensor | None, ...]


@runtime_checkable
class Splittable(Protocol):
    """What is asked of a task here."""

    model: nn.Module

    def loss(self, batch: Any) -> Any:
        """The summed loss of a batch."""
        ...

    def split_batch(self, batch: Any, limit: int) -> Sequence[Any]:
        """The batch in so many parts at most, whose losses add up to its own."""
        ...


class ThreadParallel:
    """So many threads as the machine has cores for; one, if a task or a device wants it so."""

    def __init__(self, task: Splittable, settings: TrainConfig):
        self.task, self.settings = task, settings
        self.weights = [weight for weight in task.model.parameters() if weight.requires_grad]
        threads = torch.get_num_threads()
        on_cpu = all(weight.device.type == "cpu" for weight in self.weights)
        self.count = min(threads, MAX_BATCH_PARTS) if on_cpu and not settings.compile else 1
        # what is set in a thread holds for that thread alone
        self.pool = ThreadPoolExecutor(
            self.count, "part", torch.set_num_threads, (max(1, threads // self.count),)
        )

    def __enter__(self) -> "ThreadParallel":
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.shutdown()

    def accumulate_gradients(self, batch: Any, tokens: int, step: int) -> tuple[float, int | None]:
        """Add the gradients of a batch, over `tokens`, to the weights'; its loss and right ones."""
        split_batch = self.task.split_batch(batch, self.count) if self.count > 1 else [batch]
        if len(split_batch) == 1:
            found = [self._learn(split_batch[0], tokens)]
        else:
            asked = [
                self.pool.submit(self._learn_apart, part, place, tokens, step)
                for place, part in enumerate(split_batch)
            ]
            found = [part.result() for part in asked]
        for part in found:
            _add(self.weights, part.gradients)
        right = [part.correct for part in found if part.correct is not None]
        total = sum(part.total for part in found)
        return total, sum(right) if len(right) == len(found) else None

    def _learn_apart(self, part: Any, place: int, tokens: int, step: int) -> PartGradients:
        with thread_rng(self.settings.seed, f"dropout of part {place}", step):
            return self._learn(part, tokens)

    def _learn(self, part: Any, tokens: int) -> PartGradients:
        with autocast(self.settings.dtype, self.task.model):
            loss = self.task.loss(part)
        gradients = torch.autograd.grad(loss.total / tokens, self.weights, allow_unused=True)
        correct = None if loss.correct is None else int(loss.correct)
        return PartGradients(float(loss.total.detach()), correct, gradients)


def _add(weights: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    """Each weight's gradient grows by its own, all of them in one call."""
    before, more = [], []
    for weight, gradient in zip(weights, gradients, strict=True):
        if gradient is None:
            continue
        if weight.grad is not None:
            before.append(weight.grad)
            more.append(gradient)
        elif gradient.stride() == weight.stride():
            weight.grad = gradient
        else:  # a fused optimiser takes the numbers in the order in which they lie in memory
            weight.grad = torch.empty_like(weight).copy_(gradient)
    if before:
        torch._foreach_add_(before, more)
