r"""n-gram language model as a decoder, and as a Markov chain (order 2)."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from saccade.estimators.markov import stationary_distribution
from saccade.estimators.ngram.backoff import BackoffModel
from saccade.estimators.ngram.smoothing import MISSING_ID
from saccade.types.shapes import DecoderState, TokenIds

MAX_TRANSITION_STATES = 4_096  # states of a transition matrix: 128 MB


class NGram(BackoffModel):
    """n-gram model with the decoder interface (`init_state`, `step`), for every search."""

    def init_state(self, memory: Tensor) -> DecoderState:
        """Return the state before the first token.

        There is no source: `memory` only gives the number of rows and the device.
        """
        cache = torch.full((len(memory), self.order - 1), MISSING_ID, device=memory.device)
        return DecoderState(memory, cache)

    def step(
        self, ids: TokenIds, state: DecoderState
    ) -> tuple[Float[Tensor, "B T V"], DecoderState]:
        """Return the log-probabilities of the token after each of `ids`, and the new state."""
        tokens = torch.cat([state.cache, ids], dim=1)
        T = ids.shape[1]
        windows = [tokens[:, t + 1 : t + self.order] for t in range(T)]
        contexts = torch.stack(windows, dim=1).flatten(0, 1).cpu().numpy()
        log_probabilities = torch.from_numpy(self.distributions(contexts)).log().to(ids.device)
        logits = log_probabilities.view(ids.shape[0], T, self.vocab_size)
        return logits, DecoderState(state.memory, tokens[:, T:])

    # --- Markov chain -----------------------------------------------------------------------

    def transition_matrix(self) -> Float[NDArray[Any], "V V"]:
        r"""Return P_ij = P(next is j | current is i) of the Markov chain of a bigram model."""
        if self.order != 2 or self.vocab_size > MAX_TRANSITION_STATES:
            raise ValueError(
                f"got a model of order {self.order} with {self.vocab_size} tokens; expected order "
                f"2 (one token of context) and at most {MAX_TRANSITION_STATES} tokens for a "
                "transition matrix."
            )
        return self.distributions(np.arange(self.vocab_size)[:, None])

    def k_step_transition_matrix(self, steps: int) -> Float[NDArray[Any], "V V"]:
        r"""Return Pᵏ, the transition probabilities over k steps (Chapman–Kolmogorov)."""
        if steps < 0:
            raise ValueError(f"got {steps} steps; expected 0 or more.")
        return np.linalg.matrix_power(self.transition_matrix(), steps)

    def stationary_distribution(self) -> Float[NDArray[Any], " V"]:
        r"""Return π with π P = π and Σ π = 1: the long-run frequency of each state.

        It is unique if the chain has exactly one closed communicating class; transient states
        have π = 0.
        """
        return stationary_distribution(self.transition_matrix())
