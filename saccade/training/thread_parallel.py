"""Data parallelism over threads: each thread computes the gradient of a part of the batch.

torch parallelises every operation over the cores, which synchronise some thousand times a step; for
the small operations of a recurrent model they wait longer than they compute. Here each thread does
the forward and backward pass of its part, and they synchronise once a step. Gradients are added in
the order of the parts, so the sum does not depend on the order in which threads finish.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from saccade.seeding import thread_rng
from saccade.training.config import TrainConfig
from saccade.training.device import autocast
from saccade.training.objective import AnyObjective

T = TypeVar("T")
R = TypeVar("R")

MAX_BATCH_PARTS = 4  # with more cores, several of them work on one part


def thread_map(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Apply a function to each item in a thread pool and yield the results in order.

    A single item is processed in the calling thread, with all of torch's threads.
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(items) == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads, "thread_map", torch.set_num_threads, (1,))
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


class PartGradients(NamedTuple):
    """Summed loss of a part of a batch, number of its correct tokens, and its gradients."""

    total: float
    correct: int | None
    gradients: tuple[Tensor | None, ...]


class ThreadParallel:
    """Thread pool for gradients; a single thread on accelerators and for compiled models."""

    def __init__(self, objective: AnyObjective, settings: TrainConfig):
        self.objective, self.settings = objective, settings
        self.weights = [weight for weight in objective.model.parameters() if weight.requires_grad]
        threads = torch.get_num_threads()
        on_cpu = all(weight.device.type == "cpu" for weight in self.weights)
        self.count = min(threads, MAX_BATCH_PARTS) if on_cpu and not settings.compile else 1
        # torch.set_num_threads applies to the calling thread
        self.pool = ThreadPoolExecutor(
            self.count, "part", torch.set_num_threads, (max(1, threads // self.count),)
        )

    def __enter__(self) -> "ThreadParallel":
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.shutdown()

    def accumulate_gradients(self, batch: Any, tokens: int, step: int) -> tuple[float, int | None]:
        """Add the gradients of a batch's loss, divided by `tokens`, to those of the weights.

        Returns the summed loss and the number of correct tokens (None if the task has none).
        """
        parts = self.objective.split_batch(batch, self.count) if self.count > 1 else [batch]
        if len(parts) == 1:
            results = [self._gradients(parts[0], tokens)]
        else:
            futures = [
                self.pool.submit(self._gradients_in_thread, part, index, tokens, step)
                for index, part in enumerate(parts)
            ]
            results = [future.result() for future in futures]
        for result in results:
            _add_gradients(self.weights, result.gradients)
        correct = [result.correct for result in results if result.correct is not None]
        total = sum(result.total for result in results)
        return total, sum(correct) if len(correct) == len(results) else None

    def _gradients_in_thread(self, part: Any, index: int, tokens: int, step: int) -> PartGradients:
        with thread_rng(self.settings.seed, f"dropout of part {index}", step):
            return self._gradients(part, tokens)

    def _gradients(self, part: Any, tokens: int) -> PartGradients:
        with autocast(self.settings.dtype, self.objective.model):
            loss = self.objective.loss(part)
        gradients = torch.autograd.grad(loss.total / tokens, self.weights, allow_unused=True)
        correct = None if loss.correct is None else int(loss.correct)
        return PartGradients(float(loss.total.detach()), correct, gradients)


def _add_gradients(weights: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    """Add gradients to those of the weights, in one call."""
    accumulated, added = [], []
    for weight, gradient in zip(weights, gradients, strict=True):
        if gradient is None:
            continue
        if weight.grad is not None:
            accumulated.append(weight.grad)
            added.append(gradient)
        elif gradient.stride() == weight.stride():
            weight.grad = gradient
        else:  # fused optimizers read weight and gradient in memory order
            weight.grad = torch.empty_like(weight).copy_(gradient)
    if accumulated:
        torch._foreach_add_(accumulated, added)
