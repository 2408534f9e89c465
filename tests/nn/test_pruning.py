import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.inspection import invariants
from saccade.models import Transformer, TransformerConfig
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import RelativePositions, RotaryPositions
from saccade.nn.pruning import PrunedAttention, count_heads, gated_heads, masked_heads, prune_heads
from saccade.nn.transformer import MultiHeadAttention

BOS, VOCAB = 1, 9
WIDTH, HEADS = 12, 6
EXACT = {"atol": 1e-10, "rtol": 0.0}


class Alone(torch.nn.Module):
    """Return a model with one attention, so that it has a name."""

    def __init__(self, **choice):
        super().__init__()
        kinds = {
            "rotary": lambda: RotaryPositions(WIDTH // HEADS),
            "relative": lambda: RelativePositions(WIDTH, 6),
        }
        positions = kinds[choice.pop("positions")]() if "positions" in choice else None
        self.looking = MultiHeadAttention(WIDTH, HEADS, positions=positions, **choice)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        self.double()

    def forward(self, x):
        return self.looking(x, self.looking.project_kv(x), Mask.causal())


CHOICES = [
    {},
    {"kv_heads": 1},
    {"kv_heads": 2},
    {"kv_heads": 3, "positions": "rotary"},
    {"positions": "rotary"},
    {"positions": "relative"},
    {"kv_heads": 2, "positions": "relative"},
]
every_choice = pytest.mark.parametrize("choice", CHOICES, ids=str)


@every_choice
@given(data=st.data())
@settings(deadline=None, max_examples=8)
def test_prune_heads_matches_masked_heads(choice, data):
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    out = sorted(data.draw(st.sets(st.integers(0, HEADS - 1), min_size=1, max_size=HEADS - 1)))
    model = Alone(**choice)
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    whole = model(x)
    with masked_heads(model, {"looking": out}):
        off = model(x)
    assert (off - whole).abs().max() > 1e-3  # or the test would be empty
    torch.testing.assert_close(model(x), whole)  # and back on
    before = sum(p.numel() for p in model.parameters())
    prune_heads(model, {"looking": out})
    torch.testing.assert_close(model(x), off, **EXACT)
    assert sum(p.numel() for p in model.parameters()) < before
    assert model.looking.query.weight.shape == ((HEADS - len(out)) * 2, WIDTH)


def test_masked_heads_match_equation():
    torch.manual_seed(0)
    model = Alone()
    part = model.looking
    x = torch.randn(1, 4, WIDTH, dtype=torch.float64)
    expected = part.out.bias.expand(4, WIDTH).clone()
    keys, values = part.key_value(x)[0].chunk(2, dim=-1)
    queries = part.query(x)[0]
    for head in (0, 3, 4):  # the others are off
        columns = slice(2 * head, 2 * head + 2)
        for t in range(4):
            scores = torch.stack(
                [queries[t, columns] @ keys[j, columns] / 2**0.5 for j in range(t + 1)]
            )
            alpha = scores.exp() / scores.exp().sum()
            mean = sum(alpha[j] * values[j, columns] for j in range(t + 1))
            expected[t] += part.out.weight[:, columns] @ mean
    with masked_heads(model, {"looking": [1, 2, 5]}):
        torch.testing.assert_close(model(x)[0], expected, **EXACT)


@every_choice
def test_prune_heads_twice_matches_once(choice):
    def made():
        torch.manual_seed(3)
        return Alone(**choice)

    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    once, twice = made(), made()
    prune_heads(once, {"looking": [0, 3, 4]})
    prune_heads(twice, {"looking": [0, 4]})
    prune_heads(twice, {"looking": [2]})  # 1, 2, 3, 5 are left: the third is 3
    torch.testing.assert_close(twice(x), once(x), **EXACT)
    assert twice.looking.kv_head_of == once.looking.kv_head_of


def test_prune_heads_removes_unused_kv_heads():
    model = Alone(kv_heads=2)  # heads 0 1 2 and 3 4 5
    prune_heads(model, {"looking": [2, 5]})
    assert model.looking.kv_head_of == [0, 0, 1, 1] and model.looking.has_equal_groups
    prune_heads(model, {"looking": [0, 1]})
    assert (model.looking.heads, model.looking.kv_heads) == (2, 1)
    assert model.looking.key_value.weight.shape == (2 * 2, WIDTH)
    uneven = Alone(kv_heads=2)
    prune_heads(uneven, {"looking": [5]})
    assert uneven.looking.kv_head_of == [0, 0, 0, 1, 1] and not uneven.looking.has_equal_groups
    # as many keys as queries would divide evenly, and still not serve them in turn
    wrong = Alone(kv_heads=3)
    prune_heads(wrong, {"looking": [1, 2, 3]})  # 0 by the first, 4 5 by the last
    assert wrong.looking.kv_head_of == [0, 1, 1] and not wrong.looking.has_equal_groups


def test_gated_heads_gradients_match_differences():
    torch.manual_seed(1)
    model = Alone(kv_heads=3)
    x = torch.randn(3, 5, WIDTH, dtype=torch.float64)
    probe = torch.randn(3, 5, WIDTH, dtype=torch.float64)

    def losses(out):
        return (out * probe).sum(dim=(1, 2))  # of each example

    with gated_heads(model) as factors:
        gradients = factors.gradients(losses(model(x)).sum())["looking"]
    assert gradients.shape == (3, HEADS)
    for head in range(HEADS):  # the output is linear in ξ: its slope is what the head brings
        with torch.no_grad(), masked_heads(model, {"looking": [head]}):
            without = losses(model(x))
        torch.testing.assert_close(gradients[:, head], losses(model(x)).detach() - without, **EXACT)


def test_gated_heads_gradients_of_several_calls_add_up():
    torch.manual_seed(1)
    model = Alone()
    x = torch.randn(2, 4, WIDTH, dtype=torch.float64)
    with gated_heads(model) as factors:
        once = factors.gradients(model(x).square().sum())["looking"]
    with gated_heads(model) as factors:
        twice = factors.gradients(model(x).square().sum() + model(x).square().sum())["looking"]
    torch.testing.assert_close(twice, 2 * once)
    assert not model.looking.out._forward_pre_hooks  # closed, it costs nothing


def transformer(**choice):
    config = TransformerConfig(
        source_vocab_size=VOCAB,
        target_vocab_size=VOCAB,
        width=8,
        heads=4,
        hidden=12,
        depth=2,
        **choice,
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


OUT = {
    "encoder.0.self_attention": [0],
    "encoder.1.self_attention": [1, 2, 3],
    "decoder.0.self_attention": [3],
    "decoder.1.source_attention": [0, 2],
}


def example():
    source, target = torch.randint(VOCAB, (3, 6)), torch.randint(VOCAB, (3, 5))
    target[:, 0] = BOS
    return invariants.CheckExample(source, torch.tensor([6, 2, 4]), target)


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"positions": "relative"},
        {"positions": "rotary", "kv_heads": 2, "norm_first": False},
        {"window": 2, "score": "additive"},
    ],
    ids=str,
)
def test_pruned_transformer_matches_masked_and_keeps_invariants(choice):
    model, inputs = transformer(**choice), example()
    for dtype, near in ((torch.float32, 1e-6), (torch.float64, 1e-10)):
        model.to(dtype)
        with torch.no_grad(), masked_heads(model, OUT):
            masked = invariants._logits(model, *inputs)
        other = transformer(**choice).to(dtype)
        other.load_state_dict(model.state_dict())
        prune_heads(other, OUT)
        with torch.no_grad():
            cut = invariants._logits(other, *inputs)
            assert (invariants._logits(model, *inputs) - masked).abs().max() > 1e-3
        size = float(masked.abs().max())  # of the logits, some of which are above 1
        torch.testing.assert_close(cut, masked, atol=near * max(1.0, size), rtol=0.0)
    special_tokens = invariants.SpecialTokens(BOS, 2, (0, BOS))
    findings = [
        invariants.padding_invariance(other, inputs),
        invariants.batch_invariance(other, inputs),
        invariants.causality(other, inputs, VOCAB),
        invariants.cache_consistency(other, inputs),
        invariants.beam1_is_greedy(other, inputs, special_tokens, 5),
        invariants.beam_score_consistency(other, inputs, special_tokens, 5),
        invariants.kernel_parity(other, inputs),
    ]
    assert all(finding.passed for finding in findings), findings


def test_prune_heads_error_messages():
    model = transformer()
    assert count_heads(model)["decoder.1.source_attention"] == 4
    with pytest.raises(
        ValueError, match="got 'encoder.7' as the name of an attention; expected one of e"
    ):
        prune_heads(model, {"encoder.7": [0]})
    with pytest.raises(
        ValueError, match=r"got head 4 of encoder.0.self_attention; expected 0 to 3"
    ):
        prune_heads(model, {"encoder.0.self_attention": [4]})
    with (
        pytest.raises(ValueError, match="got head -1 of"),
        masked_heads(model, {"encoder.0.self_attention": [-1]}),
    ):
        pass
    with pytest.raises(ValueError, match="all 4 heads of encoder.0.* expected one to stay"):
        prune_heads(model, {"encoder.0.self_attention": [3, 1, 2, 0]})
    assert not any(isinstance(module, PrunedAttention) for module in model.modules())
    with pytest.raises(ValueError, match="a model with multi-head attention"):
        prune_heads(torch.nn.Linear(2, 2), {"x": [0]})
