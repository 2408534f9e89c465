"""`model.activation` of the models of text: all names work, and defaults are unchanged."""

import pytest
import torch

from saccade.inference.engine import make_decoder
from saccade.models.config import GPTConfig, TransformerXLConfig
from saccade.models.gpt import GPT
from saccade.models.transformer_xl import TransformerXL
from saccade.nn.activations import ACTIVATIONS

SIZES = {"vocab_size": 9, "width": 8, "depth": 2, "heads": 2, "hidden": 12}


def made(kind: str, **more: str) -> GPT | TransformerXL:
    torch.manual_seed(0)
    if kind == "transformer_xl":
        return TransformerXL(TransformerXLConfig(**SIZES, segment_length=6, **more)).double().eval()
    return GPT(GPTConfig(name=kind, context_length=6, **SIZES, **more)).double().eval()


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "transformer_xl"])
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@torch.no_grad()
def test_activation_keeps_cache_consistency(kind: str, name: str) -> None:
    model = made(kind, activation=name)
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    assert all(block.feed_forward.activation is ACTIVATIONS[name] for block in model.blocks)
    ids = torch.randint(9, (2, 6))
    whole, _ = model.step(ids, model.init_state(ids))
    for steps in (model, make_decoder(model)):
        state = steps.init_state(ids)
        for t in range(6):
            logits, state = steps.step(ids[:, t : t + 1], state)
            torch.testing.assert_close(logits[:, 0], whole[:, t])


@pytest.mark.parametrize(("kind", "name"), [("gpt2", "gelu"), ("transformer_xl", "relu")])
def test_activation_default_is_unchanged(kind: str, name: str) -> None:
    assert all(block.feed_forward.activation is ACTIVATIONS[name] for block in made(kind).blocks)
    assert made(kind).state_dict().keys() == made(kind, activation="tanh").state_dict().keys()
