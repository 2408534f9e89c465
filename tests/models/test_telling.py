"""A GPT with few calls is the GPT: step by step, beyond its context, with rows that move."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.models.gpt import GPT, GPTConfig
from saccade.models.writing import Teller, writer
from saccade.types import rearrange

VOCAB = 11


def model_of(name, **settings):
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "width": 16, "depth": 2, "heads": 2, "context": 9, "band": 3}
    return GPT(GPTConfig(name=name, **sizes | settings)).double().eval()


@pytest.mark.parametrize("name", ["gpt1", "gpt2", "gpt3"])
@settings(max_examples=6, deadline=None)
@given(prompt=st.integers(1, 20), more=st.integers(1, 25), rows=st.integers(1, 3))
@torch.no_grad()
def test_its_steps_are_the_models(name, prompt, more, rows):
    model = model_of(name)
    steps = writer(model)
    assert isinstance(steps, Teller)
    luck = torch.Generator().manual_seed(prompt)
    ids = torch.randint(VOCAB, (rows, prompt + more), generator=luck)
    wanted, _ = model.step(ids, model.start(ids))
    found, state = steps.step(ids[:, :prompt], steps.start(ids))
    logits = [found]
    for one in ids[:, prompt:].split(1, dim=1):
        found, state = steps.step(one, state)
        logits.append(found)
    torch.testing.assert_close(torch.cat(logits, dim=1), wanted)


@torch.no_grad()
def test_rows_can_move():
    model = model_of("gpt2")
    steps = writer(model)
    ids = torch.randint(VOCAB, (3, 14), generator=torch.Generator().manual_seed(3))
    _, state = steps.step(ids[:, :5], steps.start(ids))
    rows = [2, 0]
    state = state._replace(past=rearrange(state.past, rows))
    for t in range(5, 14):
        found, state = steps.step(ids[rows, t : t + 1], state)
    torch.testing.assert_close(found[:, 0], model.step(ids[rows], model.start(ids[rows]))[0][:, -1])


def test_what_it_does_not_know_is_left_to_the_model():
    slides = model_of("gpt2", positions="rotary")
    assert writer(slides) is slides
    training = model_of("gpt2").train()
    assert writer(training) is training
    model = model_of("gpt2")
    known = writer(model)
    assert writer(model, known) is known
    with torch.no_grad():
        model.table.weight.mul_(2)
    assert writer(model, known) is not known
    absent = model_of("gpt2", absent=[1, 3])
    ids = torch.randint(VOCAB, (1, 4))
    with torch.no_grad():
        torch.testing.assert_close(
            writer(absent).step(ids, writer(absent).start(ids))[0],
            absent.step(ids, absent.start(ids))[0],
        )
