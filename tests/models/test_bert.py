"""The BERT encoder against Hugging Face's, its sizes and its invariances."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.inspection.attention import capture_attention
from saccade.interop.bert_weights import from_huggingface_weights, to_huggingface_weights
from saccade.models.bert import BertEncoder
from saccade.models.bert_config import BERT_SIZES, BertConfig

SMALL = {"vocab_size": 23, "width": 12, "depth": 3, "heads": 3, "hidden": 20, "max_length": 16}


def made(**more) -> BertEncoder:
    torch.manual_seed(0)
    encoder = BertEncoder(BertConfig(**SMALL | more)).double().eval()
    for parameter in encoder.parameters():  # so that no bias is zero
        parameter.data += 0.3 * torch.randn_like(parameter)
    return encoder


@pytest.fixture(scope="module")
def theirs():
    """Hugging Face's BertModel with random weights, biases and norms too."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=23,
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    model = transformers.BertModel(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


@torch.no_grad()
def test_encoder_equals_transformers(theirs):
    config = BertConfig(**SMALL)
    weights = from_huggingface_weights(config, theirs.state_dict())
    encoder = BertEncoder(config).eval()
    encoder.load_state_dict(weights)
    ids, segments = torch.randint(23, (4, 9)), torch.randint(2, (4, 9))
    lengths = torch.tensor([9, 4, 1, 7])
    real = torch.arange(9) < lengths[:, None]
    found = theirs(
        input_ids=ids,
        token_type_ids=segments,
        attention_mask=real.long(),
        output_hidden_states=True,
        output_attentions=True,
    )
    with capture_attention(encoder) as recorder:
        hidden = encoder(ids, segments, lengths)
    torch.testing.assert_close(hidden[real], found.last_hidden_state[real], atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.pool(hidden), found.pooler_output, atol=1e-5, rtol=0)
    for own, other in zip(
        encoder.hidden_states(ids, segments, lengths), found.hidden_states, strict=True
    ):
        torch.testing.assert_close(own[real], other[real], atol=1e-5, rtol=0)
    captured = [recorder.weights(name) for name in recorder.names()]
    for own, other in zip(captured, found.attentions, strict=True):
        for row, length in enumerate(lengths):  # of real queries
            torch.testing.assert_close(
                own[row, :, :length], other[row, :, :length], atol=1e-5, rtol=0
            )
    back = to_huggingface_weights(config, encoder.state_dict())
    assert back.keys() == theirs.state_dict().keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in theirs.state_dict().items())


@pytest.mark.parametrize(("size", "count"), [("base", 109_482_240), ("large", 335_141_888)])
def test_sizes_have_the_published_parameter_counts(size, count):
    with torch.device("meta"):  # Devlin et al. 2019, section 3, as counted in their checkpoints
        encoder = BertEncoder(BertConfig(vocab_size=30522, **BERT_SIZES[size]))
    assert sum(parameter.numel() for parameter in encoder.parameters()) == count


@settings(max_examples=10)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 3))
@torch.no_grad()
def test_padding_and_neighbours_do_not_matter(lengths, extra):
    encoder = made()
    longest = max(lengths) + extra
    ids = torch.randint(23, (len(lengths), longest))
    segments = torch.randint(2, (len(lengths), longest))
    together = encoder(ids, segments, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone = encoder(ids[row : row + 1, :length], segments[row : row + 1, :length])
        torch.testing.assert_close(together[row, :length], alone[0])


@torch.no_grad()
def test_segments_default_to_the_first():
    encoder = made()
    ids = torch.randint(23, (2, 5))
    torch.testing.assert_close(encoder(ids), encoder(ids, torch.zeros_like(ids)))
    assert not torch.allclose(encoder(ids), encoder(ids, torch.ones_like(ids)))


def test_halves_compose_and_every_weight_gets_a_gradient():
    encoder = made()
    ids, segments = torch.randint(23, (3, 16)), torch.randint(2, (3, 16))
    hidden = encoder.encode(encoder.embed(ids, segments))
    torch.testing.assert_close(hidden, encoder(ids, segments))
    encoder.pool(hidden).square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_too_long_input_and_a_missing_pooler_are_refused():
    encoder = made(pooler=False)
    with pytest.raises(ValueError, match="got 17 positions; expected at most 16"):
        encoder(torch.zeros(1, 17, dtype=torch.long))
    with pytest.raises(ValueError, match=r"without a pooler; .*hidden\[:, 0\]"):
        encoder.pool(torch.zeros(1, 4, 12, dtype=torch.double))
