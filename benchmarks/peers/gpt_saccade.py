"""Our GPT: the objective, optimiser and loop of `saccade train`, compiled or not."""

import time

import torch
from peers.gate import Gate
from peers.letters import language_objective
from peers.pipe import THREADS, Pipe
from peers.train_saccade import train_ours

from saccade.data.special_tokens import EOS
from saccade.decoding import PromptedDecoder, SpecialTokens, greedy_search
from saccade.inference.engine import make_decoder
from saccade.tasks.language_modeling.predict import NO_TOKEN


def compete(pipe: Pipe, what: str, kind: str) -> None:
    """Train until the pipe is closed, one measurement window at a time; or generate."""
    if what == "write":
        _generate(pipe, kind)
        return
    train_ours(Gate(pipe), language_objective(kind, compile=what == "compiled"))


def _generate(pipe: Pipe, kind: str) -> None:
    """Continue the prompts that arrive on the pipe, greedily."""
    torch.set_num_threads(THREADS)
    model = language_objective(kind).model.eval()
    stepper, special_tokens = PromptedDecoder(make_decoder(model)), SpecialTokens(EOS, NO_TOKEN, ())
    parameters = sum(weight.numel() for weight in model.parameters())
    pipe.send(parameters=parameters, about="its own search")
    while command := pipe.receive():
        prompts = torch.tensor(command["prompts"])
        max_lengths = torch.full((len(prompts),), command["tokens"])
        start = time.perf_counter()
        with torch.inference_mode():
            for _ in range(command["repeats"]):
                found = greedy_search(
                    stepper, prompts, special_tokens=special_tokens, max_lengths=max_lengths
                )
        seconds = time.perf_counter() - start
        pipe.send(answers=[answer.ids for answer in found], seconds=seconds)
