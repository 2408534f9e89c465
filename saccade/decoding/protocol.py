"""What a search asks of a model: a state to start from, and a step."""

from typing import Any, Protocol, runtime_checkable

from saccade.types.shapes import Logits, TokenIds


@runtime_checkable
class AutoregressiveModel(Protocol):
    """Anything that writes one token after another.

    `ids` may be one step or many (a prompt is read at once). A state is a pair `(memory, past)`
    of trees of tensors, batch first: one row of `memory` a sentence, one row of `past` a
    hypothesis. It is used once: after `step` only the returned state is valid.
    """

    def init_state(self, memory: Any) -> Any:
        """The state before the first token."""
        ...

    def step(self, ids: TokenIds, state: Any) -> tuple[Logits, Any]:
        """The logits of what follows each token, and the state after the last."""
        ...
