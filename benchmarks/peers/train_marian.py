"""Hugging Face's Marian made from a configuration, with our weights and our batches.

It has the paper's order of norms only, so it is compared in loss with our model in that order.
"""

from peers.corpus import TRANSFORMER, padded_target, training_task
from peers.gate import Gate, facts_of, losses_without_dropout, smoothed, train_for_ever
from peers.marian import hugging_face, seen
from peers.pipe import Pipe
from torch import Tensor

from saccade.types.shapes import Batch


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train for ever, a window at a time."""
    gate = Gate(pipe)
    task = training_task(folder, **TRANSFORMER, norm_first=False)
    model = hugging_face(task.model, task.recipe.model)

    def logits(batch: Batch) -> Tensor:
        return model(
            input_ids=batch.source,
            attention_mask=seen(batch.source),
            decoder_input_ids=batch.target_in,
            use_cache=False,
        ).logits

    def loss(batch: Batch) -> Tensor:
        return smoothed(logits(batch), padded_target(batch))

    facts = {**losses_without_dropout(task, model, logits), **facts_of(task, model, loss)}
    gate.ready(model, **facts, about="post-norm, fused AdamW")
    train_for_ever(task, model, loss, gate)
