"""`make_decoder` chooses the engine by name and reports it."""

import pytest
import torch

from saccade.errors import ConfigError
from saccade.inference.engine import make_decoder
from saccade.models import (
    GPT,
    Bahdanau,
    BahdanauConfig,
    GPTConfig,
    Transformer,
    TransformerConfig,
)


def gpt(**options):
    config = GPTConfig(vocab_size=7, width=8, heads=2, depth=1, context_length=4, **options)
    return GPT(config).eval()


def test_engine_torch_is_the_model_itself():
    model = gpt()
    decoder = make_decoder(model, "torch")
    assert decoder is model and decoder.engine_name == "torch"


@pytest.mark.parametrize(
    "model",
    [
        gpt(),
        Transformer(
            TransformerConfig(source_vocab_size=7, target_vocab_size=7, width=8, heads=2)
        ).eval(),
    ],
    ids=["gpt", "transformer"],
)
def test_engine_fused_reports_its_name(model):
    assert make_decoder(model, "fused").engine_name == "fused"
    assert make_decoder(model).engine_name == "fused"


@pytest.mark.parametrize(
    "model",
    [
        gpt(positions="rotary"),
        gpt().train(),
        Bahdanau(BahdanauConfig(source_vocab_size=7, target_vocab_size=7, width=4)).eval(),
    ],
    ids=["rotary", "training", "bahdanau"],
)
def test_engine_fused_falls_back_to_torch_and_reports_it(model):
    decoder = make_decoder(model, "fused")
    assert decoder is model and decoder.engine_name == "torch"


def test_engine_torch_ignores_a_previous_fused_decoder():
    model = gpt()
    assert make_decoder(model, "torch", previous=make_decoder(model)) is model


def test_engine_with_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match="no engine 'fusd'. Did you mean 'fused'"):
        make_decoder(gpt(), "fusd")


def test_engines_compute_the_same_logits():
    torch.manual_seed(0)
    model, ids = gpt().double(), torch.randint(7, (2, 9))
    with torch.no_grad():
        results = []
        for engine in ("torch", "fused"):
            decoder = make_decoder(model, engine)
            logits, state = decoder.step(ids[:, :1], decoder.init_state(ids))
            for t in range(1, 9):
                logits, state = decoder.step(ids[:, t : t + 1], state)
            results.append(logits)
    torch.testing.assert_close(*results)
