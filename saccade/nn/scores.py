r"""How well a key answers a query: `score(query, key) -> (..., T, S)`.

Every score shares that one call, so that any of them drops into kernel regression, a recurrent
decoder or multi-head attention. The call has two halves, `prepare` for what depends on the keys
alone, done once for a memory that is asked many times, and `compare` for the rest:

    score(query, key) = score.compare(query, score.prepare(key))
"""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn


@runtime_checkable
class Score(Protocol):
    """What attention asks of a score."""

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S P"]:
        """What of the score depends on the keys alone."""
        ...

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S P"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every prepared key."""
        ...

    def __call__(
        self, query: Float[Tensor, "... T Q"], key: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every key."""
        ...


class Dot(nn.Module):
    r"""a(q, k) = qᵀk. Queries and keys are of one width."""

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S K"]:
        """The keys as they are."""
        return key

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The plain product."""
        return query @ prepared.transpose(-2, -1)

    def forward(
        self, query: Float[Tensor, "... T K"], key: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every key."""
        return self.compare(query, self.prepare(key))


class ScaledDot(nn.Module):
    r"""a(q, k) = qᵀk / √K: the variance of a score does not grow with the width.

    Vaswani et al. 2017, eq. 1. This is the score that the fused kernel computes.
    """

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S K"]:
        """The keys as they are: the fused kernel divides by itself."""
        return key

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The product over √K."""
        return (query @ prepared.transpose(-2, -1)) / math.sqrt(query.shape[-1])

    def forward(
        self, query: Float[Tensor, "... T K"], key: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every key."""
        return self.compare(query, self.prepare(key))


class Additive(nn.Module):
    r"""a(q, k) = wᵀ tanh(W_q q + W_k k), for queries and keys of any two widths.

    Bahdanau et al. 2015, appendix A.1.2. W_k k does not depend on the query: `prepare` computes
    it once for a memory, not at every step. No biases, as in the paper.
    """

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden))
        nn.init.uniform_(self.weight, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S F"]:
        """W_k k."""
        return self.key(key)

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S F"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every prepared key."""
        both = self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., T, S, F)
        return both.tanh() @ self.weight

    def forward(
        self, query: Float[Tensor, "... T Q"], key: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every key."""
        return self.compare(query, self.prepare(key))


SCORES = ("dot", "scaled_dot", "additive")


def score_named(name: str, width: int) -> Dot | ScaledDot | Additive:
    """The score of that name for queries and keys of one width."""
    if name == "additive":
        return Additive(width, width, width)
    if name not in SCORES:
        raise ValueError(f"there is no score {name!r}; there are {', '.join(SCORES)}.")
    return Dot() if name == "dot" else ScaledDot()
