"""Ours: the task, the optimiser and the loop that `saccade train` uses, compiled or not."""

import time

import torch
from peers.gate import Gate
from peers.letters import language_task
from peers.pipe import THREADS, Pipe
from peers.train_saccade import train_ours

from saccade.data.vocabulary import EOS
from saccade.decoding import SpecialTokens, greedy_search
from saccade.tasks.reading import NO_TOKEN, PromptedDecoder


def compete(pipe: Pipe, what: str, kind: str) -> None:
    """Train for ever, a window at a time; or write."""
    if what == "write":
        _write(pipe, kind)
        return
    train_ours(Gate(pipe), language_task(kind, compile=what == "compiled"))


def _write(pipe: Pipe, kind: str) -> None:
    """Go on with the prompts that come, the likeliest token each time."""
    torch.set_num_threads(THREADS)
    task = language_task(kind)
    task.model.eval()
    stepper, special_tokens = PromptedDecoder(task.fast_decoder), SpecialTokens(EOS, NO_TOKEN, ())
    parameters = sum(weight.numel() for weight in task.model.parameters())
    pipe.say(parameters=parameters, about="its own search")
    while command := pipe.hear():
        prompts = torch.tensor(command["prompts"])
        max_lengths = torch.full((len(prompts),), command["tokens"])
        began = time.perf_counter()
        with torch.inference_mode():
            for _ in range(command["repeats"]):
                found = greedy_search(
                    stepper, prompts, special_tokens=special_tokens, max_lengths=max_lengths
                )
        seconds = time.perf_counter() - began
        pipe.say(answers=[answer.ids for answer in found], seconds=seconds)
