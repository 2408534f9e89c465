"""Hugging Face's GPT-2 made from a configuration, with our weights and our batches."""

import time
from typing import Any

import torch
import torch.nn.functional as F
from peers.gate import Gate, facts_of, train_for_ever
from peers.letters import language_task
from peers.pipe import THREADS, Pipe
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from saccade.interop.huggingface_gpt2 import to_gpt2_weights
from saccade.tasks.language import NeuralLMTask
from saccade.tasks.text import LMBatch


def hugging_face(task: NeuralLMTask) -> Any:
    """Their model with the weights of ours."""
    ours = task.recipe.model
    assert ours.name == "gpt2"
    config = GPT2Config(
        vocab_size=ours.vocab_size,
        n_positions=ours.context,
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
    missing, strange = model.load_state_dict(to_gpt2_weights(ours, task.weights()), strict=False)
    assert not strange and set(missing) <= {"lm_head.weight"}, (missing, strange)
    model.tie_weights()
    return model


def compete(pipe: Pipe, what: str, kind: str) -> None:
    """Train for ever, a window at a time; or write."""
    if what == "write":
        _write(pipe, kind)
        return
    gate = Gate(pipe)
    task = language_task(kind)
    model = hugging_face(task)
    run = torch.compile(model) if what == "compiled" else model

    def loss_of(called: Any, batch: LMBatch) -> Tensor:
        logits = called(input_ids=batch.segments.inputs, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), batch.segments.targets.flatten())

    with torch.no_grad():
        batch = next(task.batches("train", 0))
        task.model.eval()
        model.eval()
        found = {
            "loss": float(loss_of(model, batch)),
            "ours": float(task.loss(batch).total) / batch.tokens,
        }
    facts = {**found, **facts_of(task, model, lambda batch: loss_of(model, batch))}
    gate.ready(model, **facts, about="fused AdamW")
    train_for_ever(task, model, lambda batch: loss_of(run, batch), gate)


def _write(pipe: Pipe, kind: str) -> None:
    torch.set_num_threads(THREADS)
    model = hugging_face(language_task(kind)).eval()
    pipe.say(parameters=sum(p.numel() for p in model.parameters()), about="generate")
    while command := pipe.hear():
        prompts = torch.tensor(command["prompts"])
        how = {"max_new_tokens": command["tokens"], "do_sample": False, "pad_token_id": 0}
        began = time.perf_counter()
        for _ in range(command["repeats"]):
            found = model.generate(prompts, attention_mask=torch.ones_like(prompts), **how)
        seconds = time.perf_counter() - began
        pipe.say(answers=found[:, prompts.shape[1] :].tolist(), seconds=seconds)
