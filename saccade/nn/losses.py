r"""Loss functions with torch's names and defaults, and a weight for each example.

Every loss takes `reduction` ("mean", "sum" or "none") and `sample_weight` w, one for each example.
"sum" is Σ_n w_n ℓ_n, so that the parts of a batch add up to the whole, and "mean" is
Σ_n w_n ℓ_n / Σ_n w_n. Binary classes are ±1 for the losses of a margin m = y·f (zero-one, hinge,
logistic, exponential) and 0 or 1 for `binary_cross_entropy_with_logits`.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

MAX_EXP_MARGIN = 50.0  # negative margin beyond which the exponential loss is linear

Reduction = Literal["mean", "sum", "none"]
PerExample = Float[Tensor, "*N"]
Reduced = Float[Tensor, "*M"]  # a scalar, or one loss for each example


# --- regression -----------------------------------------------------------------------------------


def l1_loss(
    predicted: PerExample,
    target: PerExample,
    *,
    reduction: Reduction = "mean",
    sample_weight: PerExample | None = None,
) -> Reduced:
    r"""|ŷ - y|, which the median minimises. The subgradient at 0 is 0."""
    return _reduce((predicted - target).abs(), reduction, sample_weight)


def mse_loss(
    predicted: PerExample,
    target: PerExample,
    *,
    reduction: Reduction = "mean",
    sample_weight: PerExample | None = None,
) -> Reduced:
    r"""(ŷ - y)², which the mean minimises. Some texts have a factor of ½."""
    return _reduce((predicted - target).square(), reduction, sample_weight)


def huber_loss(
    predicted: PerExample,
    target: PerExample,
    *,
    delta: float = 1.0,
    reduction: Reduction = "mean",
    sample_weight: PerExample | None = None,
) -> Reduced:
    r"""½r² where |r| ≤ δ, else δ(|r| - ½δ), with r = ŷ - y (Huber 1964)."""
    each = F.huber_loss(predicted, target, reduction="none", delta=delta)
    return _reduce(each, reduction, sample_weight)


# --- margins --------------------------------------------------------------------------------------


def zero_one_loss(
    margin: PerExample, *, reduction: Reduction = "mean", sample_weight: PerExample | None = None
) -> Reduced:
    r"""[m ≤ 0]: 1 for a wrong prediction. It has no gradient; the others are its surrogates."""
    return _reduce((margin <= 0).to(margin.dtype), reduction, sample_weight)


def hinge_loss(
    margin: PerExample, *, reduction: Reduction = "mean", sample_weight: PerExample | None = None
) -> Reduced:
    r"""max(0, 1 - m) (Cortes and Vapnik 1995); the subgradient at m = 1 is 0."""
    return _reduce((1 - margin).relu(), reduction, sample_weight)


def logistic_loss(
    margin: PerExample, *, reduction: Reduction = "mean", sample_weight: PerExample | None = None
) -> Reduced:
    r"""log(1 + exp(-m)): the negative log-likelihood of a logistic model."""
    return _reduce(-F.logsigmoid(margin), reduction, sample_weight)


def exponential_loss(
    margin: PerExample, *, reduction: Reduction = "mean", sample_weight: PerExample | None = None
) -> Reduced:
    r"""exp(-m), the loss of boosting (Freund and Schapire 1997).

    Beyond m = -50 it continues as a straight line with the slope that it has there: exp(88) is more
    than a float32 holds, and an infinite loss has no gradient.
    """
    clamped = (-margin).clamp(max=MAX_EXP_MARGIN)
    return _reduce(clamped.exp() * (1 + (-margin - clamped)), reduction, sample_weight)


MARGIN_LOSSES: dict[str, Callable[..., Tensor]] = {
    "exponential": exponential_loss,
    "hinge": hinge_loss,
    "logistic": logistic_loss,
    "zero_one": zero_one_loss,
}


# --- classification -------------------------------------------------------------------------------


def cross_entropy(
    logits: Float[Tensor, "N V"],
    target: Int[Tensor, " N"],
    *,
    label_smoothing: float = 0.0,
    weight: Float[Tensor, " V"] | None = None,
    reduction: Reduction = "mean",
    sample_weight: Float[Tensor, " N"] | None = None,
) -> Reduced:
    r"""-Σ_v q_v log softmax(logits)_v with q = (1 - ε) onehot(target) + ε/V.

    `F.cross_entropy` with a weight for each example in addition to `weight`, one for each class.
    Label smoothing as in Szegedy et al. 2016: the mass ε is spread over all V classes, the target
    included. There is no `ignore_index`: callers pass the real positions only.
    """
    if sample_weight is None:
        return F.cross_entropy(
            logits, target, weight, label_smoothing=label_smoothing, reduction=reduction
        )
    each = F.cross_entropy(
        logits, target, weight, label_smoothing=label_smoothing, reduction="none"
    )
    if reduction == "mean" and weight is not None:  # torch divides by the classes' weights as well
        return (each * sample_weight).sum() / (weight[target] * sample_weight).sum()
    return _reduce(each, reduction, sample_weight)


def binary_cross_entropy_with_logits(
    logits: PerExample,
    target: PerExample,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    sample_weight: PerExample | None = None,
) -> Reduced:
    r"""-(q log σ(f) + (1 - q) log σ(-f)) with q = (1 - ε) y + ε/2, y 0 or 1.

    The `cross_entropy` of the logits (0, f).
    """
    smoothed = target * (1 - label_smoothing) + label_smoothing / 2
    each = F.binary_cross_entropy_with_logits(logits, smoothed, reduction="none")
    return _reduce(each, reduction, sample_weight)


# --- risk -----------------------------------------------------------------------------------------


class Risk(NamedTuple):
    """The mean loss and the regularisation penalty, which training minimises the sum of."""

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
        raise ValueError(f"got a penalty of power {power}; expected 1 (lasso) or 2 (ridge).")
    each = [w.abs().sum() if power == 1 else w.square().sum() / 2 for w in parameters]
    return strength * torch.stack(each).sum()


def _reduce(each: Tensor, reduction: Reduction, sample_weight: Tensor | None) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"got reduction {reduction!r}; expected 'mean', 'sum' or 'none'.")
    if sample_weight is None:
        return each.sum() if reduction == "sum" else each.mean() if reduction == "mean" else each
    weighted = each * sample_weight
    if reduction == "none":
        return weighted
    return weighted.sum() if reduction == "sum" else weighted.sum() / sample_weight.sum()
