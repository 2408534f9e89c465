"""The answers of a beam, judged again by what of the source they looked at."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from saccade.decoding.generate import Hypothesis
from saccade.decoding.penalties import coverage_penalty


def rerank_by_coverage(
    found: Sequence[Sequence[Hypothesis]],
    weights: Sequence[Sequence[Float[Tensor, "_ _"]]],
    *,
    beta: float,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    r"""The `n_best` of each sentence by log P / lp + β Σ_i log min(Σ_t α_ti, 1), best first.

    Wu et al. 2016, eq. 14. `weights[b][k]` are those of the answer `found[b][k]`, read again in
    one pass: a row for each of its tokens, the end mark included if it was reached, a column for
    each real place of the source; of several heads or layers, their mean or any one.

    A beam needs to know nothing of it: like the length penalty, coverage judges the hypotheses
    that ended, not the open ones among each other, and re-reading gives the weights of the
    search. Hand in all that the beam found (its `n_best` equal to its `width`: then it does not
    stop early either), and what comes out is what a beam that kept the weights would give.
    """
    if n_best < 1:
        raise ValueError(f"the {n_best} best were asked for; wanted 1 or more.")
    judged = []
    for b, (answers, tables) in enumerate(zip(found, weights, strict=True)):
        again = []
        for answer, table in zip(answers, tables, strict=True):
            tokens = len(answer.ids) + answer.finished
            if table.shape[0] != tokens:
                raise ValueError(
                    f"sentence {b} has an answer of {tokens} tokens and weights of "
                    f"{table.shape[0]} steps; give one row for each token, the end mark included."
                )
            again.append(answer._replace(score=answer.score + coverage_penalty(table, beta)))
        judged.append(sorted(again, key=lambda answer: -answer.score)[:n_best])
    return judged
