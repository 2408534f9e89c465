r"""Losses that compare data with noise or with other examples: NCE, InfoNCE, and CPC.

    NCE       is a sample of the data or of a known noise distribution?   learns a density
    InfoNCE   which of N candidates belongs to the query?                 learns vectors
    CPC       InfoNCE of a context with the encodings k steps later       learns sequences

`saccade.nn.contrastive` has NT-Xent, the form of InfoNCE that compares both views with all others.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from saccade.nn.contrastive import PairedLoss, Views
from saccade.types.shapes import Hidden, Lengths

Scores = Float[Tensor, "B N"]


def nce(data_ratios: Float[Tensor, " N"], noise_ratios: Float[Tensor, " M"]) -> Float[Tensor, ""]:
    r"""Noise-contrastive estimation of an unnormalised density (Gutmann and Hyvärinen 2010).

        G(u) = log p(u; θ) - log p_noise(u),   ν = M / N
        L = -1/N Σ_data log σ(G(x) - log ν) - ν · 1/M Σ_noise log σ(log ν - G(y))

    log p(u; θ) = f(u; θ) + c has the negative log-normaliser c as a parameter: at the minimum, p is
    normalised.

    Args:
        data_ratios: G of samples of the data.
        noise_ratios: G of samples of the noise.
    """
    if not len(data_ratios) or not len(noise_ratios):
        raise ValueError(
            f"got {len(data_ratios)} samples of data and {len(noise_ratios)} of noise; expected "
            "one or more of each."
        )
    ratio = len(noise_ratios) / len(data_ratios)
    of_data = -F.logsigmoid(data_ratios - math.log(ratio)).mean()
    of_noise = -F.logsigmoid(math.log(ratio) - noise_ratios).mean()
    return of_data + ratio * of_noise


def info_nce(scores: Scores) -> PairedLoss:
    r"""InfoNCE (van den Oord et al. 2018): candidate i, of N ≥ B, belongs to query i.

        ℓ_i = -log exp(s_ii) / Σ_j exp(s_ij)

    Scores are divided by the temperature before. Returns the loss of each query, and the number of
    queries whose candidate has the largest score.
    """
    if scores.shape[1] < scores.shape[0]:
        raise ValueError(
            f"got {scores.shape[1]} candidates of {scores.shape[0]} queries; expected one or more "
            "of each query."
        )
    own = torch.arange(len(scores), device=scores.device)
    each = F.cross_entropy(scores, own, reduction="none")
    return PairedLoss(each, (scores.argmax(1) == own).sum())


def mutual_information_bound(loss: Float[Tensor, ""], candidates: int) -> Float[Tensor, ""]:
    r"""Return log N - L ≤ I(query; candidate), L the mean InfoNCE with N candidates (in nats).

    The bound is at most log N, however much information the variables share (van den Oord et al.
    2018, eq. 5; Poole et al. 2019).
    """
    return math.log(candidates) - loss


def sentence_contrast(
    anchors: Views,
    positives: Views,
    negatives: Views | None = None,
    *,
    temperature: float = 0.05,
    negative_weight: float = 1.0,
) -> PairedLoss:
    r"""Loss of SimCSE (Gao, Yao and Chen 2021), InfoNCE of cosines.

        ℓ_i = -log e(h_i, h_i⁺) / Σ_j (e(h_i, h_j⁺) + α^{[i=j]} e(h_i, h_j⁻))
        e(u, v) = exp(sim(u, v) / τ)

    Without labels h_i⁺ is the same sentence with another dropout mask, and there are no h⁻. With
    entailment pairs h_i⁻ contradicts i: a hard negative, of weight α for its own anchor.
    """
    if temperature <= 0:
        raise ValueError(f"got temperature {temperature:g}; expected more than 0; try 0.05.")
    if negative_weight <= 0:
        raise ValueError(f"got weight {negative_weight:g} of hard negatives; expected more than 0.")
    unit = F.normalize(anchors, dim=1)
    scores = unit @ F.normalize(positives, dim=1).T / temperature
    if negatives is not None:
        hard = unit @ F.normalize(negatives, dim=1).T / temperature
        hard = hard + math.log(negative_weight) * torch.eye(*hard.shape).to(hard)
        scores = torch.cat([scores, hard], 1)
    return info_nce(scores)


def predictive_contrast(
    context: Hidden,
    encoded: Float[Tensor, "B T E"],
    weights: Float[Tensor, "S E D"],
    lengths: Lengths | None = None,
) -> Float[Tensor, " S"]:
    r"""Contrastive predictive coding (van den Oord et al. 2018): the InfoNCE of each distance k.

        s = z_{t+k}ᵀ W_k c_t,   k = 1 … S

    The candidates are the encodings z at t + k of every position t of every sequence. Positions of
    padding, and pairs that reach beyond the end, are left out; a distance without pairs has loss 0.

    Args:
        context: c_t, which may depend on the steps up to t alone.
        encoded: z_t, of step t alone.
        weights: W_k, one matrix for each distance.
        lengths: number of steps of each sequence; None: all of them.
    """
    length = context.shape[1]
    if len(weights) >= length:
        raise ValueError(
            f"got {len(weights)} distances and sequences of {length} steps; expected fewer "
            "distances than steps."
        )
    ends = torch.full((len(context), 1), length) if lengths is None else lengths[:, None]
    steps = torch.arange(length, device=context.device)
    losses = []
    for distance, weight in enumerate(weights, 1):
        is_pair = steps[: length - distance] + distance < ends.to(steps.device)
        queries = context[:, : length - distance][is_pair] @ weight.T
        scores = queries @ encoded[:, distance:][is_pair].T
        losses.append(info_nce(scores).each.mean() if len(scores) else scores.sum())
    return torch.stack(losses)
