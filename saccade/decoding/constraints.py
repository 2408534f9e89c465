"""Repetition constraints: changes of the next-token distribution.

They depend on the tokens of one hypothesis only, so they work the same in every search and do not
depend on the rest of the batch. bos does not count as a generated token.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class RepetitionConstraints(NamedTuple):
    """Constraints against repeated tokens; the defaults change nothing.

    `repetition_penalty` changes the distribution, and log-probabilities are those of the changed
    one. `no_repeat_ngram_size` only removes tokens: the others keep the model's log-probability,
    as with forbidden special tokens.
    """

    repetition_penalty: float = 1.0  # see `repetition_penalty`; 1: none
    no_repeat_ngram_size: int = 0  # no n-gram of this size twice; 0: no constraint


NO_CONSTRAINTS = RepetitionConstraints()


def repetition_penalty(
    logits: Float[Tensor, "R V"], generated: Int[Tensor, "R T"], penalty: float
) -> Float[Tensor, "R V"]:
    r"""Return logits x with those of generated tokens replaced: x / θ if x > 0, else x · θ.

    Keskar et al. 2019, section 4.1, divides x by θ whatever its sign, which would favour a token
    with a negative logit; those are multiplied here, as is common since. θ = 1 changes nothing,
    the paper uses about 1.2. A token is penalised once however often it was generated. The penalty
    applies to logits, not log-probabilities, and depends on where the logits' zero is.
    """
    if not penalty > 0:
        raise ValueError(
            f"got a repetition penalty of {penalty}; expected more than 0: 1 is none, more than 1 "
            "makes generated tokens less probable."
        )
    is_generated = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, generated, True)
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(is_generated, penalised, logits)


def repeated_ngrams(generated: Int[Tensor, "R T"], n: int, vocab_size: int) -> Bool[Tensor, "R V"]:
    """Return a mask of the tokens that would repeat an n-gram of the row.

    Paulus et al. 2017, section 2.5, for n = 3. With n = 1 no token is generated twice. eos is
    never masked: a row that has it is not continued.
    """
    if n < 1:
        raise ValueError(
            f"got n-grams of {n} tokens to block; expected 1 or more, or no_repeat_ngram_size=0 "
            "for no constraint."
        )
    R, T = generated.shape
    repeated = torch.zeros(R, vocab_size, dtype=torch.bool, device=generated.device)
    if n > T:
        return repeated
    ngrams = generated.unfold(1, n, 1)  # (R, T - n + 1, n)
    newest = generated[:, T - n + 1 :]
    same = (ngrams[:, :, :-1] == newest[:, None]).all(dim=-1)
    row, position = same.nonzero(as_tuple=True)
    repeated[row, ngrams[row, position, -1]] = True
    return repeated
