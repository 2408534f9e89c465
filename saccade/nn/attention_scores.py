r"""How well a key answers a query: `score(query, key) -> (..., T, S)`.

Every score shares that one call, so that any of them drops into kernel regression, a recurrent
decoder or multi-head attention. The call has two halves, `prepare` for what depends on the keys
alone, done once for a memory that is asked many times, and `compare` for the rest:

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


class _Score(nn.Module, ABC):
    """The two halves, one after the other."""

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S P"]:
        """The keys as they are."""
        return key

    @abstractmethod
    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S P"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every prepared key."""

    def forward(
        self, query: Float[Tensor, "... T Q"], key: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every key."""
        return self.compare(query, self.prepare(key))


class DotScore(_Score):
    r"""a(q, k) = qᵀk. Queries and keys are of one width."""

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The plain product."""
        return query @ prepared.transpose(-2, -1)


class ScaledDotScore(_Score):
    r"""a(q, k) = qᵀk / √K: the variance of a score does not grow with the width.

    Vaswani et al. 2017, eq. 1. This is the score that the fused kernel computes: the kernel
    divides by itself, so the keys are prepared as they are.
    """

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The product over √K."""
        return (query @ prepared.transpose(-2, -1)) / math.sqrt(query.shape[-1])


class CosineScore(_Score):
    r"""a(q, k) = qᵀk / (‖q‖ ‖k‖): only the directions count (Graves et al. 2014, eq. 6).

    Every score lies in [-1, 1], so that no weight is more than e² times another. There is no key
    strength β as in that paper: scale the score where sharper weights are wanted. A vector of
    zeros has score 0 with all.
    """

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S K"]:
        """k / ‖k‖."""
        return _direction(key)

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """The product of the directions."""
        return _direction(query) @ prepared.transpose(-2, -1)


def _direction(vectors: Float[Tensor, "... N K"]) -> Float[Tensor, "... N K"]:
    # the framework's own 1e-12 is zero in half precision, and 0 / 0 is NaN
    return F.normalize(vectors, dim=-1, eps=1e-6)


class GaussianScore(_Score):
    r"""a(q, k) = -‖q - k‖² / (2σ²): the softmax of it is Nadaraya-Watson kernel regression.

    Nadaraya 1964, Watson 1964, with the Gaussian kernel. With `learned`, σ is a weight, kept as
    log σ, so that no step of training can make it zero or negative. Since ‖q - k‖² is
    ‖q‖² - 2qᵀk + ‖k‖² and the softmax does not see ‖q‖², this is the dot product over σ² with a
    penalty for long keys: regression becomes attention.
    """

    def __init__(self, sigma: float = 1.0, learned: bool = False):
        super().__init__()
        if not sigma > 0:
            raise ValueError(f"a Gaussian needs a width above zero, not {sigma}; try 1.0.")
        self.fixed = sigma
        self.log_sigma = nn.Parameter(torch.tensor(math.log(sigma))) if learned else None

    @property
    def sigma(self) -> Tensor | float:
        """The width of the kernel."""
        return self.fixed if self.log_sigma is None else self.log_sigma.exp()

    def compare(
        self, query: Float[Tensor, "... T K"], prepared: Float[Tensor, "... S K"]
    ) -> Float[Tensor, "... T S"]:
        """From the differences themselves: ‖q‖² - 2qᵀk + ‖k‖² would lose what is near."""
        exact = torch.promote_types(query.dtype, torch.float32)  # it knows no shorter format
        distances = torch.cdist(
            query.to(exact), prepared.to(exact), compute_mode="donot_use_mm_for_euclid_dist"
        )
        return -0.5 * (distances.to(query.dtype) / self.sigma).square()


class GeneralScore(_Score):
    r"""a(q, k) = qᵀ W k, for queries and keys of any two widths (Luong et al. 2015, eq. 8).

    `prepare` computes W k once for a memory. W starts with variance 1/(QK), so that the scores
    of inputs of variance 1 have variance 1, as the scaled dot's.
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        self.key = nn.Linear(key_width, query_width, bias=False)
        nn.init.normal_(self.key.weight, std=(query_width * key_width) ** -0.5)

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S Q"]:
        """W k."""
        return self.key(key)

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S Q"]
    ) -> Float[Tensor, "... T S"]:
        """The product of the queries with W k."""
        return query @ prepared.transpose(-2, -1)


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
        """W_k k."""
        return self.key(key)

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S F"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every prepared key."""
        both = self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., T, S, F)
        return both.tanh() @ self.weight


class ConcatScore(_Score):
    r"""a(q, k) = wᵀ tanh(W [q; k]), for queries and keys of any two widths.

    Luong et al. 2015, eq. 8. Cut W = [W_q W_k] where q ends and W [q; k] = W_q q + W_k k: this is
    Bahdanau's `Additive` with its two matrices written as one. What differs is only where W
    starts, since the one matrix is Q + K wide. So no pair is ever put together: `prepare`
    computes W_k k once.
    """

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.query_width = query_width
        self.both = nn.Linear(query_width + key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden))
        nn.init.uniform_(self.weight, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    def prepare(self, key: Float[Tensor, "... S K"]) -> Float[Tensor, "... S F"]:
        """W_k k."""
        return F.linear(key, self.both.weight[:, self.query_width :])

    def compare(
        self, query: Float[Tensor, "... T Q"], prepared: Float[Tensor, "... S F"]
    ) -> Float[Tensor, "... T S"]:
        """The score of every query with every prepared key."""
        asked = F.linear(query, self.both.weight[:, : self.query_width])
        return (asked.unsqueeze(-2) + prepared.unsqueeze(-3)).tanh() @ self.weight


# those that need queries and keys of one width, and those that do not
_SAME_WIDTH = ("dot", "scaled_dot", "cosine", "gaussian")
ATTENTION_SCORES = ("dot", "scaled_dot", "additive", "general", "concat", "cosine", "gaussian")


def make_score(
    name: str, query_width: int, key_width: int | None = None, hidden: int | None = None
) -> _Score:
    r"""The score of that name; keys are as wide as queries if nothing is said.

    `hidden` is the inner width of the additive and the concat score (the queries' if not said).
    The Gaussian's σ is learned and starts at K^¼, where its product qᵀk / σ² is the scaled dot's.
    """
    key_width = query_width if key_width is None else key_width
    if name not in ATTENTION_SCORES:
        raise ValueError(f"there is no score {name!r}; there are {', '.join(ATTENTION_SCORES)}.")
    if name in _SAME_WIDTH and query_width != key_width:
        raise ValueError(
            f"the score {name!r} compares queries and keys of one width, not {query_width} and "
            f"{key_width}; use general, additive or concat, or bring them to one width first."
        )
    hidden = query_width if hidden is None else hidden
    match name:
        case "additive":
            return AdditiveScore(query_width, key_width, hidden)
        case "concat":
            return ConcatScore(query_width, key_width, hidden)
        case "general":
            return GeneralScore(query_width, key_width)
        case "gaussian":
            return GaussianScore(query_width**0.25, learned=True)
        case "cosine":
            return CosineScore()
        case "dot":
            return DotScore()
    return ScaledDotScore()
