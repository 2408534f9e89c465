r"""The loss of a model that writes, without ever holding the logits of all words at all places."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

LOGITS_CHUNK = 1 << 22  # logits that are held at once: 16 MB, which a processor's cache may keep


class OutputLayer(NamedTuple):
    """The last layer of a model that writes: a row, and perhaps a bias, for each word."""

    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"] | None = None

    def logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """How much each vector is like each word."""
        return F.linear(hidden, self.weight, self.bias)


class TokenLoss(NamedTuple):
    """The summed loss, and for how many no word is likelier than the right one."""

    total: Float[Tensor, ""]
    correct: Int[Tensor, ""]


def linear_cross_entropy(
    hidden: Float[Tensor, "N D"],
    output: OutputLayer,
    target: Int[Tensor, " N"],
    label_smoothing: float = 0.0,
    weights: Float[Tensor, " N"] | None = None,
) -> TokenLoss:
    r"""`cross_entropy(words.logits(hidden), …)` without ever holding all N·V logits.

    A few rows at a time are taken the whole way, while the cache has them: logits z, loss, and,
    if there is to be a gradient, softmax(z) - q in the place of z and from it the gradients

        ∂/∂hidden_n = w_n (softmax(z_n) - q_n) W,   ∂/∂W = Σ_n w_n (softmax(z_n) - q_n) hidden_nᵀ.

    So the gradient is found on the way forward, and the way back only scales it (Hsu et al. 2024,
    for graphics cards, have the idea). It has no second derivative.
    """
    return TokenLoss(
        *_LinearCrossEntropy.apply(
            hidden, output.weight, output.bias, target, label_smoothing, weights
        )
    )


class _LinearCrossEntropy(torch.autograd.Function):
    """`word_loss`, with the gradients that are found on the way forward.

    Only the exponentials are made for every word. With e_v = exp(z_v - max z), s = Σ_v e_v and
    ε' = ε/V, what else is done for every word can be done for the few numbers of a row instead:

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
        weights: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """A few rows at a time: logits, loss, gradients."""
        device, held, sure = (
            hidden.device.type,
            max(1, LOGITS_CHUNK // len(weight)),
            1 - label_smoothing,
        )
        # products in bfloat16 where the caller has asked for that; sums never
        half = (
            torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        )
        many, output, spread = hidden.to(half), weight.to(half), label_smoothing / len(weight)
        all_words, all_bias = weight.sum(dim=0), 0.0 if bias is None else bias.sum()
        total, correct = weight.new_zeros((), dtype=torch.float64), target.new_zeros(())
        to_hidden, to_rows = torch.empty_like(hidden), torch.zeros_like(weight)
        to_bias = None if bias is None else torch.zeros_like(bias)
        with torch.autocast(device, enabled=False):
            for start in range(0, len(hidden), held):
                some = slice(start, start + held)
                right, few = target[some, None], hidden[some].to(weight.dtype)
                logits = torch.mm(many[some], output.t()).to(weight.dtype)
                if bias is not None:
                    logits += bias
                at_right, most = logits.gather(1, right), logits.amax(dim=1, keepdim=True)
                correct += (at_right >= most).sum()
                exps = logits.sub_(most).exp_()
                sums = exps.sum(dim=1, keepdim=True)
                losses = sums.log() + most - sure * at_right
                if label_smoothing:
                    losses -= spread * ((few @ all_words)[:, None] + all_bias)
                share = torch.ones_like(sums) if weights is None else weights[some, None]
                total += (losses * share).sum(dtype=torch.float64)
                if any(ctx.needs_input_grad):
                    exps.scatter_add_(1, right, -sure * sums)
                    wrong, scale = exps.to(half), share / sums
                    to_hidden[some] = scale * torch.mm(wrong, output) - share * spread * all_words
                    _add_product(to_rows, wrong.t(), (scale * few).to(half))
                    if to_bias is not None:
                        to_bias += (exps.t() @ scale)[:, 0]
            if label_smoothing:
                each = hidden if weights is None else weights[:, None] * hidden
                to_rows -= spread * each.sum(dim=0, dtype=weight.dtype)
                if to_bias is not None:
                    to_bias -= spread * (len(hidden) if weights is None else weights.sum())
        ctx.save_for_backward(to_hidden, to_rows, to_bias)
        ctx.mark_non_differentiable(correct)
        return total.to(weight.dtype), correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """They only have to be scaled."""
        found = (None if gradient is None else gradient * scale for gradient in ctx.saved_tensors)
        return *found, None, None, None


def _add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    if into.dtype == left.dtype:
        into.addmm_(left, right)
    else:
        into += torch.mm(left, right)
