r"""Length and coverage penalties of a hypothesis' score.

Wu et al. 2016, eq. 14: s(Y, X) = log P(Y|X) / lp(Y) + cp(X; Y).
"""

import torch
from jaxtyping import Float
from torch import Tensor


def length_penalty(length: int, alpha: float) -> float:
    r"""Return ((5 + length) / 6)^α; a score is the log-probability divided by it.

    Wu et al. 2016, eq. 14. α = 0 leaves the log-probability unchanged, larger α favours longer
    hypotheses. The length includes eos.
    """
    return ((5.0 + length) / 6.0) ** alpha


def coverage_penalty(weights: Float[Tensor, "T S"], beta: float) -> float:
    r"""Return β Σ_i log min(Σ_t α_ti, 1), which is 0 or less and is added to the score.

    Wu et al. 2016, eq. 14. `weights` are those of one hypothesis: a row for every generated token,
    eos included, a column for every real source position. A position whose weights sum to 1 or
    more costs nothing; one without any attention costs -inf, as in the equation (a softmax never
    gives exactly 0, a window or hard attention may).
    """
    if beta < 0:
        raise ValueError(
            f"got a coverage penalty of {beta}; expected 0 or more: a negative one would reward "
            "source positions that are left out."
        )
    if beta == 0:  # 0 · -inf is NaN
        return 0.0
    attention = weights.double().sum(dim=0)
    return beta * float(torch.clamp(attention, max=1.0).log().sum())
