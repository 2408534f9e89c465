r"""What training makes small: how far an answer is from the truth, summed over examples.

Sums, not means, so that pieces of a batch add up to the whole; every example may have a weight w.
Classes of two are ±1 for the losses of a margin m = y·f (zero–one, hinge, log, exponential) and
0 or 1 where a probability is learned (`binary_cross_entropy`).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

MAX_EXP_MARGIN = (
    50.0  # from this negative margin on the exponential loss goes on in a straight line
)

PerExample = Float[Tensor, "*N"]


# --- of numbers -----------------------------------------------------------------------------------


def absolute_error(
    predicted: PerExample, target: PerExample, weights: PerExample | None = None
) -> Float[Tensor, ""]:
    r"""Σ_n w_n |ŷ_n - y_n|: made small by the median. The subgradient at 0 is 0."""
    return _summed((predicted - target).abs(), weights)


def squared_error(
    predicted: PerExample, target: PerExample, weights: PerExample | None = None
) -> Float[Tensor, ""]:
    r"""Σ_n w_n (ŷ_n - y_n)²: made small by the mean. Others' version may have a ½ before it."""
    return _summed((predicted - target).square(), weights)


def huber(
    predicted: PerExample, target: PerExample, weights: PerExample | None = None, delta: float = 1.0
) -> Float[Tensor, ""]:
    r"""Σ_n w_n ½r² where |r| ≤ δ, else δ(|r| - ½δ), with r = ŷ - y (Huber 1964)."""
    return _summed(F.huber_loss(predicted, target, reduction="none", delta=delta), weights)


# --- of a margin ----------------------------------------------------------------------------------


def zero_one(margin: PerExample, weights: PerExample | None = None) -> Float[Tensor, ""]:
    r"""Σ_n w_n [m_n ≤ 0]: how many are wrong. It has no gradient: the others stand in for it."""
    return _summed((margin <= 0).to(margin.dtype), weights)


def hinge(margin: PerExample, weights: PerExample | None = None) -> Float[Tensor, ""]:
    r"""Σ_n w_n max(0, 1 - m_n) (Cortes and Vapnik 1995); the subgradient at m = 1 is 0."""
    return _summed((1 - margin).relu(), weights)


def logistic(margin: PerExample, weights: PerExample | None = None) -> Float[Tensor, ""]:
    r"""Σ_n w_n log(1 + exp(-m_n)): -log of the chance that a logistic model gives the truth."""
    return _summed(-F.logsigmoid(margin), weights)


def exponential(margin: PerExample, weights: PerExample | None = None) -> Float[Tensor, ""]:
    r"""Σ_n w_n exp(-m_n), which boosting makes small (Freund and Schapire 1997).

    Beyond m = -50 it goes on as a straight line with the slope that it has there: exp(88) is more
    than a float32 holds, and an infinite loss has no gradient.
    """
    held = (-margin).clamp(max=MAX_EXP_MARGIN)
    return _summed(held.exp() * (1 + (-margin - held)), weights)


MARGIN_LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "exponential": exponential,
    "hinge": hinge,
    "logistic": logistic,
    "zero_one": zero_one,
}


# --- of classes -----------------------------------------------------------------------------------


def cross_entropy(
    logits: Float[Tensor, "N V"],
    target: Int[Tensor, " N"],
    label_smoothing: float = 0.0,
    weights: Float[Tensor, " N"] | None = None,
) -> Float[Tensor, ""]:
    r"""Σ_n w_n · -Σ_v q_v log softmax(logits_n)_v with q = (1 - ε) onehot(target) + ε/V.

    Label smoothing as in Szegedy et al. 2016: the mass ε is spread over all V entries, the right
    one included. Padding never comes here: the caller hands in the real positions only.
    """
    if weights is None:
        return F.cross_entropy(logits, target, label_smoothing=label_smoothing, reduction="sum")
    each = F.cross_entropy(logits, target, label_smoothing=label_smoothing, reduction="none")
    return (each * weights).sum()


def binary_cross_entropy(
    logits: PerExample,
    target: PerExample,
    label_smoothing: float = 0.0,
    weights: PerExample | None = None,
) -> Float[Tensor, ""]:
    r"""Σ_n w_n · -(q_n log σ(f_n) + (1 - q_n) log σ(-f_n)) with q = (1 - ε) y + ε/2, y 0 or 1.

    The `cross_entropy` of the logits (0, f).
    """
    wanted = target * (1 - label_smoothing) + label_smoothing / 2
    return _summed(F.binary_cross_entropy_with_logits(logits, wanted, reduction="none"), weights)


# --- risk -----------------------------------------------------------------------------------------


class Risk(NamedTuple):
    """What is made small: the mean loss, and what simplicity adds to it, each to be seen."""

    empirical: Float[Tensor, ""]
    penalty: Float[Tensor, ""]

    @property
    def structural(self) -> Float[Tensor, ""]:
        r"""R_emp + λ J: the sum of both."""
        return self.empirical + self.penalty


def weight_penalty(
    parameters: Iterable[Tensor], strength: float, power: int = 2
) -> Float[Tensor, ""]:
    r"""λ/2 Σ w² (power 2, ridge) or λ Σ |w| (power 1, lasso).

    As a part of the loss its gradient goes through the optimiser like any other: under Adam that
    is not the decoupled weight decay of AdamW (Loshchilov and Hutter 2019).
    """
    if power not in (1, 2):
        raise ValueError(f"a penalty of the power {power} was asked for; wanted 1 or 2.")
    each = [w.abs().sum() if power == 1 else w.square().sum() / 2 for w in parameters]
    return strength * torch.stack(each).sum()


def _summed(each: Tensor, weights: Tensor | None) -> Tensor:
    return each.sum() if weights is None else (each * weights).sum()
