"""Each model against its equations, written with parts that are not ours."""

import math

import pytest
import torch
from torch import nn

from saccade.models import (
    Bahdanau,
    BahdanauConfig,
    Seq2Seq,
    Seq2SeqConfig,
    Transformer,
    TransformerConfig,
)

VOCAB, WIDTH = 9, 6
SIZES = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB, "width": WIDTH, "dropout": 0.0}
SOURCE, TARGET = torch.tensor([[3, 4, 5, 2]]), torch.tensor([[1, 6, 7, 8, 2]])


def logits_of(model, source=SOURCE, target=TARGET):
    with torch.no_grad():
        return model.step(target, model.init_state(model.encode(source, None)))[0]


def vectors(embedding, ids):
    return embedding.table.weight[ids] * math.sqrt(WIDTH)


def copied(theirs, layers):
    """The framework's stack with the weights of our layers."""
    theirs = theirs.double()
    for index, layer in enumerate(layers):
        own = layer.state_dict()
        depth, way = (index // 2, "_reverse" * (index % 2)) if theirs.bidirectional else (index, "")
        for name, value in own.items():
            getattr(theirs, name.replace("_l0", f"_l{depth}{way}")).data.copy_(value)
    return theirs


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@torch.no_grad()
def test_models_seq2seq_equals_equation(cell, depth):
    """h_t = f(h_{t-1}, [e; c]), logits = W [h_t; c; e] with c the encoder's last state."""
    model = Seq2Seq(Seq2SeqConfig(**SIZES, cell=cell, depth=depth)).double()
    kind = nn.GRU if cell == "gru" else nn.LSTM
    encoder = copied(kind(WIDTH, WIDTH, depth, batch_first=True), model.encoder.layers)
    decoder = copied(kind(2 * WIDTH, WIDTH, depth, batch_first=True), model.decoder.layers)
    outputs, last = encoder(vectors(model.source, SOURCE))
    embedded = vectors(model.target, TARGET)
    context = outputs[:, -1:].expand_as(embedded)
    hidden, _ = decoder(torch.cat([embedded, context], dim=-1), last)
    expected = model.output(torch.cat([hidden, context, embedded], dim=-1))
    torch.testing.assert_close(logits_of(model), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("context", ["last", "mean", "concatenation"])
@pytest.mark.parametrize("positions", [2, 4, 7])
@torch.no_grad()
def test_models_seq2seq_context_is_its_equation_by_loops(context, positions):
    """Rows of 4 and 2 states; a concatenation of fewer, as many and more."""
    config = Seq2SeqConfig(**SIZES, context=context, context_positions=positions, cell="lstm")
    model = Seq2Seq(config).double()
    source, lengths = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]]), torch.tensor([4, 2])
    found = model.encode(source, lengths).context
    for row, length in enumerate(lengths.tolist()):
        states = model.encoder(model.source(source[row : row + 1, :length]), None).outputs[0]
        expected = states[-1]
        if context == "mean":
            expected = sum(states) / length
        elif context == "concatenation":
            whole = torch.zeros(positions * WIDTH, dtype=torch.float64)
            for s in range(min(length, positions)):
                whole[s * WIDTH : (s + 1) * WIDTH] = states[s]
            expected = model.join.weight @ whole + model.join.bias
        torch.testing.assert_close(found[row], expected)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@torch.no_grad()
