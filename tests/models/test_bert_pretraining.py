"""BERT with its pretraining heads against Hugging Face's, and its published sizes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.interop.bert_weights import from_huggingface_weights
from saccade.models.bert_config import BERT_SIZES, BertConfig
from saccade.models.bert_pretraining import BertPretraining
from saccade.tasks.masked_language_modeling.objective import MaskedBatch, pretraining_losses

SMALL = {"vocab_size": 23, "width": 12, "depth": 2, "heads": 3, "hidden": 20, "max_length": 16}
HEADS = {  # ours → theirs
    "transform.weight": "cls.predictions.transform.dense.weight",
    "transform.bias": "cls.predictions.transform.dense.bias",
    "norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "bias": "cls.predictions.bias",
    "next_sentence.weight": "cls.seq_relationship.weight",
    "next_sentence.bias": "cls.seq_relationship.bias",
}


def random_batch(rows=5, length=9, share=0.3) -> MaskedBatch:
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(1, 23, (rows, length), generator=generator)  # theirs has no gradient of 0
    segments = (torch.arange(length) >= 4).long().expand(rows, length)
    positions = (torch.rand(rows * length, generator=generator) < share).nonzero()[:, 0]
    targets = torch.randint(23, (len(positions),), generator=generator)
    labels = torch.tensor([0, 1, 1, 0, 1][:rows])
    return MaskedBatch(ids, segments, positions, targets, labels, len(positions) / rows)


def test_losses_equal_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=23,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    theirs = transformers.BertForPreTraining(config).double()
    for parameter in theirs.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    weights, own_config = theirs.state_dict(), BertConfig(**SMALL, dropout=0.0)
    encoder = from_huggingface_weights(own_config, weights, "bert.")
    model = BertPretraining(own_config).double()
    model.load_state_dict(
        {f"encoder.{name}": value for name, value in encoder.items()}
        | {own: weights[name] for own, name in HEADS.items()}
    )
    batch = random_batch()
    labels = torch.full_like(batch.ids, -100).flatten()
    labels[batch.positions] = batch.targets
    expected = theirs(
        input_ids=batch.ids,
        token_type_ids=batch.segments,
        labels=labels.view_as(batch.ids),
        next_sentence_label=batch.labels,
    )
    tokens, pairs = pretraining_losses(model, batch)
    assert pairs is not None and batch.labels is not None
    mean = tokens.total / batch.tokens + pairs.total / len(batch.ids)
    torch.testing.assert_close(mean, expected.loss, atol=1e-7, rtol=0)
    torch.testing.assert_close(
        model(batch.ids, batch.segments), expected.prediction_logits, atol=1e-7, rtol=0
    )
    predicted = expected.prediction_logits.flatten(0, 1)[batch.positions].argmax(1)
    assert int(tokens.correct) == int((predicted == batch.targets).sum())
    found = expected.seq_relationship_logits.argmax(1) == batch.labels
    assert int(pairs.correct) == int(found.sum())
    # gradients, those of the tied embeddings and of the heads included
    mean.backward()
    expected.loss.backward()
    names = dict(theirs.named_parameters())
    for own, name in {**HEADS, "encoder.table.weight": EMBEDDINGS}.items():
        gradient = names[name].grad
        torch.testing.assert_close(model.get_parameter(own).grad, gradient, atol=1e-7, rtol=0)


EMBEDDINGS = "bert.embeddings.word_embeddings.weight"


@pytest.mark.parametrize(("size", "count"), [("base", 110_106_428), ("large", 336_226_108)])
def test_sizes_have_the_published_parameter_counts(size, count):
    with torch.device("meta"):  # as in Devlin et al.'s checkpoints, both heads included
        model = BertPretraining(BertConfig(vocab_size=30522, **BERT_SIZES[size]))
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 3), st.integers(0, 99))
def test_targets_have_the_hidden_vectors_of_all_positions(rows, length, depth, seed):
    torch.manual_seed(seed)
    model = BertPretraining(BertConfig(**SMALL | {"depth": depth}, dropout=0.0)).double()
    ids, segments = torch.randint(23, (rows, length)), torch.randint(2, (rows, length))
    positions = (torch.rand(rows * length) < 0.4).nonzero()[:, 0]
    found = model.forward_targets(ids, segments, positions)
    hidden = model.encoder(ids, segments)
    expected = hidden.flatten(0, 1)[positions]
    torch.testing.assert_close(found.targets, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(found.first, hidden[:, :1], atol=1e-12, rtol=0)
    gradients = [
        torch.autograd.grad(some.sin().sum(), model.encoder.table.weight)[0]
        for some in (
            torch.cat([found.targets, found.first[:, 0]]),
            torch.cat([expected, hidden[:, 0]]),
        )
    ]
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)


def test_only_targets_reach_the_output_projection():
    model = BertPretraining(BertConfig(**SMALL)).eval()
    batch, seen = random_batch(), []
    model.transform.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    pretraining_losses(model, batch)
    assert seen == [(batch.tokens, 12)]


def test_a_model_without_pooler_has_no_next_sentence_head():
    model = BertPretraining(BertConfig(**SMALL, pooler=False, segments=1))
    assert not any("next_sentence" in name for name, _ in model.named_parameters())
    with pytest.raises(ValueError, match="expected pooler=True and"):
        model.next_sentence_logits(torch.zeros(1, 2, 12))


def test_parts_of_a_batch_have_its_loss():
    from saccade.recipes.resolve import resolve_recipe
    from saccade.tasks.masked_language_modeling.objective import MaskedLMObjective

    recipe = resolve_recipe("bert").recipe
    model = BertPretraining(BertConfig(**SMALL, dropout=0.0)).double()
    objective = MaskedLMObjective.__new__(MaskedLMObjective)
    objective.model, objective.settings = model, recipe.train  # type: ignore[assignment]
    batch = random_batch()
    whole = objective.loss(batch)
    parts = objective.split_batch(batch, 2)
    assert len(parts) == 2 and sum(part.tokens for part in parts) == batch.tokens
    losses = [objective.loss(part) for part in parts]
    np.testing.assert_allclose(
        sum(float(loss.total.detach()) for loss in losses), float(whole.total.detach()), rtol=1e-12
    )
    assert sum(int(loss.correct) for loss in losses) == int(whole.correct)  # type: ignore[arg-type]


def test_an_encoder_alone_has_no_heads():
    model = BertPretraining(BertConfig(**SMALL, pretraining_heads=False)).eval()
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"encoder"}
    ids = torch.randint(23, (2, 5))
    assert torch.equal(model(ids), model.encoder(ids))
    with pytest.raises(ValueError, match="got a BERT without heads"):
        model.compute_logits(torch.zeros(1, 12))
