"""Hugging Face's BertForMaskedLM built from a configuration, with our weights and batches."""

from typing import Any

import torch
from peers.bert_text import masked_objective
from peers.gate import Gate, facts_of, train_until_closed
from peers.pipe import Pipe
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from saccade.interop.bert_weights import MASKED_HEAD_NAMES, to_huggingface_weights
from saccade.tasks.masked_language_modeling.objective import MaskedBatch, MaskedLMObjective

NOT_A_TARGET = -100  # label that their loss leaves out


def hugging_face(objective: MaskedLMObjective) -> Any:
    """Return their model with our weights."""
    ours: Any = objective.recipe.model
    config = BertConfig(
        vocab_size=ours.vocab_size,
        hidden_size=ours.width,
        num_hidden_layers=ours.depth,
        num_attention_heads=ours.heads,
        intermediate_size=4 * ours.width,
        max_position_embeddings=ours.max_length,
        type_vocab_size=ours.segments,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForMaskedLM(config)
    weights = objective.model.state_dict()
    encoder = {name.removeprefix("encoder."): value for name, value in weights.items()}
    theirs = to_huggingface_weights(ours, encoder, "bert.")
    theirs |= {name: weights[own] for own, name in MASKED_HEAD_NAMES.items()}
    missing, unexpected = model.load_state_dict(theirs, strict=False)
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert not unexpected and set(missing) <= tied, (missing, unexpected)
    model.tie_weights()
    return model


def compete(pipe: Pipe, size: str) -> None:
    """Train until the pipe is closed, one measurement window at a time."""
    gate = Gate(pipe)
    objective = masked_objective(size)
    model = hugging_face(objective)

    def loss_of(batch: MaskedBatch) -> Tensor:
        labels = torch.full_like(batch.ids, NOT_A_TARGET).flatten()
        labels[batch.positions] = batch.targets
        return model(input_ids=batch.ids, labels=labels.view_as(batch.ids)).loss

    with torch.no_grad():
        batch = next(objective.batches("train", 0))
        objective.model.eval()
        model.eval()
        found = {
            "loss": float(loss_of(batch)),
            "ours": float(objective.loss(batch).total) / batch.tokens,
        }
    facts: Any = {**found, **facts_of(objective, model, loss_of)}
    gate.ready(model, **facts, about="fused AdamW")
    train_until_closed(objective, model, loss_of, gate)
