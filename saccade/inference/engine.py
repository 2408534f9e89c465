"""The choice of an inference engine by name."""

from typing import Any

import torch
from torch import nn

from saccade.inference.engine_names import DECODER_ENGINES
from saccade.inference.fused_gpt import FusedGPTDecoder
from saccade.inference.fused_layers import FusedDecoder
from saccade.inference.fused_transformer import FusedTransformerDecoder
from saccade.models.base import CausalLM, EncoderDecoder
from saccade.models.gpt import GPT
from saccade.models.transformer import Transformer
from saccade.nn.attention_scores import ScaledDotScore
from saccade.nn.hooks import has_hooks
from saccade.nn.positional_encoding import AttentionPositions
from saccade.registry import lookup

GeneratorModel = EncoderDecoder | CausalLM
Decoder = GeneratorModel | FusedTransformerDecoder | FusedGPTDecoder


def make_decoder(
    model: GeneratorModel, engine: str = "fused", previous: Decoder | None = None
) -> Decoder:
    """Return the decoder that a search drives; `decoder.engine_name` is the engine it runs on.

    "torch" is the model itself. "fused" computes the same with fewer calls, for a Transformer or a
    GPT in eval mode without hooks; for any other model it falls back to "torch".

    Args:
        previous: a decoder of an earlier call, returned again if it has the model's current
            weights. Loading weights is detected; training is not, since an optimizer may change
            them in place, so a caller that trains must drop it.
    """
    lookup(DECODER_ENGINES, engine, "engine")
    if engine == "torch":
        return model
    if isinstance(previous, FusedDecoder) and previous.model is model and previous.is_current:
        return previous
    # a hook observes or changes a module's forward, which a fused decoder does not call
    if model.training or has_hooks(model.modules()):
        return model
    with torch.no_grad():
        if isinstance(model, Transformer) and model.window is None:
            if _has_plain_attention(*model.encoder, *model.decoder):
                return FusedTransformerDecoder(model)
        elif isinstance(model, GPT) and not model.uses_sliding_window:
            if _has_plain_attention(*model.blocks):
                return FusedGPTDecoder(model)
    return model


def _has_plain_attention(*blocks: Any) -> bool:
    """Return True if all norms are layer norms and all attention is plain.

    That is multi-head with scaled dots, and one key per query head.
    """
    for block in blocks:
        if not isinstance(block.around_attention.norm, nn.LayerNorm):
            return False
        attentions = [
            block.self_attention,
            getattr(block, "source_attention", block.self_attention),
        ]
        for attention in attentions:
            width = attention.query.in_features
            if (
                attention.query.out_features != width
                or attention.key_value.out_features != 2 * width
            ):
                return False  # grouped queries, or pruned heads
            if not isinstance(attention.attention.score, ScaledDotScore):
                return False
            if type(attention.attention.positions) is not AttentionPositions:
                return False  # rotary or relative
    return True
