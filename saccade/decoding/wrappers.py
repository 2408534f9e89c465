"""Wrappers that give a model the interface of `AutoregressiveModel`."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from saccade.decoding.protocol import AutoregressiveModel
from saccade.types.shapes import DecoderState, Logits, TokenIds


class PromptedDecoder:
    """A language model with prompts of equal length: its first step reads them.

    The memory of the search is the prompts (B, T); the first step ignores its bos.
    """

    def __init__(self, model: AutoregressiveModel):
        self.model = model

    def init_state(self, memory: TokenIds) -> DecoderState:
        """Return the state before the prompts are read."""
        return DecoderState(memory, None)

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read the prompts in the first call, and one more token in the others."""
        prompts, cache = state
        if cache is None:
            logits, after = self.model.step(prompts, self.model.init_state(prompts))
        else:
            logits, after = self.model.step(ids, DecoderState(prompts, cache))
        return logits[:, -1:], DecoderState(prompts, after.cache)


class UncachedState(NamedTuple):
    """The ids read so far."""

    ids: TokenIds


class UncachedDecoder:
    """A module with `logits = model(ids)` and no cache: every step reads the whole text again."""

    def __init__(self, model: Callable[[TokenIds], Logits]):
        self.model = model

    def init_state(self, memory: Tensor) -> DecoderState:
        """Return the state of empty texts, as many as `memory` has rows."""
        empty = torch.empty(len(memory), 0, dtype=torch.long, device=memory.device)
        return DecoderState(memory, UncachedState(empty))

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Return the logits of the token after each of `ids`, and the new state."""
        text = torch.cat([state.cache.ids, ids], dim=1)
        logits = self.model(text)[:, -ids.shape[1] :]
        return logits, DecoderState(state.memory, UncachedState(text))
