"""JoeyNMT's models, loss and `Batch`, given our batches: its own sampler does not sort by length.

The Transformer has our weights, without the two dropouts that ours does not have (of attention
weights and inside the feed-forward). Its loss is a divergence, lower than ours by the entropy of
the smoothed target, so what is compared is the cross-entropy of its logits. The recurrent encoder
must be bidirectional (a unidirectional one raises an IndexError in 2.3.0), with our width per
direction.
"""

import logging
from typing import Any

import torch
from joeynmt.batch import Batch as TheirBatch
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary
from peers.corpus import (
    DEPTH,
    DROPOUT,
    HEADS,
    HIDDEN,
    OURS,
    RECURRENT_DEPTH,
    SMOOTHING,
    WIDTH,
    padded_target,
    source_lengths,
    training_objective,
)
from peers.gate import Gate, facts_of, losses_without_dropout, train_until_closed
from peers.pipe import Pipe
from peers.weights import norms, put_attention, put_same
from torch import Tensor, nn

from saccade.data.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from saccade.types.shapes import Batch


def vocabulary(size: int) -> Vocabulary:
    """Return our vocabulary by id; their constructor would search a list for every word."""
    made = Vocabulary.__new__(Vocabulary)
    made.specials, made.lang_tags = list(SPECIAL_TOKENS), []
    made._itos = [*SPECIAL_TOKENS, *map(str, range(len(SPECIAL_TOKENS), size))]
    made._stoi = {word: number for number, word in enumerate(made._itos)}
    made.pad_index, made.bos_index, made.eos_index, made.unk_index = PAD, BOS, EOS, UNK
    made.sep_index = None
    return made


def transformer(size: int) -> Any:
    """Return a pre-norm model of 3 + 3 layers with tied embeddings."""
    side = {
        "type": "transformer",
        "num_layers": DEPTH,
        "num_heads": HEADS,
        "hidden_size": WIDTH,
        "ff_size": HIDDEN,
        "dropout": DROPOUT,
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": WIDTH, "scale": True, "dropout": DROPOUT},
    }
    tied = {"tied_embeddings": True, "tied_softmax": True}
    model = _built({**tied, "encoder": dict(side), "decoder": dict(side)}, size)
    for module in model.modules():
        if hasattr(module, "pwff_layer"):
            module.pwff_layer[2] = nn.Identity()
        if hasattr(module, "k_layer"):
            module.dropout = nn.Identity()
    return model


def recurrent(size: int) -> Any:
    """Return a two-layer GRU model with additive attention and input feeding."""
    side = {
        "type": "recurrent",
        "rnn_type": "gru",
        "num_layers": RECURRENT_DEPTH,
        "dropout": DROPOUT,
        "embeddings": {"embedding_dim": WIDTH, "scale": False, "dropout": DROPOUT},
    }
    encoder = {"hidden_size": WIDTH, "bidirectional": True}
    decoder = {
        "hidden_size": WIDTH,
        "hidden_dropout": DROPOUT,
        "attention": "bahdanau",
        "init_hidden": "bridge",
        "input_feeding": True,
    }
    return _built({"encoder": {**side, **encoder}, "decoder": {**side, **decoder}}, size)


def _built(settings: dict[str, Any], size: int) -> Any:
    start = {
        "initializer": "xavier_uniform",
        "init_gain": 1.0,
        "bias_initializer": "zeros",
        "embed_initializer": "normal",
        "embed_init_weight": WIDTH**-0.5,
        "embed_init_gain": 1.0,
    }
    both = vocabulary(size)
    model = build_model({**start, **settings}, both, both)
    model.loss_function = ("crossentropy", SMOOTHING)
    return model


@torch.no_grad()
def copy_weights(ours: Any, theirs: Any) -> None:
    """Copy our weights to their model."""
    theirs.trg_embed.lut.weight.copy_(ours.target.table.weight)
    for mine, layer in zip(ours.encoder, theirs.encoder.layers, strict=True):
        _copy_attention(mine.self_attention, layer.src_src_att)
        _copy_rest(mine, layer.feed_forward, [layer.layer_norm])
    for mine, layer in zip(ours.decoder, theirs.decoder.layers, strict=True):
        _copy_attention(mine.self_attention, layer.trg_trg_att)
        _copy_attention(mine.source_attention, layer.src_trg_att)
        _copy_rest(mine, layer.feed_forward, [layer.x_layer_norm, layer.dec_layer_norm])
    put_same(theirs.encoder.layer_norm, ours.encoder_norm)
    put_same(theirs.decoder.layer_norm, ours.decoder_norm)


def _copy_attention(mine: Any, theirs: Any) -> None:
    put_attention(mine, theirs.q_layer, theirs.k_layer, theirs.v_layer, theirs.output_layer)


def _copy_rest(mine: Any, feed_forward: Any, others: list[nn.Module]) -> None:
    put_same(feed_forward.pwff_layer[0], mine.feed_forward.inner)
    put_same(feed_forward.pwff_layer[3], mine.feed_forward.outer)
    for theirs, norm in zip([*others, feed_forward.layer_norm], norms(mine), strict=True):
        put_same(theirs, norm)


def their_batch(batch: Batch) -> TheirBatch:
    """Convert our batch to theirs."""
    bos = torch.full((batch.source.shape[0], 1), BOS)
    return TheirBatch(
        src=batch.source,
        src_length=source_lengths(batch),
        src_prompt_mask=None,
        trg=torch.cat([bos, padded_target(batch)], dim=1),
        trg_prompt_mask=None,
        indices=torch.arange(batch.source.shape[0]),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
    )


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train until the pipe is closed, one measurement window at a time."""
    logging.disable(logging.INFO)
    gate = Gate(pipe)
    objective = training_objective(folder, **OURS[kind])
    size = objective.recipe.model.target_vocab_size
    model = transformer(size) if kind == "transformer" else recurrent(size)

    def logits(batch: Batch) -> Tensor:
        return model._encode_decode(**vars(their_batch(batch)))[0]

    def loss(batch: Batch) -> Tensor:
        theirs = their_batch(batch)
        theirs.sort_by_src_length()
        return theirs.normalize(model(return_type="loss", **vars(theirs))[0], "tokens")

    facts: dict[str, Any] = {"about": f"bidirectional, {WIDTH} each, fused AdamW"}
    if kind == "transformer":
        copy_weights(objective.model, model)
        facts = {
            "about": "pre-norm, fused AdamW",
            **losses_without_dropout(objective, model, logits),
        }
    gate.ready(model, **facts, **facts_of(objective, model, loss))
    train_until_closed(objective, model, loss, gate)
