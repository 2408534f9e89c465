r"""What is taken off, or divided out of, the score of a hypothesis.

Wu et al. 2016, eq. 14: s(Y, X) = log P(Y|X) / lp(Y) + cp(X; Y), with a penalty of the length and
one of what was not looked at.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def length_penalty(length: int, alpha: float) -> float:
    r"""((5 + length) / 6)^α; a score is the log-probability divided by it.

    Wu et al. 2016, eq. 14. α = 0 leaves the log-probability as it is, larger α favours longer
    answers. The length counts the end mark.
    """
    return ((5.0 + length) / 6.0) ** alpha


def coverage_penalty(weights: Float[Tensor, "T S"], beta: float) -> float:
    r"""β Σ_i log min(Σ_t α_ti, 1), 0 or less; a score has it added.

    Wu et al. 2016, eq. 14. `weights` are one answer's: a row for every token written, the end
    mark included, a column for every real place of the source. A place that got a whole look in
    all costs nothing, nor does more; one that got none at all costs everything, -inf, as the
    equation has it (a softmax never gives none, a window or a hard choice may).
    """
    if beta < 0:
        raise ValueError(
            f"a coverage penalty of {beta} was asked for; wanted 0 or more: less would reward "
            "what was left out."
        )
    if beta == 0:  # 0 · -inf is not a number
        return 0.0
    looked = weights.double().sum(dim=0)
    return beta * float(torch.clamp(looked, max=1.0).log().sum())