def test_models_bahdanau_equals_equation(cell):
    """Equation by equation, a step at a time, with c_t itself and not what is made of it before."""
    model = Bahdanau(BahdanauConfig(**SIZES, cell=cell)).double()
    for parameter in model.parameters():  # biases start at zero
        parameter.add_(0.1 * torch.randn_like(parameter))
    kind = nn.GRU if cell == "gru" else nn.LSTM
    encoder = copied(kind(WIDTH, WIDTH, batch_first=True, bidirectional=True), model.encoder.layers)
    memory_positions, last = encoder(vectors(model.source, SOURCE))
    ends = [last] if cell == "gru" else list(last)
    ends = [torch.cat([end[way] for end in ends], dim=-1) for way in (0, 1)]
    state = model.bridge(torch.cat(ends, dim=-1)).tanh()

    # W of the cell reads [e; c], U of the readout reads [s; e; c]
    gates = model.first.gates
    step = (nn.GRUCell if cell == "gru" else nn.LSTMCell)(3 * WIDTH, WIDTH).double()
    from_context, to_readout = model.values.weight.split([gates, WIDTH])
    step.weight_ih.copy_(torch.cat([model.first.inputs.weight, from_context], dim=1))
    step.bias_ih.copy_(model.first.inputs.bias)
    step.weight_hh.copy_(model.first.recurrence.weight)
    step.bias_hh.copy_(model.first.recurrence.bias)
    readout = torch.cat([model.readout.weight, to_readout], dim=1)

    score, expected = model.attention.score, []
    for embedded in vectors(model.target, TARGET).unbind(1):
        asked = score.query.weight @ state[0, :WIDTH]
        scores = [
            score.weight @ torch.tanh(asked + score.key.weight @ h) for h in memory_positions[0]
        ]
        shares = torch.stack(scores).softmax(0)
        context = sum(share * h for share, h in zip(shares, memory_positions[0], strict=True))[None]
        seen = torch.cat([embedded, context], dim=-1)
        if cell == "gru":
            state = step(seen, state)
        else:
            state = torch.cat(step(seen, state.chunk(2, dim=-1)), dim=-1)
        inner = torch.cat([state[:, :WIDTH], embedded, context], dim=-1) @ readout.T
        expected.append(model.output((inner + model.readout.bias).tanh()))
    torch.testing.assert_close(logits_of(model), torch.stack(expected, 1), rtol=0, atol=1e-10)


def into_attention(theirs, ours):
    theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def into_layer(theirs, ours, norms):
    into_attention(theirs.self_attn, ours.self_attention)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for number, residual in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())


@pytest.mark.parametrize("norm_first", [True, False])
@torch.no_grad()
def test_models_transformer_equals_equation(norm_first):
    """The framework's stacks between our embeddings, and the logits by likeness to them."""
    config = TransformerConfig(
        **SIZES, depth=2, heads=2, hidden=10, norm_first=norm_first, shared_vocab=True
    )
    model = Transformer(config).double().train()  # without dropout; their quick path is for eval
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    sizes = {"dim_feedforward": 10, "dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    memory_positions = torch.arange(5)[:, None] * model.source.positions.rates
    codes = torch.stack([memory_positions.sin(), memory_positions.cos()], dim=-1).flatten(1)

    x = vectors(model.source, SOURCE) + codes[:4]
    for block in model.encoder:
        layer = nn.TransformerEncoderLayer(WIDTH, 2, **sizes).double()
        into_layer(layer, block, [block.around_attention, block.around_feed_forward])
        x = layer(x)
    memory = model.encoder_norm(x)
    x = vectors(model.target, TARGET) + codes
    future = torch.ones(5, 5).triu(1).bool()
    for block in model.decoder:
        layer = nn.TransformerDecoderLayer(WIDTH, 2, **sizes).double()
        norms = [block.around_attention, block.around_source, block.around_feed_forward]
        into_layer(layer, block, norms)
        into_attention(layer.multihead_attn, block.source_attention)
        x = layer(x, memory, tgt_mask=future)
    expected = model.decoder_norm(x) @ model.target.table.weight.T
    torch.testing.assert_close(logits_of(model), expected, rtol=0, atol=1e-10)


def test_models_shared_vocabulary_shares_table():
    config = {**SIZES, "heads": 2, "depth": 1}
    shared = Transformer(TransformerConfig(**config, shared_vocab=True))
    assert shared.source.table.weight is shared.target.table.weight
    own = Transformer(TransformerConfig(**config))
    assert own.source.table.weight is not own.target.table.weight


def test_models_refuse_width_not_divisible_by_heads():
    with pytest.raises(ValueError, match="got width 6 for 4 heads; .*; try 4 or 8"):
        Transformer(TransformerConfig(**SIZES, heads=4))


def test_models_learned_positions_refuse_longer_text():
    model = Transformer(TransformerConfig(**SIZES, heads=2, positions="learned", max_positions=4))
    with pytest.raises(ValueError, match="got 5 positions; expected at most 4"):
        logits_of(model)
