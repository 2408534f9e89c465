"""Text classifiers: the equations by loops, and invariance to padding and batch neighbours."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.models.config import BiLSTMConfig, SetClassifierConfig, TextCNNConfig
from saccade.models.registry import TEXT_CLASSIFICATION_MODELS
from saccade.models.text_classifiers import BiLSTMClassifier, SetClassifier, TextCNN, TextNetwork

VOCAB, LABELS, WIDTH = 20, 3, 8
SIZES: dict[str, dict[str, Any]] = {
    "bert": {"heads": 2, "hidden": 12, "depth": 2},
    "bilstm": {"hidden": 5},
    "cnn": {"kernels": (2, 3), "filters": 4},
    "prompt": {
        "heads": 2,
        "hidden": 12,
        "template": "{text} [P] [MASK]",
        "word_ids": (5, 6, 7, 9, 8),
        "word_counts": (2, 2, 1),
        "mask_position": -2,
    },
    "set": {"score": "additive"},
    "transformer": {"heads": 2, "hidden": 12, "depth": 2},
}


def build(name: str) -> TextNetwork:
    torch.manual_seed(1)
    entry = TEXT_CLASSIFICATION_MODELS[name]
    config = entry.config_class(
        name=name, vocab_size=VOCAB, outputs=LABELS, width=WIDTH, **SIZES[name]
    )
    model: TextNetwork = entry.model_class(config).double().eval()
    return model


def padded(texts: list[list[int]], width: int) -> tuple[Tensor, Tensor]:
    ids = torch.zeros(len(texts), width, dtype=torch.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text, dtype=torch.int64)
    return ids, torch.tensor([len(text) for text in texts])


WORDS = st.lists(st.integers(1, VOCAB - 1), max_size=9)


@pytest.mark.parametrize("name", TEXT_CLASSIFICATION_MODELS)
@given(texts=st.lists(WORDS, min_size=1, max_size=5), extra=st.integers(0, 6))
def test_neither_padding_nor_neighbours_change_logits(
    name: str, texts: list[list[int]], extra: int
) -> None:
    model = build(name)
    longest = max(1, *map(len, texts))
    together = model(*padded(texts, longest + extra))
    for row, text in enumerate(texts):
        alone = model(*padded([text], max(1, len(text))))
        torch.testing.assert_close(together[row], alone[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", TEXT_CLASSIFICATION_MODELS)
def test_lengths_may_be_left_out_where_no_row_is_padded(name: str) -> None:
    model = build(name)
    ids, lengths = padded([[3, 7, 1], [2, 2, 9]], 3)
    torch.testing.assert_close(model(ids), model(ids, lengths))


# a prompt has words of its template, and no output layer
@pytest.mark.parametrize("name", sorted(TEXT_CLASSIFICATION_MODELS.keys() - {"prompt"}))
def test_text_without_words_gets_the_bias(name: str) -> None:
    model = build(name)
    torch.testing.assert_close(model(*padded([[]], 3))[0], model.output.bias)


@pytest.mark.parametrize("name", TEXT_CLASSIFICATION_MODELS)
def test_gradients_reach_the_words_only(name: str) -> None:
    model = build(name)
    x = torch.randn(2, 4, WIDTH, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 2])
    assert torch.autograd.gradcheck(lambda x: model.classify(x, lengths), (x,))
    model.classify(x, lengths).sum().backward()
    assert x.grad is not None
    assert x.grad[1, 2:].abs().max() == 0
    assert x.grad[0].abs().max() > 0


def test_cnn_is_the_maximum_over_windows() -> None:
    model = build("cnn")
    assert isinstance(model, TextCNN)
    text = [3, 7, 7, 1]
    vectors = model.embedding(torch.tensor(text)).detach().numpy()
    pooled: list[float] = []
    for size, convolution in zip((2, 3), model.convolutions, strict=True):
        weight = convolution.weight.detach().numpy()  # (filters, width, size)
        before = (size - 1) // 2
        around = np.concatenate(
            [np.zeros((before, WIDTH)), vectors, np.zeros((size - 1 - before, WIDTH))]
        )
        for filter in range(4):
            values = [
                sum(weight[filter, :, k] @ around[t + k] for k in range(size))
                + convolution.bias[filter].item()
                for t in range(len(text))
            ]
            pooled.append(max(0.0, *values))
    output = model.output
    expected = output.weight.detach().numpy() @ np.array(pooled) + output.bias.detach().numpy()
    found = model(*padded([text], 4))[0].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_bilstm_is_torchs_with_attention_by_loops() -> None:
    model = build("bilstm")
    assert isinstance(model, BiLSTMClassifier)
    ids, lengths = padded([[5, 2, 9]], 3)
    states = model.encoder(model.embedding(ids), lengths).outputs[0].detach()
    score: Any = model.attention.score
    bias = score.query.weight[:, 0]
    scores = torch.stack([score.weight @ torch.tanh(score.key.weight @ h + bias) for h in states])
    weights = torch.exp(scores) / torch.exp(scores).sum()
    pooled = sum(weight * h for weight, h in zip(weights, states, strict=True))
    torch.testing.assert_close(model(ids, lengths)[0], model.output(pooled))


def test_set_classifier_is_its_equation_by_loops() -> None:
    model = SetClassifier(SetClassifierConfig(vocab_size=VOCAB, outputs=LABELS, width=WIDTH))
    model = model.double().eval().requires_grad_(False)
    text = [5, 2, 9, 2]
    x = model.embedding(torch.tensor(text))

    def attend(query: Tensor, keys: Tensor, values: Tensor, layer: Any) -> Tensor:
        q = layer.query.weight @ query
        scores = [float(q @ (layer.key.weight @ key)) / WIDTH**0.5 for key in keys]
        total = sum(np.exp(score) for score in scores)
        shares = [np.exp(score) / total for score in scores]
        parts = [a * (layer.value.weight @ v) for a, v in zip(shares, values, strict=True)]
        return torch.stack(parts).sum(0)

    hidden = torch.stack([x[t] + attend(x[t], x, x, model.context) for t in range(len(text))])
    pooled = attend(model.query, x, hidden, model.pool)
    expected = model.output.weight @ pooled + model.output.bias
    torch.testing.assert_close(model(*padded([text], 6))[0], expected)


@given(text=st.lists(st.integers(1, VOCAB - 1), min_size=2, max_size=9), data=st.data())
def test_order_of_words_does_not_change_logits_of_the_set_classifier(
    text: list[int], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(text))
    one, two = padded([text], len(text)), padded([other], len(text))
    model = build("set")
    torch.testing.assert_close(model(*one), model(*two), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", sorted(set(TEXT_CLASSIFICATION_MODELS) - {"set"}))
def test_order_of_words_changes_other_logits(name: str) -> None:
    model = build(name)
    one, two = (model(*padded([text], 4)) for text in ([3, 7, 1, 9], [9, 1, 7, 3]))
    assert not torch.allclose(one, two, atol=1e-6)


def test_kernel_sizes_as_typed() -> None:
    assert TextCNNConfig(kernels="2,3").kernels == (2, 3)  # type: ignore[arg-type]
    assert TextCNNConfig(kernels=4).kernels == (4,)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one kernel size or more"):
        TextCNNConfig(kernels=())
    assert BiLSTMConfig().dropout == 0.5
