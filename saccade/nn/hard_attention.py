r"""Hard attention: one key per query, drawn in training (Xu et al. 2015, section 4.1).

    s_t ~ Categorical(α_t),   c_t = v_{s_t}

A draw has no slope, so the gradient has to be estimated. Two ways:

**Straight through** (Jang et al. 2017, section 2.2). With noise g_j = -log e_j, e_j ~ Exp(1), the
key with the largest score_j + g_j is a draw from the softmax of the scores. Forwards it is that one
key, backwards as if it had been softmax((score + g) / τ). Biased, but of little variance, and it
goes through any loss.

**The score function** (Williams 1992). ∇ E[r] = E[(r - b) ∇ log α_s], whatever r is: unbiased for
every b that does not depend on the draw itself. Here b is the mean reward of the same query's other
draws (Kool et al. 2019); Xu et al. have a running mean, which has to be remembered. It needs the
reward of each draw, so it is a term of a loss and not a way to attend.
"""

from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from saccade.nn.attention import Attention, attention_weights
from saccade.nn.attention_scores import Score
from saccade.nn.masks import Mask
from saccade.seeding import thread_generator
from saccade.types.shapes import MaySee


def argmax_weights(
    scores: Float[Tensor, "B H T S"], may_see: MaySee | None = None
) -> Float[Tensor, "B H T S"]:
    """1 at the highest score that may be seen (one of them, if equal), 0 elsewhere.

    A query that may see nothing gets all zeros.
    """
    if may_see is not None:
        scores = scores.masked_fill(~may_see, torch.finfo(scores.dtype).min)
    chosen = one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
    return chosen if may_see is None else chosen * may_see


def straight_through_gumbel(
    scores: Float[Tensor, "B H T S"], temperature: float = 1.0, may_see: MaySee | None = None
) -> Float[Tensor, "B H T S"]:
    r"""Forwards `best(scores + g)`, backwards softmax((scores + g) / τ).

    A low τ makes the slope that of a sharper choice: nearer to the truth, and of more variance.
    """
    noisy = scores - torch.empty_like(scores).exponential_(generator=thread_generator()).log()
    soft = attention_weights(noisy / temperature, may_see)
    return argmax_weights(noisy.detach(), may_see) + (soft - soft.detach())


class HardAttention(Attention):
    """One value per query: drawn, straight through, in training; of the best key in evaluation.

    `weights` and `clear` are those of evaluation, always: to draw once more for who is watching
    would change what the training draws next. No slope comes to the scores in evaluation, as there
    is none.
    """

    def __init__(self, score: Score, temperature: float = 1.0):
        super().__init__(score)
        if not temperature > 0:
            raise ValueError(f"a temperature of {temperature} was asked for; it must be above 0.")
        self.temperature = temperature

    def forward(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B H S P"],
        values: Float[Tensor, "B H S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """The value of one key."""
        if not self.training:
            return self.reference(query, keys, values, mask)
        may_see = mask.may_see(query.shape[-2], keys.shape[-2], query.device)
        scores = self.score.compare(query, keys)
        return straight_through_gumbel(scores, self.temperature, may_see) @ values

    def weights(
        self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S P"], mask: Mask
    ) -> Float[Tensor, "B H T S"]:
        """The table of zeros with a one for each query."""
        may_see = mask.may_see(query.shape[-2], keys.shape[-2], query.device)
        return argmax_weights(self.score.compare(query, keys), may_see)


# --- the score function ---------------------------------------------------------------------------


def sample_keys(log_probabilities: Float[Tensor, "*B S"], count: int) -> Int[Tensor, "*B {count}"]:
    """So many keys for each query, each drawn from all."""
    rows = log_probabilities.detach().exp().flatten(0, -2)
    keys = torch.multinomial(rows, count, replacement=True, generator=thread_generator())
    return keys.view(*log_probabilities.shape[:-1], count)


def leave_one_out_baseline(rewards: Float[Tensor, "*B N"]) -> Float[Tensor, "*B N"]:
    r"""b_n = Σ_{m ≠ n} r_m / (N - 1): the mean of the others, which draw n has no part in."""
    N = rewards.shape[-1]
    if N < 2:
        raise ValueError(
            f"{N} draw has no others to be compared with; draw at least 2, or take no baseline."
        )
    return (rewards.sum(dim=-1, keepdim=True) - rewards) / (N - 1)


def reinforce_loss(
    log_probabilities: Float[Tensor, "*B S"],
    keys: Int[Tensor, "*B N"],
    rewards: Float[Tensor, "*B N"],
    baseline: bool = True,
) -> Float[Tensor, "*B"]:
    r"""-1/N Σ_n (r_n - b_n) log α_{s_n}: its slope is, on average, that of -E[r] through α.

    The rewards are taken as numbers. If they have a slope of their own (a log-likelihood of what
    was read at the key has), their mean belongs into the loss beside this.

    The baseline pays where rewards are alike but not near 0, as log-likelihoods are. Where their
    mean is 0 and N is small it only adds the others' noise: `gradient_spread` tells.
    """
    advantage = rewards.detach()
    if baseline:
        advantage = advantage - leave_one_out_baseline(advantage)
    return -(advantage * log_probabilities.gather(-1, keys)).mean(dim=-1)


class GradientMoments(NamedTuple):
    """The slope of a loss by an estimator: on average, and how far from it a single one is."""

    mean: Float[Tensor, " S"]
    variance: float  # E‖slope - mean‖², all directions together


def gradient_moments(
    scores: Float[Tensor, " S"],
    rewards: Float[Tensor, " S"],
    samples: int,
    baseline: bool = True,
) -> GradientMoments:
    """What `score_function_loss` gives for the scores of one query, over all that can be drawn.

    `rewards` has the reward of every key. All S to the power of `draws` outcomes are gone through,
    each with its chance, so nothing here is random: for small cases.
    """
    every = torch.tensor(list(product(range(len(scores)), repeat=samples)), device=scores.device)
    with torch.enable_grad():
        leaves = scores.detach().expand(len(every), -1).clone().requires_grad_()
        table = leaves.log_softmax(dim=-1)
        loss = reinforce_loss(table, every, rewards[every], baseline)
        (slopes,) = torch.autograd.grad(loss.sum(), leaves)
    chances = scores.detach().softmax(dim=-1)[every].prod(dim=-1, keepdim=True)
    mean = (chances * slopes).sum(dim=0)
    return GradientMoments(mean, float((chances * (slopes - mean).square()).sum()))
