"""ELMo: the equations by loops, what each direction reads, and the mixture in a tagger."""

import numpy as np
import pytest
import torch
from torch import Tensor

from saccade.data.spelling import spell_words
from saccade.models.elmo import Elmo
from saccade.models.elmo_config import ElmoConfig
from saccade.models.elmo_tagger import ElmoTagger, copy_elmo
from saccade.models.tagging_config import ElmoTaggerConfig
from saccade.nn.layer_mix import LayerMix
from saccade.tasks.tagging.objective import word_inputs
from saccade.tasks.tagging.sentences import FormEncoder

WORDS = ["<pad>", "<eos>", "the", "cat", "sat", "down"]
SIZES = {"width": 5, "depth": 2, "byte_width": 3, "filters": 2}


def build() -> Elmo:
    torch.manual_seed(0)
    model = Elmo(ElmoConfig(vocab_size=len(WORDS), **SIZES)).double().eval()
    model.spell(torch.from_numpy(spell_words(WORDS)))
    return model


def lstm_by_loops(layer: torch.nn.Module, rows: Tensor) -> Tensor:
    """One LSTM layer, position after position (Hochreiter and Schmidhuber 1997)."""
    w, u = layer.weight_ih_l0, layer.weight_hh_l0  # type: ignore[attr-defined]
    b = layer.bias_ih_l0 + layer.bias_hh_l0  # type: ignore[attr-defined, operator]
    h = c = rows.new_zeros(u.shape[1])
    states = []
    for x in rows:
        i, f, g, o = (w @ x + u @ h + b).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states)


def layers_by_loops(model: Elmo, ids: list[int]) -> list[Tensor]:
    x = model.characters(model.spelling[ids])
    found, ahead, back = [torch.cat([x, x], -1)], x, x.flip(0)
    pairs = zip(model.forward_stack.layers, model.backward_stack.layers, strict=True)
    for forward, backward in pairs:
        ahead, back = lstm_by_loops(forward, ahead), lstm_by_loops(backward, back)
        found.append(torch.cat([ahead, back.flip(0)], -1))
    return found


def test_layers_and_predictions_follow_the_equations() -> None:
    model, ids = build(), [2, 3, 4, 5]
    layers = layers_by_loops(model, ids)
    top, width = layers[-1], 5
    nothing = torch.zeros(1, width, dtype=torch.float64)
    before = torch.cat([nothing, top[:-1, :width]])  # state after the words before
    after = torch.cat([top[1:, width:], nothing])
    found = model.predictors(torch.tensor([ids]), None)
    torch.testing.assert_close(found[0][0], before)
    torch.testing.assert_close(found[1][0], after)
    logits = model(torch.tensor([ids]))[0]
    torch.testing.assert_close(logits, model.output(before + after))


def test_neither_direction_reads_the_token_it_predicts() -> None:
    model = build()
    one, two = torch.tensor([[2, 3, 4, 5]]), torch.tensor([[2, 3, 5, 5]])
    before, after = zip(*(model.predictors(ids, None) for ids in (one, two)), strict=True)
    assert torch.equal(before[0][0, :3], before[1][0, :3])
    assert torch.equal(after[0][0, 2:], after[1][0, 2:])
    assert not torch.equal(before[0][0, 3], before[1][0, 3])
    assert not torch.equal(after[0][0, 1], after[1][0, 1])


def test_padding_and_neighbours_change_nothing() -> None:
    model = build()
    ids = torch.tensor([[2, 3, 4, 5], [5, 4, 0, 0]])
    together = model.predictors(ids, torch.tensor([4, 2]))
    for found, alone in zip(together, model.predictors(ids[1:, :2], None), strict=True):
        torch.testing.assert_close(found[1, :2], alone[0])


def test_mixture_is_the_scaled_weighted_sum() -> None:
    mix = LayerMix(3).double()
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.5, -1.0, 2.0]))
        mix.scale.fill_(1.7)
    layers = [torch.randn(2, 4, 3, dtype=torch.float64) for _ in range(3)]
    weights = np.exp([0.5, -1.0, 2.0]) / np.exp([0.5, -1.0, 2.0]).sum()
    expected = sum(1.7 * s * layer for s, layer in zip(weights, layers, strict=True))
    torch.testing.assert_close(mix(layers), expected)
    assert float(mix.shares.detach().sum()) == pytest.approx(1.0)

    def mixed(scores: Tensor, scale: Tensor) -> Tensor:
        return torch.func.functional_call(mix, {"scores": scores, "scale": scale}, (layers,))

    assert torch.autograd.gradcheck(mixed, (mix.scores, mix.scale))


def test_tagger_reads_the_frozen_layers_of_a_pretrained_model() -> None:
    elmo = build()
    torch.manual_seed(1)
    config = ElmoTaggerConfig(
        vocab_size=4, outputs=3, word_width=4, character_filters=3, hidden=6, **SIZES
    )
    tagger = ElmoTagger(config).double()
    copy_elmo(tagger, elmo)
    sentence = ["the", "cat", "sat"]
    inputs = word_inputs(FormEncoder(["the", "cat"]).encode([sentence]), np.zeros(1, np.int64))
    expected = layers_by_loops(elmo, [WORDS.index(word) for word in sentence])
    for training in (False, True):  # frozen layers have no dropout
        tagger.train(training)
        for found, layer in zip(tagger.layers_of(inputs), expected, strict=True):
            torch.testing.assert_close(found[0], layer)
    tagger.loss(inputs, torch.tensor([[0, 1, 2]])).backward()
    gradients = {name: p.grad for name, p in tagger.named_parameters()}
    assert all((g is None) == name.startswith("elmo.") for name, g in gradients.items())
    scores = gradients["mix.scores"]
    assert scores is not None and scores.abs().min() > 0
