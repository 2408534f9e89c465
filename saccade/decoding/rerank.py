"""Reranking of beam search hypotheses by their coverage of the source."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from saccade.decoding.penalties import coverage_penalty
from saccade.decoding.token_loop import Hypothesis


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
