"""A GPT with few calls is the GPT: step by step, beyond its context, with rows that move."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.inference.engine import make_decoder
from saccade.inference.fused_gpt import FusedGPTDecoder
from saccade.models.config import GPTConfig
from saccade.models.gpt import GPT
from saccade.types.shapes import reorder_rows

VOCAB = 11


def model_of(name, **settings):
    torch.manual_seed(0)
    sizes = {
        "vocab_size": VOCAB,
        "width": 16,
        "depth": 2,
        "heads": 2,
        "context_length": 9,
        "band_width": 3,
    }
    return GPT(GPTConfig(name=name, **sizes | settings)).double().eval()


@pytest.mark.parametrize("name", ["gpt1", "gpt2", "gpt3"])
@settings(max_examples=6, deadline=None)
@given(prompt=st.integers(1, 20), more=st.integers(1, 25), rows=st.integers(1, 3))
@torch.no_grad()
def test_fused_gpt_steps_equal_model(name, prompt, more, rows):
    model = model_of(name)
    steps = make_decoder(model)
    assert isinstance(steps, FusedGPTDecoder)
    rng = torch.Generator().manual_seed(prompt)
    ids = torch.randint(VOCAB, (rows, prompt + more), generator=rng)
    expected, _ = model.step(ids, model.init_state(ids))
    found, state = steps.step(ids[:, :prompt], steps.init_state(ids))
    logits = [found]
    for one in ids[:, prompt:].split(1, dim=1):
        found, state = steps.step(one, state)
        logits.append(found)
    torch.testing.assert_close(torch.cat(logits, dim=1), expected)


@torch.no_grad()
def test_fused_gpt_rows_can_be_reordered():
    model = model_of("gpt2")
    steps = make_decoder(model)
    ids = torch.randint(VOCAB, (3, 14), generator=torch.Generator().manual_seed(3))
    _, state = steps.step(ids[:, :5], steps.init_state(ids))
    rows = [2, 0]
    state = state._replace(cache=reorder_rows(state.cache, rows))
    for t in range(5, 14):
        found, state = steps.step(ids[rows, t : t + 1], state)
    torch.testing.assert_close(
        found[:, 0], model.step(ids[rows], model.init_state(ids[rows]))[0][:, -1]
    )


def test_fused_gpt_falls_back_for_unsupported_settings():
    slides = model_of("gpt2", positions="rotary")
    assert make_decoder(slides) is slides
    training = model_of("gpt2").train()
    assert make_decoder(training) is training
    model = model_of("gpt2")
    known = make_decoder(model)
    assert make_decoder(model, previous=known) is known
    with torch.no_grad():
        model.table.weight.mul_(2)
    assert make_decoder(model, previous=known) is not known
    absent = model_of("gpt2", missing_tokens=[1, 3])
    ids = torch.randint(VOCAB, (1, 4))
    with torch.no_grad():
        torch.testing.assert_close(
            make_decoder(absent).step(ids, make_decoder(absent).init_state(ids))[0],
            absent.step(ids, absent.init_state(ids))[0],
        )
