r"""What training makes small."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "N V"],
    target: Int[Tensor, " N"],
    smoothing: float = 0.0,
    weights: Float[Tensor, " N"] | None = None,
) -> Float[Tensor, ""]:
    r"""Σ_n w_n · -Σ_v q_v log softmax(logits_n)_v with q = (1 - ε) onehot(target) + ε/V.

    The sum, not the mean, so that pieces of a batch add up to the whole. Label smoothing as in
    Szegedy et al. 2016: the mass ε is spread over all V entries, the right one included. Padding
    never comes here: the caller hands in the real positions only.
    """
    if weights is None:
        return F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
    each = F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="none")
    return (each * weights).sum()
