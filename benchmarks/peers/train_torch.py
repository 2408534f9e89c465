"""`torch.nn.Transformer` with our embeddings, weights and batches."""

from typing import Any

from peers.corpus import TRANSFORMER, padded_target, training_objective
from peers.gate import Gate, facts_of, losses_without_dropout, smoothed, train_until_closed
from peers.pipe import Pipe
from torch import Tensor
from transformer_training import Peer

from saccade.types.shapes import Batch


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train until the pipe is closed, one measurement window at a time."""
    gate = Gate(pipe)
    objective = training_objective(folder, **TRANSFORMER)
    ours: Any = objective.model
    model = Peer(ours, same_dropout=True)

    def logits(batch: Batch) -> Tensor:
        state = model.init_state(model.encode(batch.source, batch.source_lengths))
        return model.compute_logits(model.decode_hidden(batch.target_in, state)[0])

    def loss(batch: Batch) -> Tensor:
        return smoothed(logits(batch), padded_target(batch))

    facts = {**losses_without_dropout(objective, model, logits), **facts_of(objective, model, loss)}
    gate.ready(model, **facts, about="pre-norm, fused AdamW")
    train_until_closed(objective, model, loss, gate)
