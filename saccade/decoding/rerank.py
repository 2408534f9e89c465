"""Reranking of beam search hypotheses by their coverage of the source."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.decoding.greedy import Hypothesis


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


def rerank_by_coverage(
    found: Sequence[Sequence[Hypothesis]],
    weights: Sequence[Sequence[Float[Tensor, "_ _"]]],
    *,
    beta: float,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    r"""Return the `n_best` of each example by log P / lp + β Σ_i log min(Σ_t α_ti, 1), best first.

    Wu et al. 2016, eq. 14. `weights[b][k]` are those of the hypothesis `found[b][k]`, computed in
    one pass over it: a row for each of its tokens, eos included if it was generated, a column for
    each real source position; of several heads or layers, their mean or any one.

    The beam search itself does not need the weights: like the length penalty, coverage ranks ended
    hypotheses, and a second pass gives the same weights as the search. Pass all hypotheses of the
    beam (`n_best` equal to `width`, which also disables early stopping); the result is that of a
    beam search that had recorded the weights.
    """
    if n_best < 1:
        raise ValueError(f"got n_best {n_best}; expected 1 or more.")
    reranked = []
    for b, (hypotheses, tables) in enumerate(zip(found, weights, strict=True)):
        rescored = []
        for hypothesis, table in zip(hypotheses, tables, strict=True):
            tokens = len(hypothesis.ids) + hypothesis.finished
            if table.shape[0] != tokens:
                raise ValueError(
                    f"got attention weights of {table.shape[0]} steps for a hypothesis of {tokens} "
                    f"tokens (example {b}); expected one row for each token, eos included."
                )
            score = hypothesis.score + coverage_penalty(table, beta)
            rescored.append(hypothesis._replace(score=score))
        reranked.append(sorted(rescored, key=lambda hypothesis: -hypothesis.score)[:n_best])
    return reranked
