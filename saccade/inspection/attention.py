"""Capture of attention weights during forward passes, without changing their results."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.functional import Attention
from saccade.nn.hooks import thread_hooks


class AttentionRecorder:
    """Captured weights by the name of the attention module, in the order of its calls."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Tensor]] = {}

    def names(self) -> list[str]:
        """Return the names of the attention modules that were called."""
        return list(self.calls)

    def weights(self, name: str) -> Float[Tensor, "B H T S"]:
        """Return the weights of one module, its calls concatenated along T.

        A later call may have more keys than an earlier one (incremental decoding); the missing
        keys of earlier calls get weight 0.
        """
        calls = self.calls[name]
        max_keys = max(call.shape[-1] for call in calls)
        return torch.cat([F.pad(call, (0, max_keys - call.shape[-1])) for call in calls], dim=2)


def has_attention(model: nn.Module) -> bool:
    """True if a model has attention whose weights can be captured."""
    return any(isinstance(module, Attention) for module in model.modules())


@contextmanager
def capture_attention(model: nn.Module) -> Iterator[AttentionRecorder]:
    """Record the weights of every attention module of `model` inside the `with` block.

    The fused kernel still computes the results; a forward hook computes the weights separately
    from the same queries and keys. There is no cost outside the block. Only eager passes of the
    calling thread are captured, so other threads may use the model meanwhile; for a compiled model
    or another engine, score its output in one eager pass.
    """
    recorder = AttentionRecorder()

    @torch.no_grad()
    def record(name: str, module: Any, inputs: Any, output: Tensor) -> None:
        query, keys, _, mask = inputs
        recorder.calls.setdefault(name, []).append(module.weights(query, keys, mask))

    found = {name: part for name, part in model.named_modules() if isinstance(part, Attention)}
    with thread_hooks(found, record):
        yield recorder
