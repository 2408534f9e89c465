"""Training speed of a Transformer against `torch.nn.Transformer`, and its share of peak FLOP/s.

    SACCADE_DATA=folder python benchmarks/transformer_training.py

3 + 3 layers, width 256, 4 heads, feed-forward 1024, dropout 0.1, a shared vocabulary of 8000,
label smoothing 0.1, batches of up to 4096 tokens per side. The time includes loss, gradient,
clipping and AdamW. The peer is `torch.nn.Transformer` with the same embeddings, loss,
batches and optimiser; that it computes the same loss is checked before it is timed. It is timed
with its defaults (which also apply dropout to attention weights and inside the feed-forward) and
with these two dropouts removed, so that both do the same work.

The share is relative to the machine's square matrix product.
"""

import copy
import time
from typing import Any

import torch
from timing import (
    matrix_rate,
    operations,
    print_machine,
    some_batches,
    spread,
    table,
    train_on,
    translation_objective,
)
from torch import Tensor, nn

from saccade.models.base import EncoderDecoder
from saccade.models.transformer import Transformer
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.optim import adamw
from saccade.tasks.translation.objective import TranslationObjective
from saccade.training.device import tune_malloc
from saccade.types.shapes import Batch, DecoderState

WIDTH, DEPTH, HEADS, HIDDEN, DROPOUT = 256, 3, 4, 1024, 0.1
SIZES = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "hidden": HIDDEN, "dropout": DROPOUT}
BATCHES, ROUNDS = 4, 3


class Peer(EncoderDecoder):
    """`torch.nn.Transformer` with our embeddings and the interface of our translation models."""

    def __init__(self, ours: Transformer, same_dropout: bool):
        super().__init__()
        self.source, self.target = copy.deepcopy((ours.source, ours.target))
        form = {"batch_first": True, "norm_first": True}
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, DROPOUT, **form)
        # constructed explicitly to disable nested tensors, which pre-norm cannot use
        encoder = nn.TransformerEncoder(layer, DEPTH, nn.LayerNorm(WIDTH), False)
        self.core = nn.Transformer(
            WIDTH, HEADS, DEPTH, DEPTH, HIDDEN, DROPOUT, custom_encoder=encoder, **form
        )
        copy_weights(ours, self.core)
        if same_dropout:
            for module in self.core.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = 0.0
                if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                    module.dropout = nn.Identity()

    def encode(self, source: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the encoded source and its padding mask."""
        padding = None
        if lengths is not None:
            padding = torch.arange(source.shape[1]) >= lengths[:, None]
        return self.core.encoder(self.source(source), src_key_padding_mask=padding), padding

    def init_state(self, memory: tuple[Tensor, Tensor | None]) -> DecoderState:
        """Return the state before the first target token."""
        return DecoderState(memory, None)

    def decode_hidden(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Return the hidden states of the whole target."""
        memory, padding = state.memory
        causal = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        hidden = self.core.decoder(
            self.target(ids),
            memory,
            tgt_mask=causal,
            tgt_is_causal=True,
            memory_key_padding_mask=padding,
        )
        return hidden, state

    @property
    def output_layer(self) -> OutputLayer:
        """The output projection, tied to the target embeddings."""
        return OutputLayer(self.target.table.weight)


@torch.no_grad()
def copy_weights(ours: Transformer, core: nn.Transformer) -> None:
    """Copy our weights to torch's layers."""

    def attention(mine: nn.Module, theirs: nn.MultiheadAttention) -> None:
        theirs.in_proj_weight.copy_(torch.cat([mine.query.weight, mine.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([mine.query.bias, mine.key_value.bias]))
        theirs.out_proj.load_state_dict(mine.out.state_dict())

    def rest(mine: nn.Module, theirs: nn.Module, norms: list[nn.Module]) -> None:
        theirs.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
        for number, norm in enumerate(norms, start=1):
            getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())

    for mine, theirs in zip(ours.encoder, core.encoder.layers, strict=True):
        attention(mine.self_attention, theirs.self_attn)
        rest(mine, theirs, [mine.around_attention.norm, mine.around_feed_forward.norm])
    for mine, theirs in zip(ours.decoder, core.decoder.layers, strict=True):
        attention(mine.self_attention, theirs.self_attn)
        attention(mine.source_attention, theirs.multihead_attn)
        around = [mine.around_attention, mine.around_source, mine.around_feed_forward]
        rest(mine, theirs, [residual.norm for residual in around])
    core.encoder.norm.load_state_dict(ours.encoder_norm.state_dict())
    core.decoder.norm.load_state_dict(ours.decoder_norm.state_dict())


def with_model(objective: TranslationObjective, model: EncoderDecoder) -> TranslationObjective:
    """Return the objective with another network."""
    recipe: Any = objective.recipe
    tokenizers: Any = None  # the batches are token ids already
    return TranslationObjective(recipe, model, tokenizers, objective.splits)


@torch.no_grad()
def check_equal(objectives: dict[str, TranslationObjective], batch: Batch) -> None:
    """Exit if the models do not have the same loss without dropout."""
    losses = {}
    for name, objective in objectives.items():
        objective.model.eval()
        losses[name] = float(objective.loss(batch).total) / batch.tokens
    if max(losses.values()) - min(losses.values()) > 1e-4:
        raise SystemExit(
            f"These do not compute the same loss, so their speeds are not comparable: {losses}"
        )
    print(f"All compute the same loss without dropout: {losses['saccade']:.5f} per token\n")


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    tune_malloc()
    ours = translation_objective({"name": "transformer", "shared_vocab": True, **SIZES})
    objectives = {
        "saccade": ours,
        "torch, same dropout": with_model(ours, Peer(ours.model, same_dropout=True)),
        "torch, default dropout": with_model(ours, Peer(ours.model, same_dropout=False)),
    }
    batches = some_batches(ours, BATCHES)
    check_equal(objectives, batches[0])
    counts = {}
    for name, objective in objectives.items():
        objective.model.train()
        counts[name] = sum(
            operations(
                objective.model,
                lambda objective=objective, batch=batch: objective.loss(batch).total,
            )
            for batch in batches
        )
    optimizers = {
        name: adamw(objective.model, 1e-3, 0.01) for name, objective in objectives.items()
    }
    times: dict[str, list[float]] = {name: [] for name in objectives}
    for turn in range(ROUNDS + 1):  # in alternation, so that other load affects all alike
        for name, objective in objectives.items():
            start = time.perf_counter()
            for batch in batches if turn else batches[:2]:
                train_on(objective, optimizers[name], batch)
            if turn:
                times[name].append(time.perf_counter() - start)
    peak = matrix_rate(1024, 1024, 1024)
    tokens = sum(batch.tokens for batch in batches)
    rates = {name: spread([tokens / time for time in found]) for name, found in times.items()}
    rows = []
    for name, found in times.items():
        done = spread([counts[name] / time / 1e9 for time in found])
        ratio = f"{rates['saccade'].middle / rates[name].middle:.2f}"
        rows.append([name, rates[name], done, f"{done.middle / peak.middle:.0%}", ratio])
    table(
        ["", "target tokens/s", "GFLOP/s", "share of machine peak", "ratio (saccade / peer)"], rows
    )
    print(
        f"\nThe machine: {peak} GFLOP/s (square product). {BATCHES} batches, {tokens:,} target "
        f"tokens, {counts['saccade'] / 1e9:,.0f} GFLOP a round; median of {ROUNDS} rounds (minimum "
        "to maximum) after 2 warm-up steps."
    )


if __name__ == "__main__":
    main()
