"""Hugging Face's Marian built from a configuration, with our weights and batches.

It is post-norm only, so its loss is compared with our post-norm model.
"""

from peers.corpus import TRANSFORMER, padded_target, training_objective
from peers.gate import Gate, facts_of, losses_without_dropout, smoothed, train_until_closed
from peers.marian import attention_mask, hugging_face
from peers.pipe import Pipe
from torch import Tensor

from saccade.types.shapes import Batch


def compete(pipe: Pipe, folder: str, kind: str) -> None:
    """Train until the pipe is closed, one measurement window at a time."""
    gate = Gate(pipe)
    objective = training_objective(folder, **TRANSFORMER, norm_first=False)
    model = hugging_face(objective.model, objective.recipe.model)

    def logits(batch: Batch) -> Tensor:
        return model(
            input_ids=batch.source,
            attention_mask=attention_mask(batch.source),
            decoder_input_ids=batch.target_in,
            use_cache=False,
        ).logits

    def loss(batch: Batch) -> Tensor:
        return smoothed(logits(batch), padded_target(batch))

    facts = {**losses_without_dropout(objective, model, logits), **facts_of(objective, model, loss)}
    gate.ready(model, **facts, about="post-norm, fused AdamW")
    train_until_closed(objective, model, loss, gate)
