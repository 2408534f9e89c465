"""Models of text: the future is not seen, and a text gives the same however it is cut."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from saccade.models.bidirectional_lm import BidirectionalLM
from saccade.models.config import (
    BidirectionalLMConfig,
    ConvLMConfig,
    GPTConfig,
    NNLMConfig,
    RecurrentLMConfig,
    TransformerXLConfig,
)
from saccade.models.conv_lm import ConvLM
from saccade.models.gpt import GPT
from saccade.models.nnlm import NNLM
from saccade.models.rnn_lm import RecurrentLM
from saccade.models.transformer_xl import TransformerXL
from saccade.nn.activations import ACTIVATIONS
from saccade.types.shapes import select_rows

VOCAB = 11
SMALL = {"vocab_size": VOCAB, "width": 8, "depth": 2, "dropout": 0.0}


def gpt(name, **settings):
    return GPT(
        GPTConfig(name=name, heads=2, **SMALL | {"context_length": 6, "band_width": 2} | settings)
    )


def xl(**settings):
    return TransformerXL(TransformerXLConfig(heads=2, **SMALL | {"segment_length": 5} | settings))


MODELS = {
    **{name: lambda name=name: gpt(name) for name in ("gpt1", "gpt2", "gpt3")},
    "gpt2, odd context": lambda: gpt("gpt2", context_length=7),
    "gpt2, rotary": lambda: gpt("gpt2", positions="rotary"),
    "gpt3, rotary": lambda: gpt("gpt3", positions="rotary", depth=3),
    "transformer_xl": xl,
    "transformer_xl, post-norm": lambda: xl(norm_first=False),
    "transformer_xl, no memory": lambda: xl(memory_length=0),
    "transformer_xl, short memory": lambda: xl(memory_length=2),
    "transformer_xl, long memory": lambda: xl(memory_length=12),
    "nnlm": lambda: NNLM(NNLMConfig(vocab_size=VOCAB, width=6, hidden=7, order=4, dropout=0.0)),
    "nnlm, direct": lambda: NNLM(
        NNLMConfig(
            vocab_size=VOCAB, width=6, hidden=7, order=3, direct_connections=True, dropout=0.0
        )
    ),
    **{
        cell: lambda cell=cell: RecurrentLM(RecurrentLMConfig(name=cell, **SMALL))
        for cell in ("rnn", "gru", "gru_reset_first", "lstm")
    },
    **{
        f"{cell}, one-hot": lambda cell=cell: RecurrentLM(
            RecurrentLMConfig(name=cell, input="one_hot", **SMALL)
        )
        for cell in ("gru", "lstm")
    },
    "conv_lm": lambda: ConvLM(ConvLMConfig(**SMALL)),
}


def made(name):
    torch.manual_seed(0)
    return MODELS[name]().double().eval()


def whole(model, ids):
    return model.step(ids, model.init_state(ids))[0]


every_model = pytest.mark.parametrize("name", list(MODELS))


@every_model
@settings(max_examples=8, deadline=None)
@given(data=st.data())
@torch.no_grad()
def test_language_model_logits_do_not_depend_on_chunking(name, data):
    model = made(name)
    length = data.draw(st.integers(1, 30))
    ids = torch.randint(VOCAB, (2, length), generator=torch.Generator().manual_seed(length))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, length - 1)))))
    state, found = model.init_state(ids), []
    for first, last in zip([0, *cuts], [*cuts, length], strict=True):
        if first < last:
            logits, state = model.step(ids[:, first:last], state)
            found.append(logits)
    torch.testing.assert_close(torch.cat(found, dim=1), whole(model, ids))


@every_model
@settings(max_examples=8, deadline=None)
@given(length=st.integers(2, 30), data=st.data())
@torch.no_grad()
def test_language_model_is_causal(name, length, data):
    model = made(name)
    ids = torch.randint(VOCAB, (2, length), generator=torch.Generator().manual_seed(length))
    at = data.draw(st.integers(1, length - 1))
    changed = ids.clone()
    changed[:, at:] = (changed[:, at:] + 1) % VOCAB
    one, two = whole(model, ids), whole(model, changed)
    torch.testing.assert_close(one[:, :at], two[:, :at], rtol=0, atol=0)
    assert not torch.allclose(one[:, at], two[:, at])


@every_model
@torch.no_grad()
def test_language_model_is_independent_of_batch_and_removed_rows(name):
    model = made(name)
    ids = torch.randint(VOCAB, (3, 17), generator=torch.Generator().manual_seed(3))
    _, state = model.step(ids[:, :8], model.init_state(ids))
    rows = torch.tensor([2, 0])
    state = state._replace(cache=select_rows(state.cache, rows))
    rest, _ = model.step(ids[rows, 8:], state)
    for row, logits in zip(rows.tolist(), rest, strict=True):
        torch.testing.assert_close(logits[None], whole(model, ids[row : row + 1])[:, 8:])


@every_model
def test_language_model_training_segment_equals_cached_reading(name):
    model = made(name)
    ids = torch.randint(VOCAB, (2, 5), generator=torch.Generator().manual_seed(5))
    hidden, _ = model.forward_segment(ids, model.init_segment_memory(2))
    with torch.no_grad():
        torch.testing.assert_close(hidden, model.forward_hidden(ids, model.init_cache(2))[0])
    hidden.square().sum().backward()
    words = model.output_layer.weight
    unused = [n for n, p in model.named_parameters() if p.grad is None and p is not words]
    assert all(name in ("bias", "output.weight", "output.bias") for name in unused), unused


# --- what is seen of a long text ------------------------------------------------------------------


@torch.no_grad()
def test_language_model_full_context_encodes_newest_half_again():
    model = made("gpt2, odd context")  # 7: the newest 3, and room for 4
    ids = torch.randint(VOCAB, (1, 19), generator=torch.Generator().manual_seed(1))
    found = whole(model, ids)
    for first, last in ((0, 7), (7, 11), (11, 15), (15, 19)):
        window = ids[:, max(0, first - 3) : last]
        torch.testing.assert_close(found[:, first:last], whole(model, window)[:, first - last :])


@pytest.mark.parametrize("name", ["gpt2, rotary", "gpt3, rotary"])
@torch.no_grad()
def test_language_model_rotary_context_slides(name):
    model = made(name)
    ids = torch.randint(VOCAB, (1, 60), generator=torch.Generator().manual_seed(1))
    found = whole(model, ids)
    reach = len(model.blocks) * (model.context_length - 1) + 1
    for at in (20, 37, 59):  # wherever it stands, it sees the same way back
        seen = ids[:, at + 1 - reach : at + 1]
        torch.testing.assert_close(found[:, at], whole(model, seen)[:, -1])
    state = model.init_state(ids)
    for one in ids.split(1, dim=1):
        _, state = model.step(one, state)
    assert all(layer.length < 2 * model.context_length for layer in state.cache.layers)


@torch.no_grad()
def test_language_model_segments_with_memory_equal_one_long_segment():
    short = made("transformer_xl")
    long = xl(segment_length=10).double().eval()
    long.load_state_dict(short.state_dict())
    ids = torch.randint(VOCAB, (2, 10), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(whole(short, ids), whole(long, ids))
    segment_memory, found = short.init_segment_memory(2), []
    for segment in ids.split(5, dim=1):
        hidden, segment_memory = short.forward_segment(segment, segment_memory)
        found.append(short.compute_logits(hidden))
    torch.testing.assert_close(torch.cat(found, dim=1), whole(long, ids))
    without = xl(memory_length=0).double().eval()
    without.load_state_dict(short.state_dict())
    assert not torch.allclose(whole(without, ids)[:, 5:], whole(long, ids)[:, 5:])


@torch.no_grad()
def test_language_model_memory_is_updated_at_segment_ends():
    model = made("transformer_xl, short memory")  # 2 of a segment of 5
    ids = torch.randint(VOCAB, (1, 14), generator=torch.Generator().manual_seed(2))
    state, lengths = model.init_state(ids), []
    for one in ids.split(1, dim=1):
        _, state = model.step(one, state)
        lengths.append(state.cache.layers[0].length)
    assert lengths == [1, 2, 3, 4, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6]


def test_language_model_gradient_stops_at_segment_start():
    model = made("transformer_xl")
    ids = torch.randint(VOCAB, (2, 10), generator=torch.Generator().manual_seed(2))
    _, segment_memory = model.forward_segment(ids[:, :5], model.init_segment_memory(2))
    assert not any(part.requires_grad for part in segment_memory)
    hidden, _ = model.forward_segment(ids[:, 5:], segment_memory)
    hidden.sum().backward()
    # the memory's keys are made by weights as they are now, and teach them
    assert model.blocks[0].self_attention.key_value.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", ["tanh", "relu", "silu"])
@torch.no_grad()
def test_language_model_nnlm_equals_equation(name):
    torch.manual_seed(0)
    chosen = {} if name == "tanh" else {"activation": name}
    sizes = {"width": 6, "hidden": 7, "order": 3, "direct_connections": True, "dropout": 0.0}
    model = NNLM(NNLMConfig(vocab_size=VOCAB, **sizes, **chosen)).double().eval()
    ids = torch.randint(VOCAB, (1, 4), generator=torch.Generator().manual_seed(4))
    E, H, d = model.table.weight, model.inner.weight, model.inner.bias
    UW, b = model.output.weight, model.output.bias
    empty = torch.zeros(6, dtype=torch.double)
    for t in range(4):
        words = [E[ids[0, t - 1]] if t else empty, E[ids[0, t]]]  # the oldest first
        x = torch.cat(words)
        logits = b + UW[:, :7] @ ACTIVATIONS[name](d + H @ x) + UW[:, 7:] @ x
        torch.testing.assert_close(whole(model, ids)[0, t], logits)


# --- how they start -------------------------------------------------------------------------------


def test_language_model_residual_init_shrinks_with_depth():
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=50, width=64, depth=8, heads=4, context_length=8))
    block = model.blocks[3]
    for last in (block.self_attention.out, block.feed_forward.outer):
        assert last.weight.std().item() == pytest.approx(0.02 / math.sqrt(16), rel=0.1)
    assert block.feed_forward.inner.weight.std().item() == pytest.approx(0.02, rel=0.1)
    first = GPT(GPTConfig(name="gpt1", vocab_size=50, width=64, depth=8, heads=4, context_length=8))
    assert first.blocks[3].feed_forward.outer.weight.std().item() == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("name", ["gpt1", "gpt2", "gpt3"])
def test_language_model_gpt_variants_differ_in_bands_and_norms(name):
    model = gpt(name, depth=4)
    bands = [block.window for block in model.blocks]
    assert bands == ([None, 2, None, 2] if name == "gpt3" else [None] * 4)
    assert all(block.around_attention.norm_first == (name != "gpt1") for block in model.blocks)


def test_language_model_refuses_context_of_one():
    with pytest.raises(ValueError, match="got context_length=1; expected 2 or more"):
        gpt("gpt2", context_length=1)
    with pytest.raises(ValueError, match="got segment_length=0; expected 1 or more"):
        xl(segment_length=0)


@pytest.mark.parametrize("cell", ["rnn", "gru", "gru_reset_first", "lstm"])
@torch.no_grad()
def test_one_hot_input_equals_an_embedding(cell: str) -> None:
    """W x of a one-hot x is a column of W: W E of a model with embeddings gives its logits."""
    torch.manual_seed(2)
    embedded, one_hot = (
        RecurrentLM(RecurrentLMConfig(name=cell, input=kind, **SMALL)).double()
        for kind in ("embedding", "one_hot")
    )
    weights = embedded.state_dict()
    name = next(
        name
        for name in weights
        if weights[name].dim() == 2 and one_hot.state_dict()[name].shape != weights[name].shape
    )
    rows = embedded.embedding_scale * embedded.table.weight
    one_hot.load_state_dict(weights | {name: weights[name] @ rows.T})
    ids = torch.randint(VOCAB, (3, 12))
    torch.testing.assert_close(one_hot(ids), embedded(ids))
    loop = torch.zeros(VOCAB, dtype=torch.float64)
    loop[ids[1, 4]] = 1
    assert torch.equal(one_hot.embed(ids)[1, 4], loop)


@torch.no_grad()
def test_one_hot_input_of_the_bidirectional_model_equals_an_embedding() -> None:
    torch.manual_seed(2)
    embedded, one_hot = (
        BidirectionalLM(BidirectionalLMConfig(input=kind, **SMALL)).double()
        for kind in ("embedding", "one_hot")
    )
    weights = embedded.state_dict()
    rows = embedded.table.weight * SMALL["width"] ** 0.5
    for stack in ("forward_stack", "backward_stack"):
        name = f"{stack}.layers.0.weight_ih_l0"
        weights[name] = weights[name] @ rows.T
    one_hot.load_state_dict(weights)
    ids, lengths = torch.randint(VOCAB, (3, 6)), torch.tensor([6, 2, 4])
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(
            one_hot(ids, lengths)[row, :length], embedded(ids, lengths)[row, :length]
        )


@pytest.mark.parametrize("embedding_std", [None, 0.3])
def test_language_model_inputs_have_unit_variance_for_any_embedding_std(
    embedding_std: float | None,
) -> None:
    config = RecurrentLMConfig(
        name="lstm", vocab_size=500, width=64, dropout=0.0, embedding_std=embedding_std
    )
    model = RecurrentLM(config)
    assert float(model.table.weight.detach().std()) == pytest.approx(
        embedding_std or 1 / 8, rel=0.05
    )
    read: list[Tensor] = []
    model.layers.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    model.forward_hidden(torch.arange(500)[None], model.init_cache(1))
    assert float(read[0].detach().std()) == pytest.approx(1, rel=0.05)
