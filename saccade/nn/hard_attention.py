r"""Hard attention: one key for each query, sampled in training (Xu et al. 2015, section 4.1).

    s_t ~ Categorical(α_t),   c_t = v_{s_t}

A sample has no gradient, so the gradient has to be estimated. Two ways:

**Straight-through Gumbel-softmax** (Jang et al. 2017, section 2.2). With noise g_j = -log e_j,
e_j ~ Exp(1), the key with the largest score_j + g_j is a sample from the softmax of the scores. The
forward pass uses that key, the backward pass softmax((score + g) / τ). Biased, but of low variance,
and it works with any loss.

**Score function** (REINFORCE, Williams 1992). ∇ E[r] = E[(r - b) ∇ log α_s] for any reward r:
unbiased for every baseline b that does not depend on the sample itself. Here b is the mean reward
of the other samples of the query (Kool et al. 2019); Xu et al. have a running mean, which is
further state. It needs the reward of each sample, so it is a term of a loss (`path_loss`) and not a
layer; `models.attention_paths` samples the paths of a decoder.
"""

from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from saccade.nn.attention_scores import Score
from saccade.nn.functional import Attention, allowed_keys, attention_weights, repeat_kv
from saccade.nn.masks import Mask
from saccade.seeding import thread_generator
from saccade.types.shapes import MaySee


def argmax_weights(
    scores: Float[Tensor, "B H T S"], may_see: MaySee | None = None
) -> Float[Tensor, "B H T S"]:
    """Return 1 at the highest score among the allowed keys (one of them in a tie), 0 elsewhere.

    A query that may attend to no key gets zeros.
    """
    if may_see is not None:
        scores = scores.masked_fill(~may_see, torch.finfo(scores.dtype).min)
    chosen = one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
    return chosen if may_see is None else chosen * may_see


def straight_through_gumbel(
    scores: Float[Tensor, "B H T S"], temperature: float = 1.0, may_see: MaySee | None = None
) -> Float[Tensor, "B H T S"]:
    r"""Return `argmax_weights(scores + g)`, with the gradient of softmax((scores + g) / τ).

    A lower τ has less bias and more variance.
    """
    noisy = scores - torch.empty_like(scores).exponential_(generator=thread_generator()).log()
    soft = attention_weights(noisy / temperature, may_see)
    return argmax_weights(noisy.detach(), may_see) + (soft - soft.detach())


