"""`torch.nn.Transformer` between plain embeddings, with our weights and our batches."""

from typing import Any

from peers.corpus import TRANSFORMER, padded_target, training_task
from peers.gate import Gate, facts_of, losses_without_dropout, smoothed, train_for_ever
from peers.pipe import Pipe
from torch import Tensor
from transformer_training import Peer

from saccade.types.shapes import Batch


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train for ever, a window at a time."""
    gate = Gate(pipe)
    task = training_task(folder, **TRANSFORMER)
    ours: Any = task.model
    model = Peer(ours, same_dropout=True)

    def logits(batch: Batch) -> Tensor:
        state = model.init_state(model.encode(batch.source, batch.source_lengths))
        return model.compute_logits(model.decode_hidden(batch.target_in, state)[0])

    def loss(batch: Batch) -> Tensor:
        return smoothed(logits(batch), padded_target(batch))

    facts = {**losses_without_dropout(task, model, logits), **facts_of(task, model, loss)}
    gate.ready(model, **facts, about="pre-norm, fused AdamW")
    train_for_ever(task, model, loss, gate)
