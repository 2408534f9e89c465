"""The interface between searches and models."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from saccade.types.shapes import DecoderState, Lengths, Logits, TokenIds

TokenCallback = Callable[[int, list[int]], None]  # row of the batch, ids generated so far


def ignore_token(row: int, ids: list[int]) -> None:
    """Ignore a generated token; the default `on_token`."""


@runtime_checkable
class AutoregressiveModel(Protocol):
    """A model that generates one token after another.

    `ids` may be one token or many per row (a prompt is read in one step). A state is a pair
    `(memory, cache)` of trees of tensors, batch first: `memory` has one row per example, `cache`
    one row per hypothesis. A state is used once: after `step` only the returned one is valid.
    """

    def init_state(self, memory: Any) -> DecoderState:
        """Return the state before the first token."""
        ...

    def step(self, ids: TokenIds, state: Any) -> tuple[Logits, Any]:
        """Return the logits of the token after each of `ids`, and the state after the last."""
        ...


@runtime_checkable
class Seq2SeqModel(AutoregressiveModel, Protocol):
    """A model that generates a target for a source."""

    def encode(self, source: TokenIds, lengths: Lengths | None) -> Any:
        """Return the memory of the sources."""
        ...


class SpecialTokens(NamedTuple):
    """The ids that start and end a sequence, and those that are never generated.

    `should_stop(ids)` ends a sequence after any token, as if it had generated eos.
    """

    bos: int
    eos: int
    forbidden: tuple[int, ...]
    should_stop: Callable[[Sequence[int]], bool] = lambda ids: False


def check_model(model: object) -> None:
    """Raise TypeError if a search cannot drive the model."""
    if not isinstance(model, AutoregressiveModel):
        raise TypeError(
            f"got {type(model).__name__}, which lacks init_state(memory) or step(ids, state); "
            "expected a model with both (see decoding.AutoregressiveModel). For a module with "
            "`logits = model(ids)` use decoding.generate, or wrap it in decoding.UncachedDecoder."
        )


def check_max_lengths(max_lengths: Lengths) -> None:
    """Raise ValueError if a maximum length leaves no room for a token."""
    if int(max_lengths.min()) < 1:
        raise ValueError(
            f"got a maximum length of {int(max_lengths.min())} tokens; expected 1 or more for "
            "every example: a hypothesis has at least one token, eos included."
        )
