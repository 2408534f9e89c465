"""Recurrent translation model from d2l's encoder and additive attention.

The package has the layers but not the decoder with attention, which is a listing in the book
(section 11.4.2) and is built here in the same way. Unidirectional, two layers of GRU.
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import matplotlib
import torch
from peers.corpus import (
    DROPOUT,
    RECURRENT,
    RECURRENT_DEPTH,
    WIDTH,
    padded_target,
    source_lengths,
    training_objective,
)
from peers.gate import Gate, facts_of, smoothed, train_until_closed
from peers.pipe import Pipe
from torch import Tensor, nn

from saccade.types.shapes import Batch

matplotlib.use("Agg")


def _parts() -> Any:
    """Import d2l.torch without the image library, which only its chapters on images need."""
    for name in ("torchvision", "torchvision.transforms", "torchvision.datasets"):
        empty = ModuleType(name)
        empty.__spec__ = ModuleSpec(name, None)
        sys.modules.setdefault(name, empty)
    images: Any = sys.modules["torchvision"]
    images.transforms = sys.modules["torchvision.transforms"]
    from d2l import torch as d2l

    return d2l


class Book(nn.Module):
    """The book's Seq2Seq with Seq2SeqAttentionDecoder."""

    def __init__(self, size: int):
        super().__init__()
        d2l = _parts()
        self.encoder = d2l.Seq2SeqEncoder(size, WIDTH, WIDTH, RECURRENT_DEPTH, DROPOUT)
        self.attention = d2l.AdditiveAttention(WIDTH, 0.0)
        self.embedding = nn.Embedding(size, WIDTH)
        self.rnn = nn.GRU(2 * WIDTH, WIDTH, RECURRENT_DEPTH, dropout=DROPOUT)
        self.output = nn.Linear(WIDTH, size)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return the logits of every target position."""
        outputs, state = self.encoder(source)
        outputs = outputs.transpose(0, 1)
        written = []
        for x in self.embedding(target).transpose(0, 1):
            context = self.attention(state[-1].unsqueeze(1), outputs, outputs, lengths)
            x = torch.cat((context, x.unsqueeze(1)), dim=-1).transpose(0, 1)
            out, state = self.rnn(x, state)
            written.append(out)
        return self.output(torch.cat(written)).transpose(0, 1)


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train until the pipe is closed, one measurement window at a time."""
    gate = Gate(pipe)
    objective = training_objective(folder, **RECURRENT)
    model = Book(objective.recipe.model.target_vocab_size)

    def loss(batch: Batch) -> Tensor:
        logits = model(batch.source, source_lengths(batch), batch.target_in)
        return smoothed(logits, padded_target(batch))

    with torch.no_grad():
        loss(next(objective.batches("train", 0)))  # some of its layers are made at the first call
    gate.ready(model, about="one way, parts and our glue", **facts_of(objective, model, loss))
    train_until_closed(objective, model, loss, gate)
