"""Hugging Face's GPT-2 built from a configuration, with our weights and batches."""

import time
from typing import Any

import torch
import torch.nn.functional as F
from peers.gate import Gate, facts_of, train_until_closed
from peers.letters import language_objective
from peers.pipe import THREADS, Pipe
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from saccade.interop.huggingface_gpt2 import to_gpt2_weights
from saccade.tasks.language_modeling.data import LMBatch
from saccade.tasks.language_modeling.objective import LanguageObjective


def hugging_face(objective: LanguageObjective) -> Any:
    """Return their model with our weights."""
    ours = objective.recipe.model
    assert ours.name == "gpt2"
    config = GPT2Config(
        vocab_size=ours.vocab_size,
        n_positions=ours.context_length,
        n_embd=ours.width,
        n_layer=ours.depth,
        n_head=ours.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = GPT2LMHeadModel(config)
    missing, unexpected = model.load_state_dict(
        to_gpt2_weights(ours, objective.model.state_dict()), strict=False
    )
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model


def compete(pipe: Pipe, what: str, kind: str) -> None:
    """Train until the pipe is closed, one measurement window at a time; or generate."""
    if what == "write":
        _generate(pipe, kind)
        return
    gate = Gate(pipe)
    objective = language_objective(kind)
    model = hugging_face(objective)
    run = torch.compile(model) if what == "compiled" else model

    def loss_of(called: Any, batch: LMBatch) -> Tensor:
        logits = called(input_ids=batch.segments.inputs, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), batch.segments.targets.flatten())

    with torch.no_grad():
        batch = next(objective.batches("train", 0))
        objective.model.eval()
        model.eval()
        found = {
            "loss": float(loss_of(model, batch)),
            "ours": float(objective.loss(batch).total) / batch.tokens,
        }
    facts = {**found, **facts_of(objective, model, lambda batch: loss_of(model, batch))}
    gate.ready(model, **facts, about="fused AdamW")
    train_until_closed(objective, model, lambda batch: loss_of(run, batch), gate)


def _generate(pipe: Pipe, kind: str) -> None:
    torch.set_num_threads(THREADS)
    model = hugging_face(language_objective(kind)).eval()
    pipe.send(parameters=sum(p.numel() for p in model.parameters()), about="generate")
    while command := pipe.receive():
        prompts = torch.tensor(command["prompts"])
        how = {"max_new_tokens": command["tokens"], "do_sample": False, "pad_token_id": 0}
        start = time.perf_counter()
        for _ in range(command["repeats"]):
            found = model.generate(prompts, attention_mask=torch.ones_like(prompts), **how)
        seconds = time.perf_counter() - start
        pipe.send(answers=found[:, prompts.shape[1] :].tolist(), seconds=seconds)
