r"""Markov and n-gram models: the next token given the n − 1 before it, by counting.

P(w₁ … w_T) = Π_t P(w_t | w_{t−n+1} … w_{t−1}). How counts become probabilities, also for what
was never seen, is said in `saccade.estimators.ngram.smoothing`; here they are looked up, for one token, for
a long text at once, or for all tokens after a context.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from saccade.estimators.ngram.smoothing import (
    MISSING_ID,
    NGRAM_SMOOTHINGS,
    ConcatenatedSequences,
    FloatArray,
    IntArray,
    NgramTable,
    SmoothingParams,
    TokenSequences,
    concatenate_sequences,
    count_ngrams,
)
from saccade.registry import lookup
from saccade.types.shapes import DecoderState, TokenIds

MAX_TRANSITION_STATES = 4_096  # states of a transition matrix: 128 MB


class NGram:
    """The next token given the `order` − 1 before it.

    Where the context is shorter (at the start of a text), the shorter context counts. `begin` is
    a mark that is put before each sequence and never predicted; `constant` is the α of
    "laplace". As a `Stepper` it can be driven by every search.
    """

    def __init__(
        self,
        order: int,
        vocab_size: int,
        smoothing: str = "kneser-ney",
        *,
        alpha: float = 1.0,
        bos_id: int | None = None,
    ):
        lookup(NGRAM_SMOOTHINGS, smoothing, "smoothing")
        if order < 1 or alpha <= 0 or vocab_size < 1 + (bos_id is not None):
            raise ValueError(
                f"got order {order}, constant {alpha} and {vocab_size} tokens; wanted an order "
                "of 1 or more, a constant over 0 and a token to predict."
            )
        if bos_id is not None and not 0 <= bos_id < vocab_size:
            raise ValueError(f"got the begin mark {bos_id}; wanted 0 to {vocab_size - 1}.")
        self.order, self.vocab_size, self.smoothing = order, vocab_size, smoothing
        self.alpha, self.bos_id = alpha, bos_id
        self.levels: list[NgramTable] = []
        self._uniform = np.full(vocab_size, 1 / (vocab_size - (bos_id is not None)))
        if bos_id is not None:
            self._uniform[bos_id] = 0.0

    def fit(self, ids: TokenSequences) -> "NGram":
        """Count one long text, or a list of sentences, and smooth; what was fitted is forgotten."""
        laid = concatenate_sequences(ids, self.vocab_size, self.bos_id)
        counts = count_ngrams(laid, self.order, self.vocab_size)
        if self.bos_id is not None and len(counts[0].keys):
            counts[0].counts[counts[0].keys == self.bos_id] = 0  # never predicted
        if not counts[0].counts.sum():
            raise ValueError("got no token to count; give a text of one token or more.")
        outcomes = self.vocab_size - (self.bos_id is not None)
        setting = SmoothingParams(self.vocab_size, outcomes, self.alpha, self.bos_id)
        self.levels = NGRAM_SMOOTHINGS[self.smoothing](counts, setting)
        return self

    def log_probability(self, context: Sequence[int], token: int) -> float:
        """Of one token after a context, of which the last `order` − 1 count."""
        ids = np.array([*context, token], np.int64)
        self._check_context(ids)
        with np.errstate(divide="ignore"):
            return float(
                np.log(self._probabilities(concatenate_sequences(ids, self.vocab_size, None))[-1])
            )

    def log_probabilities(self, ids: TokenSequences) -> FloatArray:
        """Of every token of a text, or of all sentences one after another, each in its context.

        The begin mark is put before each, as in `fit`, and has no figure of its own.
        """
        laid = concatenate_sequences(ids, self.vocab_size, self.bos_id)
        with np.errstate(divide="ignore"):
            found = np.log(self._probabilities(laid))
        return found if self.bos_id is None else found[laid.tokens != self.bos_id]

    def distribution(self, context: Sequence[int]) -> FloatArray:
        """Of the next token after a context: V numbers that sum to one."""
        return self.distributions(np.array(context, np.int64).reshape(1, -1))[0]

    def distributions(self, contexts: IntArray) -> FloatArray:
        """One row for each row of contexts, whose first tokens may be missing (−1)."""
        self._check_context(contexts)
        contexts = contexts[:, max(contexts.shape[1] - self.order + 1, 0) :]
        rows, width = contexts.shape
        found = np.tile(self._uniform, (rows, 1))
        for length, level in enumerate(self._fitted()[: width + 1]):
            window = contexts[:, width - length :]
            there = np.flatnonzero((window >= 0).all(axis=1))
            nodes = self._nodes(window[there])
            lower = self._uniform if self.smoothing == "laplace" else found[there]
            found[there] = _weights(level, nodes)[:, None] * lower
            seen = there[nodes >= 0]
            lows, highs = (
                np.searchsorted(level.keys, (nodes[nodes >= 0] + more) * self.vocab_size)
                for more in (0, 1)
            )
            places = _ranges(lows, highs)
            tokens = level.keys[places] % self.vocab_size
            found[np.repeat(seen, highs - lows), tokens] = level.probabilities[places]
        return found

    def _fitted(self) -> list[NgramTable]:
        if not self.levels:
            raise ValueError("this n-gram model has counted nothing yet; call fit(ids) first.")
        return self.levels

    def _check_context(self, ids: IntArray) -> None:
        if ids.size and not MISSING_ID <= ids.min() <= ids.max() < self.vocab_size:
            wrong = ids[(ids < MISSING_ID) | (ids >= self.vocab_size)][0]
            raise ValueError(f"got the id {wrong}; wanted 0 to {self.vocab_size - 1}.")

    def _nodes(self, grams: IntArray) -> IntArray:
        """The number of each gram (one a row), or −1."""
        nodes = np.zeros(len(grams), np.int64)
        for level, tokens in zip(self.levels, grams.T, strict=False):
            nodes = self._followed(level, nodes, tokens)
        return nodes

    def _followed(self, level: NgramTable, nodes: IntArray, tokens: IntArray) -> IntArray:
        """The number of each gram with one token more, or −1."""
        wanted = nodes * self.vocab_size + tokens
        places = np.searchsorted(level.keys, wanted)
        places[places == len(level.keys)] = 0
        if not len(level.keys):
            return np.full(len(nodes), MISSING_ID)
        return np.where((nodes >= 0) & (level.keys[places] == wanted), places, MISSING_ID)

    def _probabilities(self, laid: ConcatenatedSequences) -> FloatArray:
        """Of the token at every place, in its context."""
        tokens = laid.tokens
        found = self._uniform[tokens]
        nodes = np.zeros(len(tokens), np.int64)  # the gram that starts at each place
        for length, level in enumerate(self._fitted(), start=1):
            whole = np.flatnonzero(laid.room >= length)
            last = whole + length - 1
            longer = self._followed(level, nodes[whole], tokens[last])
            lower = (self._uniform[tokens] if self.smoothing == "laplace" else found)[last]
            values = _weights(level, nodes[whole]) * lower
            seen = longer >= 0
            values[seen] = level.probabilities[longer[seen]]
            found[last] = values
            nodes = np.full(len(tokens), MISSING_ID)
            nodes[whole] = longer
        return found

    # --- as a stepper -----------------------------------------------------------------------

    def init_state(self, memory: Any) -> DecoderState:
        """No token read yet. Of `memory` only the number of rows counts: there is no source."""
        cache = torch.full((len(memory), self.order - 1), MISSING_ID, device=memory.device)
        return DecoderState(memory, cache)

    def step(
        self, ids: TokenIds, state: DecoderState
    ) -> tuple[Float[Tensor, "B T V"], DecoderState]:
        """The log-probabilities of what follows each token, and the state after the last."""
        read = torch.cat([state.cache, ids], dim=1)
        T = ids.shape[1]
        windows = [read[:, t + 1 : t + self.order] for t in range(T)]
        contexts = torch.stack(windows, dim=1).flatten(0, 1).cpu().numpy()
        found = torch.from_numpy(self.distributions(contexts)).log().to(ids.device)
        logits = found.view(ids.shape[0], T, self.vocab_size)
        return logits, DecoderState(state.memory, read[:, T:])

    # --- as a Markov chain ------------------------------------------------------------------

    def transition_matrix(self) -> Float[NDArray[Any], "V V"]:
        r"""P_ij = P(next is j | now is i), of the chain that a model of order 2 is."""
        if self.order != 2 or self.vocab_size > MAX_TRANSITION_STATES:
            raise ValueError(
                f"this model has order {self.order} and {self.vocab_size} tokens; a transition "
                f"matrix is of order 2 (one token before) and {MAX_TRANSITION_STATES} tokens at most."
            )
        return self.distributions(np.arange(self.vocab_size)[:, None])

    def k_step_transition_matrix(self, steps: int) -> Float[NDArray[Any], "V V"]:
        r"""Pᵏ: where the chain is k steps on (Chapman–Kolmogorov)."""
        if steps < 0:
            raise ValueError(f"got {steps} steps; wanted 0 or more.")
        return np.linalg.matrix_power(self.transition_matrix(), steps)

    def stationary_distribution(self) -> Float[NDArray[Any], " V"]:
        r"""π with π P = π and Σ π = 1: the share of time the chain spends in each state.

        There is one, whatever the start, if the states that are never left for good hang
        together; tokens outside them have 0.
        """
        matrix = self.transition_matrix()
        closed = closed_class(matrix)
        # π (I − P) = 0 is one equation short; that all sums to one is the last
        equations = np.eye(len(closed)) - matrix[np.ix_(closed, closed)].T
        equations[-1] = 1.0
        found = np.zeros(self.vocab_size)
        found[closed] = np.linalg.solve(equations, np.eye(len(closed))[-1])
        return found

    # --- as arrays --------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The whole model as named arrays, for `from_arrays`."""
        smoothing = list(NGRAM_SMOOTHINGS).index(self.smoothing)
        bos_id = MISSING_ID if self.bos_id is None else self.bos_id
        about = {
            "about": np.array([self.order, self.vocab_size, smoothing, bos_id]),
            "constant": np.array([self.alpha]),
        }
        return about | {
            f"{name}.{length}": array
            for length, level in enumerate(self._fitted(), start=1)
            for name, array in level._asdict().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "NGram":
        """The model that `to_arrays` described."""
        try:
            order, vocab_size, smoothing, bos_id = arrays["about"].tolist()
            model = cls(
                order,
                vocab_size,
                list(NGRAM_SMOOTHINGS)[smoothing],
                alpha=float(arrays["constant"][0]),
                bos_id=None if bos_id == MISSING_ID else bos_id,
            )
            model.levels = [
                NgramTable(*(arrays[f"{name}.{length}"] for name in NgramTable._fields))
                for length in range(1, order + 1)
            ]
        except (KeyError, IndexError) as error:
            raise ValueError(
                f"these arrays are not a whole n-gram model ({error} is missing); give all that "
                "to_arrays() gave."
            ) from None
        return model


def _weights(level: NgramTable, nodes: IntArray) -> FloatArray:
    """β of each context; 1 for one that was not seen."""
    found = np.ones(len(nodes))
    found[nodes >= 0] = level.backoffs[nodes[nodes >= 0]]
    return found


def _ranges(lows: IntArray, highs: IntArray) -> IntArray:
    """low, low + 1, …, high − 1 for each pair, one after another."""
    lengths = highs - lows
    before = np.cumsum(lengths) - lengths
    return np.repeat(lows - before, lengths) + np.arange(int(lengths.sum()))


def closed_class(matrix: FloatArray) -> IntArray:
    """The states that a chain, once among them, never leaves; they must all reach each other."""
    reach = (matrix > 0) | np.eye(len(matrix), dtype=bool)
    for _ in range(len(matrix).bit_length()):
        reach = reach.astype(np.float32) @ reach.astype(np.float32) > 0
    closed = np.flatnonzero((~reach | reach.T).all(axis=1))
    apart = closed[~reach[closed[0], closed]]
    if len(apart):
        raise ValueError(
            f"this chain falls apart: from token {closed[0]} it never comes to token {apart[0]}, "
            "nor back, so where it stays depends on where it starts. Use a smoothing."
        )
    return closed
