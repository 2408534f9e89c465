r"""A Transformer's decoder for writing: one token at a time, with as few calls as can be.

A step of one token is so little arithmetic that what it costs is asking for it. So queries, keys
and values come of one product, the past of all layers is one tensor, the mask of the source is
made once, and no module is entered. What is computed is `Transformer.step`, and a law binds them.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.transformer import SourceMemory, Transformer
from saccade.nn.positions import Learned, Places
from saccade.nn.scores import ScaledDot
from saccade.types import Ids, Logits, State

ROOM = 16  # places that the past has room for at first; it doubles when it runs out


class Product(NamedTuple):
    """x Wᵀ + b."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """For every row."""
        return F.linear(x, self.weight, self.bias)


class Norm(NamedTuple):
    """Layer normalisation."""

    gain: Tensor
    bias: Tensor
    little: float

    def __call__(self, x: Tensor) -> Tensor:
        """For every row."""
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.little)


class Layer(NamedTuple):
    """The weights of one block of the decoder."""

    norms: tuple[Norm, Norm, Norm]
    all_of_self: Product  # queries, keys and values
    out_of_self: Product
    to_source: Product
    out_of_source: Product
    inner: Product
    outer: Product


class Source(NamedTuple):
    """Keys and values of the source in each layer, and what is added to their scores."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    mask: Float[Tensor, "B 1 1 S"] | None


class Written(NamedTuple):
    """Keys and values of what is written, of all layers; there may be room for more."""

    kept: Float[Tensor, "R L 2 H S K"]
    length: int


class Writer:
    """Steps of a Transformer, for a search. Its weights are the model's as they are now."""

    def __init__(self, model: Transformer):
        self.table = model.target.table.weight
        self.scale = self.table.shape[1] ** 0.5
        self.positions = model.target.positions
        self.codes: Tensor | None = self._codes(ROOM)
        self.norm_first = model.norm_first
        decoder: Iterable[Any] = model.decoder
        self.layers = [_layer(block) for block in decoder]
        self.heads = int(model.decoder[0].self_attention.heads)  # type: ignore[union-attr, arg-type]
        self.last = _norm(model.decoder_norm) if model.norm_first else None

    def start(self, memory: SourceMemory) -> State:
        """Nothing is written yet."""
        layers = tuple(both.used() for both in memory.layers)
        mask, (keys, _) = None, layers[0]
        if memory.lengths is not None:
            places = torch.arange(keys.shape[2], device=keys.device)
            beyond = places >= memory.lengths[:, None, None, None]
            mask = torch.zeros(beyond.shape, dtype=keys.dtype, device=keys.device)
            mask.masked_fill_(beyond, -torch.inf)
        B, H, _, K = keys.shape
        kept = keys.new_empty(B, len(self.layers), 2, H, ROOM, K)
        return State(Source(layers, mask), Written(kept, 0))

    def step(self, ids: Ids, state: State) -> tuple[Logits, State]:
        """One more token in each row, and the logits of what follows it."""
        source, (kept, t) = state
        if t == kept.shape[4]:
            kept = torch.cat([kept, torch.empty_like(kept)], dim=4)
        x = F.embedding(ids[:, 0], self.table) * self.scale
        if self.positions is not None:
            x += self._code(t)
        for number, (layer, (keys, values)) in enumerate(
            zip(self.layers, source.layers, strict=True)
        ):
            x = self._block(x, layer, kept[:, number], t, keys, values, source.mask)
        if self.last is not None:
            x = self.last(x)
        return F.linear(x, self.table)[:, None], State(source, Written(kept, t + 1))

    def _code(self, t: int) -> Tensor:
        if self.codes is None or t >= len(self.codes):
            self.codes = self._codes(2 * t)
        assert self.codes is not None
        return self.codes[t]

    def _codes(self, places: int) -> Tensor | None:
        """What is added at each of the first places."""
        if isinstance(self.positions, Learned):
            return self.positions.table
        return None if self.positions is None else self.positions(0, places)

    def _block(
        self,
        x: Tensor,
        layer: Layer,
        kept: Tensor,
        t: int,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        first = self.norm_first
        (R, D), B, H = x.shape, len(keys), self.heads
        now = layer.all_of_self(layer.norms[0](x) if first else x).view(R, 3, H, -1)
        kept[:, :, :, t] = now[:, 1:]
        past = kept[:, :, :, : t + 1]
        seen = F.scaled_dot_product_attention(now[:, 0, :, None], past[:, 0], past[:, 1])
        y = x + layer.out_of_self(seen.view(R, D))
        y = y if first else layer.norms[0](y)

        query = layer.to_source(layer.norms[1](y) if first else y)
        # the hypotheses of a sentence ask its memory at once, as so many steps
        query = query.view(B, R // B, H, -1).transpose(1, 2)
        seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        z = y + layer.out_of_source(seen.transpose(1, 2).reshape(R, D))
        z = z if first else layer.norms[1](z)

        inside = layer.inner(layer.norms[2](z) if first else z).relu_()
        out = z + layer.outer(inside)
        return out if first else layer.norms[2](out)


def writer(model: nn.Module) -> Any:
    """What a search asks for its steps: a `Writer` where one computes the same, or the model."""
    return Writer(model) if isinstance(model, Transformer) and _is_plain(model) else model


def _is_plain(model: Transformer) -> bool:
    """Whether there is nothing but heads of scaled dots that see all that is written."""
    if model.training or model.window is not None:
        return False
    # a hook watches or changes what a module does, and here no module is entered
    if any(part._forward_hooks or part._forward_pre_hooks for part in model.modules()):
        return False
    block: Any
    for block in model.decoder:
        for part in (block.self_attention, block.source_attention):
            width = part.query.in_features
            if part.query.out_features != width or part.key_value.out_features != 2 * width:
                return False  # heads are shared, or some are taken out
            if not isinstance(part.attention.score, ScaledDot):
                return False
            if type(part.attention.positions) is not Places:
                return False  # rotary or relative
    return True


def _layer(block: Any) -> Layer:
    own, other = block.self_attention, block.source_attention
    around = (block.around_attention, block.around_source, block.around_feed_forward)
    return Layer(
        norms=tuple(_norm(residual.norm) for residual in around),  # type: ignore[arg-type]
        all_of_self=Product(
            torch.cat([own.query.weight, own.key_value.weight]),
            torch.cat([own.query.bias, own.key_value.bias]),
        ),
        out_of_self=_product(own.out),
        to_source=_product(other.query),
        out_of_source=_product(other.out),
        inner=_product(block.feed_forward.inner),
        outer=_product(block.feed_forward.outer),
    )


def _product(linear: Any) -> Product:
    return Product(linear.weight, linear.bias)


def _norm(norm: Any) -> Norm:
    return Norm(norm.weight, norm.bias, norm.eps)