class HardAttention(Attention):
    """One value for each query: a straight-through sample in training, the argmax in evaluation.

    `weights` and `reference` are always those of evaluation: a further sample for
    `capture_attention` would change the samples that training draws next. In evaluation the scores
    get no gradient.
    """

    def __init__(self, score: Score, temperature: float = 1.0):
        super().__init__(score)
        if not temperature > 0:
            raise ValueError(f"got a temperature of {temperature}; expected a number above 0.")
        self.temperature = temperature

    def forward(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B H S P"],
        values: Float[Tensor, "B H S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """Return the value of one key for each query."""
        if not self.training:
            return self.reference(query, keys, values, mask)
        may_see = allowed_keys(query, keys, mask)
        scores = self.score.compare(query, keys)
        return straight_through_gumbel(scores, self.temperature, may_see) @ values

    def weights(
        self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S P"], mask: Mask
    ) -> Float[Tensor, "B H T S"]:
        """Return the one-hot table of weights."""
        may_see = allowed_keys(query, keys, mask)
        return argmax_weights(self.score.compare(query, keys), may_see)


class SampledAttention(Attention):
    """One sampled value for each query, and the log-probability of its key as a last column.

    For the score function: the sample itself has no gradient. A query that may attend to no key
    gets zeros.
    """

    def forward(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B G S P"],
        values: Float[Tensor, "B G S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T E"]:
        """Return [v_s; log α_s] of a sampled key s."""
        may_see = allowed_keys(query, keys, mask)
        scores = self.score.compare(query, repeat_kv(keys, query))
        if may_see is not None:
            scores = scores.masked_fill(~may_see, torch.finfo(scores.dtype).min)
        log_probabilities = scores.log_softmax(dim=-1)
        chosen = sample_keys(log_probabilities, 1)  # (B, H, T, 1)
        values = repeat_kv(values, query)
        rows = chosen.expand(-1, -1, -1, values.shape[-1])
        result = torch.cat(
            [values.gather(2, rows), log_probabilities.gather(-1, chosen).to(values.dtype)], dim=-1
        )
        return result if may_see is None else result * may_see.any(dim=-1, keepdim=True)


# --- the score function ---------------------------------------------------------------------------


def sample_keys(log_probabilities: Float[Tensor, "*B S"], count: int) -> Int[Tensor, "*B {count}"]:
    """Sample `count` keys for each query, with replacement."""
    rows = log_probabilities.detach().exp().flatten(0, -2)
    keys = torch.multinomial(rows, count, replacement=True, generator=thread_generator())
    return keys.view(*log_probabilities.shape[:-1], count)


def leave_one_out_baseline(rewards: Float[Tensor, "*B N"]) -> Float[Tensor, "*B N"]:
    r"""b_n = Σ_{m ≠ n} r_m / (N - 1): the mean of the other samples."""
    N = rewards.shape[-1]
    if N < 2:
        raise ValueError(f"got {N} sample for a baseline; expected at least 2; try baseline=False.")
    return (rewards.sum(dim=-1, keepdim=True) - rewards) / (N - 1)


def reinforce_loss(
    log_probabilities: Float[Tensor, "*B N"],
    rewards: Float[Tensor, "*B N"],
    baseline: bool = True,
) -> Float[Tensor, "*B"]:
    r"""-1/N Σ_n (r_n - b_n) log α_{s_n}, whose expected gradient is that of -E[r] through α.

    `log_probabilities` are those of the N samples. The rewards are constants here. If they have a
    gradient of their own (a log-likelihood given the value of the key has one), add their mean to
    the loss.

    The baseline reduces the variance where rewards are similar but not near 0, as log-likelihoods
    are. Where their mean is 0 and N is small it only adds noise; `gradient_moments` measures it.
    """
    advantage = rewards.detach()
    if baseline:
        advantage = advantage - leave_one_out_baseline(advantage)
    return -(advantage * log_probabilities).mean(dim=-1)


def path_loss(
    losses: Float[Tensor, "B N T"], log_probabilities: Float[Tensor, "B N T"], later_steps: bool
) -> Float[Tensor, ""]:
    r"""Return Σ_t `reinforce_loss` of N paths of T steps, with the reward r_t = -Σ_{u ≥ t} loss_u.

    The losses of earlier steps do not depend on the key of step t, so that leaving them out of its
    reward keeps the estimate unbiased and lowers its variance. Without `later_steps` only the loss
    of its own step does, and r_t = -loss_t. Padded steps have loss 0. The value is 0, so that the
    result can be added to a loss; only the gradient matters.
    """
    rewards = -losses.detach()
    if later_steps:
        rewards = rewards.flip(-1).cumsum(-1).flip(-1)
    steps = reinforce_loss(log_probabilities.transpose(1, 2), rewards.transpose(1, 2))
    return steps.sum() - steps.sum().detach()


class GradientMoments(NamedTuple):
    """Mean and variance of a gradient estimator."""

    mean: Float[Tensor, " S"]
    variance: float  # E‖gradient - mean‖², summed over all coordinates


def gradient_moments(
    scores: Float[Tensor, " S"],
    rewards: Float[Tensor, " S"],
    samples: int,
    baseline: bool = True,
) -> GradientMoments:
    """Return the exact moments of the gradient of `reinforce_loss` by the scores of one query.

    `rewards` has the reward of every key. All S to the power of `samples` outcomes are enumerated
    with their probabilities, so it is for small cases.
    """
    outcomes = torch.tensor(list(product(range(len(scores)), repeat=samples)), device=scores.device)
    with torch.enable_grad():
        leaves = scores.detach().expand(len(outcomes), -1).clone().requires_grad_()
        table = leaves.log_softmax(dim=-1)
        loss = reinforce_loss(table.gather(-1, outcomes), rewards[outcomes], baseline)
        (gradients,) = torch.autograd.grad(loss.sum(), leaves)
    probabilities = scores.detach().softmax(dim=-1)[outcomes].prod(dim=-1, keepdim=True)
    mean = (probabilities * gradients).sum(dim=0)
    return GradientMoments(mean, float((probabilities * (gradients - mean).square()).sum()))
