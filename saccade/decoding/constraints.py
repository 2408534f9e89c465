"""What an answer may not do again: rules that change the table of what comes next.

They look at what a hypothesis has written itself, so they work alike in every search, and no
sentence's rules depend on its neighbours. The begin mark is not part of what is written.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class RepetitionConstraints(NamedTuple):
    """Against writing the same again; as it stands here it forbids nothing and costs nothing.

    `repetition` changes the model's distribution, and log-probabilities are then those of the
    changed one. `no_repeat` only takes tokens away: what is left keeps the model's own
    log-probability, as with the marks that are never written.
    """

    repetition_penalty: float = 1.0  # see `repetition_penalty`; 1: none
    no_repeat_ngram_size: int = 0  # no run of so many tokens twice; 0: any may be


NO_CONSTRAINTS = RepetitionConstraints()


def repetition_penalty(
    logits: Float[Tensor, "R V"], generated: Int[Tensor, "R T"], penalty: float
) -> Float[Tensor, "R V"]:
    r"""The logits of tokens written before, x / θ where x > 0 and x · θ where not.

    Keskar et al. 2019, section 4.1, divides x by θ whatever its sign, which would favour a token
    with a negative logit; those are multiplied here, as is usual since. θ = 1 changes nothing,
    the paper uses about 1.2. However often a token was written, it is penalised once. It works
    on logits and not on log-probabilities, and depends on where the logits' zero is.
    """
    if not penalty > 0:
        raise ValueError(
            f"a repetition penalty of {penalty} was asked for; wanted more than 0: 1 is none, "
            "more than 1 makes what was written less likely."
        )
    before = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, generated, True)
    changed = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(before, changed, logits)


def repeated_ngrams(generated: Int[Tensor, "R T"], n: int, vocab_size: int) -> Bool[Tensor, "R V"]:
    """The tokens that would complete a run of n tokens which the row already has.

    Paulus et al. 2017, section 2.5, for n = 3. With n = 1 no token is written twice. The end
    mark can always come: a row that has it is written no further.
    """
    if n < 1:
        raise ValueError(
            f"runs of {n} tokens were to be blocked; wanted 1 or more, or no_repeat=0 for none."
        )
    R, T = generated.shape
    again = torch.zeros(R, vocab_size, dtype=torch.bool, device=generated.device)
    if n > T:
        return again
    runs = generated.unfold(1, n, 1)  # (R, T - n + 1, n)
    newest = generated[:, T - n + 1 :]
    same = (runs[:, :, :-1] == newest[:, None]).all(dim=-1)
    row, place = same.nonzero(as_tuple=True)
    again[row, runs[row, place, -1]] = True
    return again
