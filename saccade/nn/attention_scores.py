r"""Attention scores: `score(query, key) -> (..., T, S)`.

All scores have the same call, so that any of them works in kernel regression, a recurrent decoder
and multi-head attention. It has two halves: `prepare`, which depends on the keys alone and is
computed once for a memory, and `compare` for the rest:

    score(query, key) = score.compare(query, score.prepare(key))
"""

import math
from abc import ABC, abstractmethod
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


@runtime_checkable
class Score(Protocol):
    """The interface of an attention score."""

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S P"]:
        """Compute the part of the score that depends on the keys alone."""
        ...

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S P"]
    ) -> Float[Tensor, "... T S"]:
        """Return the score of every query with every prepared key."""
        ...

    def __call__(
        self, query: Float[Tensor, "... T Q"], key: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """Return the score of every query with every key."""
        ...


class _Score(nn.Module, ABC):
    """Base class: `forward` is `prepare`, then `compare`."""

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S P"]:
        """Return the keys unchanged."""
        return key

    @abstractmethod
    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S P"]
    ) -> Float[Tensor, "... T S"]:
        """Return the score of every query with every prepared key."""

    def forward(
        self, query: Float[Tensor, "... T Q"], key: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """Return the score of every query with every key."""
        return self.compare(query, self.prepare(key))


class DotScore(_Score):
    r"""a(q, k) = qᵀk, for queries and keys of the same width."""

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """Return q kᵀ."""
        return query @ prepared.transpose(-2, -1)


class ScaledDotScore(_Score):
    r"""a(q, k) = qᵀk / √K: the variance of a score does not grow with the width.

    Vaswani et al. 2017, eq. 1. This is the score of the fused kernel, which does the division, so
    `prepare` leaves the keys unchanged.
    """

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """Return q kᵀ / √K."""
        return (query @ prepared.transpose(-2, -1)) / math.sqrt(query.shape[-1])


class CosineScore(_Score):
    r"""a(q, k) = qᵀk / (‖q‖ ‖k‖): only the directions count (Graves et al. 2014, eq. 6).

    Every score lies in [-1, 1], so that no weight is more than e² times another. There is no key
    strength β as in that paper: scale the score for sharper weights. A vector of zeros has score 0
    with every key.
    """

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S K"]:
        """Return k / ‖k‖."""
        return _unit_vectors(key)

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """Return the product of the unit vectors."""
        return _unit_vectors(query) @ prepared.transpose(-2, -1)


def _unit_vectors(vectors: Float[Tensor, "... N K"]) -> Float[Tensor, "... N K"]:
    # torch's default of 1e-12 is zero in half precision, and 0 / 0 is NaN
    return F.normalize(vectors, dim=-1, eps=1e-6)


class GaussianScore(_Score):
    r"""a(q, k) = -‖q - k‖² / (2σ²): the softmax of it is Nadaraya-Watson kernel regression.

    Nadaraya 1964, Watson 1964, with the Gaussian kernel. With `learned`, σ is a weight, kept as
    log σ, so that no training step can make it zero or negative. Since ‖q - k‖² is
    ‖q‖² - 2qᵀk + ‖k‖² and the softmax is invariant to ‖q‖², this is the dot product over σ² with a
    penalty for long keys.
    """

    def __init__(self, sigma: float = 1.0, learned: bool = False):
        super().__init__()
        if not sigma > 0:
            raise ValueError(f"got sigma {sigma}; expected a number above 0; try 1.0.")
        self.fixed = sigma
        self.log_sigma = nn.Parameter(torch.tensor(math.log(sigma))) if learned else None

    @property
    def sigma(self) -> Tensor | float:
        """The bandwidth of the kernel."""
        return self.fixed if self.log_sigma is None else self.log_sigma.exp()

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """Use the differences: ‖q‖² - 2qᵀk + ‖k‖² would cancel for near pairs."""
        exact = torch.promote_types(query.dtype, torch.float32)  # cdist supports no half precision
        distances = torch.cdist(
            query.to(exact), prepared.to(exact), compute_mode="donot_use_mm_for_euclid_dist"
        )
        return -0.5 * (distances.to(query.dtype) / self.sigma).square()


class GeneralScore(_Score):
    r"""a(q, k) = qᵀ W k, for queries and keys of any two widths (Luong et al. 2015, eq. 8).

    `prepare` computes W k once for a memory. W is initialised with variance 1/(QK), so that the
    scores of inputs of variance 1 have variance 1, as with the scaled dot product.
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        self.key = nn.Linear(key_width, query_width, bias=False)
        nn.init.normal_(self.key.weight, std=(query_width * key_width) ** -0.5)

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S Q"]:
        """Return W k."""
        return self.key(key)

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S Q"]
    ) -> Float[Tensor, "... T S"]:
        """Return qᵀ (W k)."""
        return query @ prepared.transpose(-2, -1)


class ScaledGeneralScore(GeneralScore):
    r"""a(q, k) = qᵀ W k / √Q: the general score, scaled like the dot product.

    W is initialised with variance 1/K. Scores of inputs of variance 1 have variance 1 as those of
    `GeneralScore`, but its W has entries of about 1/√(QK): with an optimizer whose steps do not
    depend on the size of a weight, such as Adam, a few hundred of them are much larger than that,
    and the softmax saturates at one key before the model has learned which.
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__(query_width, key_width)
        nn.init.normal_(self.key.weight, std=key_width**-0.5)

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S Q"]
    ) -> Float[Tensor, "... T S"]:
        """Return qᵀ (W k) / √Q."""
        return super().compare(query, prepared) / math.sqrt(query.shape[-1])


