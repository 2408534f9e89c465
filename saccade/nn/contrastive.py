r"""Contrastive loss of two views of each image, and two properties of the vectors that it trains.

Vectors are compared on the unit sphere: sim(u, v) = uᵀv / (‖u‖ ‖v‖). The rows i of both arguments
are views of the same image.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

Views = Float[Tensor, "B D"]


class PairedLoss(NamedTuple):
    """The loss of each view, and the number of views whose other view is the most similar one."""

    each: Float[Tensor, " B2"]
    correct: Int[Tensor, ""]


def nt_xent(one: Views, two: Views, temperature: float) -> Float[Tensor, ""]:
    r"""Normalised temperature-scaled cross-entropy, mean over all 2B views (Chen et al. 2020).

        ℓ(i, j) = -log exp(sim(z_i, z_j) / τ) / Σ_{k ≠ i} exp(sim(z_i, z_k) / τ)

    j is the other view of the image of i; k runs over the other 2B - 1 views.
    """
    return nt_xent_of_views(one, two, temperature).each.mean()


def nt_xent_of_views(one: Views, two: Views, temperature: float) -> PairedLoss:
    """Return the loss ℓ of each of the 2B views, those of `one` first."""
    if temperature <= 0:
        raise ValueError(f"got temperature {temperature:g}; expected more than 0; try 0.2.")
    views = F.normalize(torch.cat([one, two]), dim=1)
    count = len(one)
    # -inf: a view is not compared with itself
    scores = (views @ views.T / temperature).fill_diagonal_(-torch.inf)
    pairs = torch.arange(2 * count, device=one.device).roll(count)
    each = F.cross_entropy(scores, pairs, reduction="none")
    return PairedLoss(each, (scores.argmax(1) == pairs).sum())


def alignment(one: Views, two: Views) -> Float[Tensor, ""]:
    r"""Mean of ‖z_i - z_j‖² over both views of an image; 0 is best (Wang and Isola 2020, α = 2)."""
    return (F.normalize(one, dim=1) - F.normalize(two, dim=1)).square().sum(1).mean()


def uniformity(vectors: Views) -> Float[Tensor, ""]:
    r"""log of the mean of exp(-2 ‖z_i - z_k‖²) over pairs i < k (Wang and Isola 2020, t = 2).

    It is 0 if all vectors are equal, and smaller the more evenly they cover the sphere. All
    B²/2 pairs are in memory together.
    """
    if len(vectors) < 2:
        raise ValueError(f"got {len(vectors)} vectors; expected two or more.")
    distances = F.pdist(F.normalize(vectors, dim=1)).square()
    return torch.logsumexp(-2 * distances, 0) - torch.log(
        torch.tensor(len(distances), dtype=distances.dtype, device=distances.device)
    )
