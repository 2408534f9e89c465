"""Seeing the attention of a model while it works, without changing what it does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.attention import Attention


class AttentionRecorder:
    """The maps that were seen, by the name of the attention in the model, in order of its calls."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Tensor]] = {}

    def names(self) -> list[str]:
        """The attentions that were called."""
        return list(self.calls)

    def weights(self, name: str) -> Float[Tensor, "B H T S"]:
        """All that one attention has seen: calls follow each other along T.

        A later call may have had more keys than an earlier one; what was not there yet got no
        weight.
        """
        calls = self.calls[name]
        most = max(call.shape[-1] for call in calls)
        return torch.cat([F.pad(call, (0, most - call.shape[-1])) for call in calls], dim=2)


@contextmanager
def capture_attention(model: nn.Module) -> Iterator[AttentionRecorder]:
    """Collect the weights of every attention in `model` while the block is open.

    The fused kernel computes the results as before; the weights are computed beside it from the
    same queries and keys. Outside the block it costs nothing. It sees eager passes: a compiled
    model or another engine is watched by reading its answer again in one eager pass.
    """
    seen = AttentionRecorder()
    hooks = []

    def follow(name: str, module: Attention) -> None:
        @torch.no_grad()
        def note(module: Any, inputs: Any, output: Tensor) -> None:
            query, keys, _, mask = inputs
            seen.calls.setdefault(name, []).append(module.weights(query, keys, mask))

        hooks.append(module.register_forward_hook(note))

    for name, module in model.named_modules():
        if isinstance(module, Attention):
            follow(name, module)
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