class AdditiveScore(_Score):
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
        """Return W_k k."""
        return self.key(key)

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S F"]
    ) -> Float[Tensor, "... T S"]:
        """Return the score of every query with every prepared key."""
        both = self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., T, S, F)
        return both.tanh() @ self.weight


class ConcatScore(_Score):
    r"""a(q, k) = wᵀ tanh(W [q; k]), for queries and keys of any two widths.

    Luong et al. 2015, eq. 8. With W = [W_q W_k], W [q; k] = W_q q + W_k k: this is Bahdanau's
    `AdditiveScore` with its two matrices in one. Only the initialisation differs, since the one
    matrix is Q + K wide. So no pair is ever concatenated: `prepare` computes W_k k once.
    """

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.query_width = query_width
        self.both = nn.Linear(query_width + key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden))
        nn.init.uniform_(self.weight, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S F"]:
        """Return W_k k."""
        return F.linear(key, self.both.weight[:, self.query_width :])

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S F"]
    ) -> Float[Tensor, "... T S"]:
        """Return the score of every query with every prepared key."""
        projected = F.linear(query, self.both.weight[:, : self.query_width])
        return (projected.unsqueeze(-2) + prepared.unsqueeze(-3)).tanh() @ self.weight


# scores that need queries and keys of the same width
SAME_WIDTH_SCORES = ("dot", "scaled_dot", "cosine", "gaussian")
ATTENTION_SCORES = (
    "dot",
    "scaled_dot",
    "additive",
    "general",
    "scaled_general",
    "concat",
    "cosine",
    "gaussian",
)


def make_score(
    name: str, query_width: int, key_width: int | None = None, hidden: int | None = None
) -> _Score:
    r"""Return a new score by name.

    The σ of the Gaussian is learned and initialised at K^¼, where its product qᵀk / σ² is the
    scaled dot product.

    Args:
        name: one of `ATTENTION_SCORES`.
        query_width: of the queries.
        key_width: of the keys; that of the queries by default.
        hidden: inner width of the additive and the concat score; that of the queries by default.
    """
    key_width = query_width if key_width is None else key_width
    if name not in ATTENTION_SCORES:
        raise ValueError(f"got score {name!r}; expected one of {', '.join(ATTENTION_SCORES)}.")
    if name in SAME_WIDTH_SCORES and query_width != key_width:
        raise ValueError(
            f"got queries of width {query_width} and keys of {key_width} for the score {name!r}; "
            "expected the same width; try general, additive or concat, or project them first."
        )
    hidden = query_width if hidden is None else hidden
    match name:
        case "additive":
            return AdditiveScore(query_width, key_width, hidden)
        case "concat":
            return ConcatScore(query_width, key_width, hidden)
        case "general":
            return GeneralScore(query_width, key_width)
        case "scaled_general":
            return ScaledGeneralScore(query_width, key_width)
        case "gaussian":
            return GaussianScore(query_width**0.25, learned=True)
        case "cosine":
            return CosineScore()
        case "dot":
            return DotScore()
    return ScaledDotScore()
