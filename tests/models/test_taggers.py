"""Taggers: invariance to padding and neighbours, the equation by loops, and the two outputs."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.models.registry import TAGGING_MODELS
from saccade.models.taggers import CNNTagger, Tagger
from saccade.models.tagging_config import CNNTaggerConfig
from saccade.tasks.tagging.objective import word_inputs
from saccade.tasks.tagging.sentences import FormEncoder

WORDS = "the cat sat on mats".split()
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS) + 2,
    "outputs": 4,
    "word_width": 6,
    "width": 4,
    "character_width": 3,
    "character_filters": 4,
    "hidden": 5,
}
SENTENCES = st.lists(
    st.lists(st.sampled_from([*WORDS, "Cat", "dog", "é"]), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)
ENCODER = FormEncoder(WORDS)


def build(name: str, **settings: Any) -> Tagger:
    torch.manual_seed(1)
    entry = TAGGING_MODELS[name]
    values = {**SIZES, **settings}
    known = {key: v for key, v in values.items() if key in entry.config_class.model_fields}
    model: Tagger = entry.model_class(entry.config_class(name=name, **known)).double().eval()
    return model


@pytest.mark.parametrize("name", ["bilstm_tagger", "cnn_tagger"])
@given(sentences=SENTENCES)
def test_neither_padding_nor_neighbours_change_emissions(
    name: str, sentences: list[list[str]]
) -> None:
    model = build(name, depth=2)
    table = ENCODER.encode(sentences)
    together = model(word_inputs(table, np.arange(len(sentences))))
    for row, sentence in enumerate(sentences):
        alone = model(word_inputs(ENCODER.encode([sentence]), np.zeros(1, np.int64)))
        torch.testing.assert_close(together[row, : len(sentence)], alone[0], rtol=1e-9, atol=1e-9)


def test_dilated_convolutions_follow_the_equation() -> None:
    model = build("cnn_tagger", depth=2)
    assert isinstance(model, CNNTagger)
    sentence = [*WORDS, "dog"]
    inputs = word_inputs(ENCODER.encode([sentence]), np.zeros(1, np.int64))
    h = model.input(model.embed(inputs))[0]
    for layer, dilation in zip(model.layers, (1, 2), strict=True):
        rows = []
        for t in range(len(sentence)):
            y = layer.bias
            for k, s in enumerate((t - dilation, t, t + dilation)):
                if 0 <= s < len(sentence):
                    y = y + layer.weight[:, :, k] @ h[s]  # type: ignore[index, operator]
            rows.append(h[t] + y.relu())  # type: ignore[union-attr, operator]
        h = torch.stack(rows)
    torch.testing.assert_close(model(inputs)[0], model.output(h))


@pytest.mark.parametrize("output", ["crf", "linear"])
def test_loss_counts_real_tokens_only(output: str) -> None:
    model = build("bilstm_tagger", output=output)
    rows = [["the", "cat"], ["sat", "on", "mats", "dog"]]
    tags = torch.tensor([[1, 2, 3, 3], [0, 1, 2, 3]])
    table = ENCODER.encode(rows)
    together = model.loss(word_inputs(table, np.arange(2)), tags)
    alone = sum(
        model.loss(word_inputs(table, np.array([row])), tags[row : row + 1, : len(words)])
        for row, words in enumerate(rows)
    )
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=1e-6)
    inputs = word_inputs(table, np.arange(2))
    p = model.probabilities(model(inputs).float(), inputs.lengths)
    torch.testing.assert_close(p[1].sum(-1), torch.ones(4), rtol=1e-5, atol=1e-5)


def test_each_different_word_of_a_batch_is_spelt_once() -> None:
    inputs = word_inputs(ENCODER.encode([["a", "b", "a"], ["a"]]), np.arange(2))
    assert inputs.spelling.tolist() == [[1, 100, 2], [1, 101, 2]]
    assert inputs.forms.tolist() == [[0, 1, 0], [0, 0, 0]]


def test_words_are_dropped_while_training_only() -> None:
    model = build("bilstm_tagger", word_dropout=0.5, dropout=0.0)
    inputs = word_inputs(ENCODER.encode([WORDS * 40]), np.zeros(1, np.int64))
    assert torch.equal(model.embed(inputs), model.embed(inputs))
    unknown = model.words.weight[1]
    model.train()
    is_unknown = (model.embed(inputs)[0, :, :6] == unknown).all(-1)
    assert 0.3 < float(is_unknown.double().mean()) < 0.7


def test_dilation_grows_with_the_layer() -> None:
    sizes = {k: v for k, v in SIZES.items() if k in CNNTaggerConfig.model_fields}
    config = CNNTaggerConfig(**sizes, depth=3)
    assert [layer.dilation for layer in CNNTagger(config).layers] == [1, 2, 4]
