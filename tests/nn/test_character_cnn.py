"""Word vectors from bytes: the equation by loops, and invariance to padding and neighbours."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.data.spelling import spell_words
from saccade.nn.character_cnn import CharacterCNN
from saccade.types.word_ids import END_WORD, FIRST_BYTE, MAX_SPELLED_BYTES, START_WORD

WORDS = st.text(max_size=12)


def build() -> CharacterCNN:
    torch.manual_seed(0)
    return CharacterCNN(4, (1, 3), (2, 5), highway=2, width=6).double().eval()


def word_by_loops(network: CharacterCNN, ids: list[int]) -> Tensor:
    """The equations of the module, one position and one filter after another."""
    x = network.table.weight[ids]
    pooled = []
    for layer in network.convolutions:
        weight: Tensor = layer.weight  # type: ignore[assignment]
        size, before = weight.shape[2], (weight.shape[2] - 1) // 2
        for filter in range(len(weight)):
            values = [torch.zeros((), dtype=torch.float64)]
            for at in range(len(ids)):
                value = layer.bias[filter]  # type: ignore[index]
                for k in range(size):
                    if 0 <= at - before + k < len(ids):
                        value = value + weight[filter, :, k] @ x[at - before + k]
                values.append(value.relu())
            pooled.append(torch.stack(values).max())
    y = torch.stack(pooled)
    for layer in network.highway:
        g = torch.sigmoid(layer.gate.weight @ y + layer.gate.bias)  # type: ignore[union-attr, operator]
        y = g * layer.transform(y).relu() + (1 - g) * y  # type: ignore[operator]
    return network.projection(y)


@given(st.lists(WORDS, min_size=1, max_size=4), st.integers(0, 4))
def test_vectors_follow_the_equation_whatever_the_padding(words: list[str], extra: int) -> None:
    network = build()
    spelling = torch.nn.functional.pad(torch.from_numpy(spell_words(words)), (0, extra))
    found = network(spelling)
    for row, ids in enumerate(spelling.tolist()):
        expected = word_by_loops(network, [id for id in ids if id])
        torch.testing.assert_close(found[row], expected, rtol=1e-9, atol=1e-9)


def test_gradient_is_that_of_finite_differences() -> None:
    network = build()
    spelling = torch.from_numpy(spell_words(["ab", "c"]))
    weights = [layer.weight for layer in network.convolutions]

    def vectors(*values: Tensor) -> Tensor:
        names = [f"convolutions.{n}.weight" for n in range(len(values))]
        pairs = dict(zip(names, values, strict=True))
        return torch.func.functional_call(network, pairs, (spelling,))

    assert torch.autograd.gradcheck(vectors, [w.detach().requires_grad_() for w in weights])  # type: ignore[operator]


@pytest.mark.parametrize("word", ["", "a", "naïve", "東京", "x" * 100, "\ud800"])
def test_words_are_bytes_between_start_and_end(word: str) -> None:
    [ids] = spell_words([word])
    content = [*word.encode(errors="replace")][:MAX_SPELLED_BYTES]
    assert ids.tolist() == [START_WORD, *(byte + FIRST_BYTE for byte in content), END_WORD]
