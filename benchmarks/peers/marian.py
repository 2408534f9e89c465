"""Hugging Face's model with our weights: Marian (post-norm) or Pegasus (pre-norm).

Both are Bart's layers with fixed sinusoidal positions and scaled, tied embeddings; Pegasus has a
final norm. Their position tables hold all sines first, ours interleave sines and cosines: theirs
are overwritten with ours.
"""

from typing import Any

import torch
from peers.weights import MAX_POSITIONS, norms, positions, put_attention, put_same
from torch import Tensor
from transformers import (
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

from saccade.data.special_tokens import BOS, EOS, PAD, UNK
from saccade.models.config import TransformerConfig
from saccade.models.transformer import Transformer

SUPPRESSED_LOGIT = -1e4  # added to logits of suppressed tokens, as in Marian's checkpoints


def hugging_face(ours: Any, config: TransformerConfig) -> Any:
    """Return the same model of transformers, with torch's fused attention."""
    form: Any
    model: Any
    form, model = (
        (PegasusConfig, PegasusForConditionalGeneration)
        if config.norm_first
        else (MarianConfig, MarianMTModel)
    )
    hidden = config.hidden or 4 * config.width
    theirs = model(
        form(
            vocab_size=config.target_vocab_size,
            d_model=config.width,
            encoder_layers=config.depth,
            decoder_layers=config.depth,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=hidden,
            decoder_ffn_dim=hidden,
            dropout=config.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            max_position_embeddings=MAX_POSITIONS,
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            tie_word_embeddings=True,
            attn_implementation="sdpa",
        )
    )
    theirs.generation_config = GenerationConfig(
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS
    )
    _copy(ours, theirs, config.norm_first)
    return theirs


@torch.no_grad()
def _copy(ours: Transformer, theirs: Any, norm_first: bool) -> None:
    core = theirs.model
    core.shared.weight.copy_(ours.target.table.weight)
    for side, mine in ((core.encoder, ours.encoder), (core.decoder, ours.decoder)):
        assert side.embed_tokens.weight is core.shared.weight
        side.embed_positions.weight.copy_(positions(ours))
        side.embed_positions.requires_grad_(False)  # they are used without gradient anyway
        for layer, block in zip(side.layers, mine, strict=True):
            _copy_layer(block, layer)
    if norm_first:
        put_same(core.encoder.layer_norm, ours.encoder_norm)
        put_same(core.decoder.layer_norm, ours.decoder_norm)


def _copy_layer(block: Any, layer: Any) -> None:
    attentions = [("self_attention", "self_attn"), ("source_attention", "encoder_attn")]
    theirs = []
    for mine, name in attentions:
        if hasattr(block, mine):
            other = getattr(layer, name)
            put_attention(
                getattr(block, mine), other.q_proj, other.k_proj, other.v_proj, other.out_proj
            )
            theirs.append(getattr(layer, f"{name}_layer_norm"))
    put_same(layer.fc1, block.feed_forward.inner)
    put_same(layer.fc2, block.feed_forward.outer)
    for other, norm in zip([*theirs, layer.final_layer_norm], norms(block), strict=True):
        put_same(other, norm)


@torch.no_grad()
def suppress_special_tokens(theirs: Any) -> None:
    """Suppress pad, bos and unk in generation, as our decoding does."""
    theirs.final_logits_bias[:, [PAD, BOS, UNK]] = SUPPRESSED_LOGIT


def attention_mask(source: Tensor) -> Tensor:
    """Return 1 where the source is not padding."""
    return (source != PAD).long()
