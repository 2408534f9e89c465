"""Layers of fused decoders: the weights of a model, arranged for few and large operations."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.hooks import has_hooks

WEIGHT_BLOCKS = 4
MAX_BLOCKED_ROWS = 128  # rows up to which blocks are faster than F.linear
INITIAL_CACHE_LENGTH = 16  # positions of a new cache; it doubles when it is full


class BlockedLinear:
    """x Wᵀ + b, parallel over the output columns.

    For few rows, F.linear uses one core for all of W. Here W is stored transposed in blocks of
    columns and multiplied as a batch of products, which run on all cores. A single row is
    parallel in torch on CPUs with AVX-512: there the plain product is limited by memory bandwidth
    only, and 12 % faster than blocks.
    """

    def __init__(self, weight: Float[Tensor, "N D"], bias: Float[Tensor, " N"] | None = None):
        self.weight, self.bias = weight, bias
        self.in_blocks = weight.device.type == "cpu" and not len(weight) % WEIGHT_BLOCKS
        self.gemv_is_parallel = torch.backends.cpu.get_cpu_capability() == "AVX512"
        if self.in_blocks:
            self.blocks = weight.unflatten(0, (WEIGHT_BLOCKS, -1)).transpose(1, 2).contiguous()
            self.bias_blocks = (
                weight.new_zeros(1) if bias is None else bias.view(WEIGHT_BLOCKS, 1, -1)
            )

    def __call__(self, x: Float[Tensor, "R D"]) -> Float[Tensor, "R N"]:
        """Return x Wᵀ + b."""
        R = x.shape[0]
        if R > MAX_BLOCKED_ROWS or not self.in_blocks:
            return F.linear(x, self.weight, self.bias)
        if R == 1 and self.gemv_is_parallel:
            return self._matrix_vector(x[0])[None]
        product = torch.baddbmm(self.bias_blocks, x.expand(WEIGHT_BLOCKS, -1, -1), self.blocks)
        return product.view(1, -1) if R == 1 else product.transpose(0, 1).reshape(R, -1)

    def _matrix_vector(self, x: Float[Tensor, " D"]) -> Float[Tensor, " N"]:
        if self.bias is None:
            return torch.mv(self.weight, x)
        return torch.addmv(self.bias, self.weight, x)


class FusedResidual:
    """x + sublayer(norm(x)) or norm(x + sublayer(x)), as the parts before and after a sublayer."""

    def __init__(self, residual: Any):
        norm = residual.norm
        self.norm = (list(norm.normalized_shape), norm.weight, norm.bias, norm.eps)
        self.norm_first = bool(residual.norm_first)

    def before(self, x: Tensor) -> Tensor:
        """Return the input of the sublayer."""
        return torch.layer_norm(x, *self.norm) if self.norm_first else x

    def after(self, x: Tensor, output: Tensor) -> Tensor:
        """Return the sum of x and the sublayer's output, normalised in post-norm models."""
        return x + output if self.norm_first else torch.layer_norm(x + output, *self.norm)


class FusedFeedForward:
    """The feed-forward sublayer of a block, with its residual connection and norm."""

    def __init__(self, block: Any):
        self.residual = FusedResidual(block.around_feed_forward)
        self.inner = blocked_linear(block.feed_forward.inner)
        self.outer = blocked_linear(block.feed_forward.outer)
        self.activation = block.feed_forward.activation

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the sublayer to rows (R, D)."""
        return self.residual.after(
            x, self.outer(self.activation(self.inner(self.residual.before(x))))
        )


class FusedSelfAttention:
    """The self-attention weights of a block; queries, keys and values are one product."""

    def __init__(self, block: Any):
        self.residual = FusedResidual(block.around_attention)
        attention = block.self_attention
        self.inputs = BlockedLinear(
            torch.cat([attention.query.weight, attention.key_value.weight]),
            torch.cat([attention.query.bias, attention.key_value.bias]),
        )
        self.out = blocked_linear(attention.out)


class FusedCrossAttention:
    """The cross-attention weights of a decoder block."""

    def __init__(self, block: Any):
        self.residual = FusedResidual(block.around_source)
        self.query = blocked_linear(block.source_attention.query)
        self.out = blocked_linear(block.source_attention.out)


class FusedDecoder:
    """Base class of fused decoders: copies of a model's weights, and a check that they are current.

    Subclasses have the `init_state` and `step` of the model.
    """

    engine_name = "fused"

    def __init__(self, model: nn.Module):
        self.model: Any = model
        self.modules, self.weights = list(model.modules()), list(model.parameters())
        self.versions = self._versions()

    @property
    def is_current(self) -> bool:
        """True if the model has the weights of this decoder, is in eval mode and has no hooks."""
        return (
            not self.model.training
            and not has_hooks(self.modules)
            and self.versions == self._versions()
        )

    def _versions(self) -> list[tuple[int, int]]:
        return [(weight.data_ptr(), weight._version) for weight in self.weights]


def blocked_linear(linear: Any) -> BlockedLinear:
    """Return a linear layer with its weights in blocks."""
    return BlockedLinear(linear.weight, linear.bias)
