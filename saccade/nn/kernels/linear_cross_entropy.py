r"""Output layer and cross-entropy in one, without holding the logits of all positions."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from saccade.nn.losses import cross_entropy

LOGITS_CHUNK = 1 << 22  # logits held at a time: 16 MB, which may stay in the cache of the CPU


class OutputLayer(NamedTuple):
    """The weights of an output layer: a row, and perhaps a bias, for each token."""

    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"] | None = None


class TokenLoss(NamedTuple):
    """The summed loss, and the number of positions whose target has the largest logit."""

    total: Float[Tensor, ""]
    correct: Int[Tensor, ""]


def linear_cross_entropy_reference(
    hidden: Float[Tensor, "N D"],
    output: OutputLayer,
    target: Int[Tensor, " N"],
    label_smoothing: float = 0.0,
    sample_weight: Float[Tensor, " N"] | None = None,
) -> TokenLoss:
    """Compute all N·V logits, then the summed loss and the number of correct predictions."""
    logits = F.linear(hidden, *output)
    total = cross_entropy(
        logits,
        target,
        label_smoothing=label_smoothing,
        sample_weight=sample_weight,
        reduction="sum",
    )
    correct = logits.gather(1, target[:, None])[:, 0] >= logits.amax(dim=1)
    return TokenLoss(total, correct.sum())


def linear_cross_entropy(
    hidden: Float[Tensor, "N D"],
    output: OutputLayer,
    target: Int[Tensor, " N"],
    label_smoothing: float = 0.0,
    sample_weight: Float[Tensor, " N"] | None = None,
) -> TokenLoss:
    r"""Compute `linear_cross_entropy_reference` without ever holding all N·V logits.

    A chunk of rows is processed while it is in the cache: logits z, loss and, if a gradient is
    needed, softmax(z) - q in the memory of z and from it the gradients

        ∂/∂hidden_n = w_n (softmax(z_n) - q_n) W,   ∂/∂W = Σ_n w_n (softmax(z_n) - q_n) hidden_nᵀ.

    So the gradient is computed in the forward pass, and the backward pass only scales it (Hsu et
    al. 2024 do the same on GPUs). There is no second derivative.
    """
    return TokenLoss(
        *_LinearCrossEntropy.apply(
            hidden, output.weight, output.bias, target, label_smoothing, sample_weight
        )
    )


class _LinearCrossEntropy(torch.autograd.Function):
    """Loss and gradients, all computed in the forward pass.

    Only the exponentials are computed for every token of the vocabulary. With
    e_v = exp(z_v - max z), s = Σ_v e_v and ε' = ε/V, the rest takes a few numbers for each row:

        loss = log s + max z - (1 - ε) z_right - ε' Σ_v z_v,    Σ_v z_v = hᵀ Σ_v W_v + Σ_v b_v,
        (softmax(z) - q)ᵀ W = (e - (1 - ε) s onehot)ᵀ W / s - ε' Σ_v W_v.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        label_smoothing: float,
        sample_weight: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Process a chunk of rows at a time: logits, loss, gradients."""
        device, confidence = hidden.device.type, 1 - label_smoothing
        chunk = max(1, LOGITS_CHUNK // len(weight))
        # matrix products in bfloat16 under autocast; sums in the format of the weights
        half = (
            torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        )
        inputs_half, output, spread = (
            hidden.to(half),
            weight.to(half),
            label_smoothing / len(weight),
        )
        weight_sum, bias_sum = weight.sum(dim=0), 0.0 if bias is None else bias.sum()
        total, correct = weight.new_zeros((), dtype=torch.float64), target.new_zeros(())
        to_hidden, to_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        to_bias = None if bias is None else torch.zeros_like(bias)
        with torch.autocast(device, enabled=False):
            for start in range(0, len(hidden), chunk):
                rows = slice(start, start + chunk)
                targets, inputs = target[rows, None], hidden[rows].to(weight.dtype)
                logits = torch.mm(inputs_half[rows], output.t()).to(weight.dtype)
                if bias is not None:
                    logits += bias
                target_logit, maximum = logits.gather(1, targets), logits.amax(dim=1, keepdim=True)
                correct += (target_logit >= maximum).sum()
                exps = logits.sub_(maximum).exp_()
                sums = exps.sum(dim=1, keepdim=True)
                losses = sums.log() + maximum - confidence * target_logit
                if label_smoothing:
                    losses -= spread * ((inputs @ weight_sum)[:, None] + bias_sum)
                share = (
                    torch.ones_like(sums) if sample_weight is None else sample_weight[rows, None]
                )
                total += (losses * share).sum(dtype=torch.float64)
                if any(ctx.needs_input_grad):
                    exps.scatter_add_(1, targets, -confidence * sums)
                    errors, scale = exps.to(half), share / sums
                    to_hidden[rows] = scale * torch.mm(errors, output) - share * spread * weight_sum
                    _add_product(to_weight, errors.t(), (scale * inputs).to(half))
                    if to_bias is not None:
                        to_bias += (exps.t() @ scale)[:, 0]
            if label_smoothing:
                each = hidden if sample_weight is None else sample_weight[:, None] * hidden
                to_weight -= spread * each.sum(dim=0, dtype=weight.dtype)
                if to_bias is not None:
                    to_bias -= spread * (
                        len(hidden) if sample_weight is None else sample_weight.sum()
                    )
        ctx.save_for_backward(to_hidden, to_weight, to_bias)
        ctx.mark_non_differentiable(correct)
        return total.to(weight.dtype), correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients."""
        scaled = (None if gradient is None else gradient * scale for gradient in ctx.saved_tensors)
        return *scaled, None, None, None


def _add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    if into.dtype == left.dtype:
        into.addmm_(left, right)
    else:
        into += torch.mm(left, right)
