"""Luong's translator with each attention, and every cell in every recurrent translator."""

import math
import random as randomly
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.data.synthetic.sequences import generate_reverse
from saccade.decoding import SpecialTokens, greedy_search
from saccade.inspection import invariants
from saccade.inspection.attention import capture_attention
from saccade.models.bahdanau import Bahdanau
from saccade.models.config import BahdanauConfig, LuongConfig, Seq2SeqConfig
from saccade.models.luong import Luong
from saccade.models.seq2seq import Seq2Seq
from saccade.nn.attention_scores import ATTENTION_SCORES
from saccade.nn.losses import cross_entropy
from saccade.nn.rnn_cells import CELLS
from saccade.types.shapes import DecoderState, select_rows

BOS, EOS, VOCAB, WIDTH = 1, 2, 9, 6
SPECIAL_TOKENS = SpecialTokens(BOS, EOS, (0, BOS))
LIMIT = 5
SIZES = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB, "width": WIDTH, "dropout": 0.0}
ATTENTIONS = ("global", "local_monotonic", "local_predictive", "hard")

# every attention with and without feeding, every cell and every score in some row
LUONG: list[dict[str, Any]] = [
    {"score": "dot"},
    {"score": "scaled_dot", "input_feeding": True, "depth": 2},
    {"score": "general", "cell": "lstm", "depth": 2},
    {"score": "concat", "cell": "rnn", "input_feeding": True},
    {"score": "additive", "cell": "rnn_relu"},
    {"score": "cosine", "cell": "gru_reset_first", "input_feeding": True},
    {"score": "scaled_general", "attention": "hard", "estimator": "score_function"},
    {"score": "gaussian", "cell": "gru_reset_first", "depth": 2},
    {"attention": "local_monotonic", "window": 1, "cell": "lstm"},
    {"attention": "local_monotonic", "window": 2, "score": "concat", "input_feeding": True},
    {"attention": "local_predictive", "window": 2, "cell": "lstm", "input_feeding": True},
    {"attention": "local_predictive", "window": 1, "score": "dot", "depth": 2},
    {"attention": "hard", "score": "scaled_dot"},
    {"attention": "hard", "cell": "lstm", "input_feeding": True, "depth": 2},
]


def _luong(**choice: Any) -> Any:
    return Luong, LuongConfig(**SIZES, **choice)


def _name(choice: Any) -> str:
    kind = choice[1]
    message = {**kind.model_dump(exclude_unset=True)}
    return "-".join([kind.name, *(str(v) for k, v in message.items() if k not in {*SIZES, "name"})])


MODELS = [_luong(**choice) for choice in LUONG]
OTHERS = [
    (kind, config(**SIZES, cell=cell, depth=depth))
    for kind, config in ((Seq2Seq, Seq2SeqConfig), (Bahdanau, BahdanauConfig))
    for cell, depth in (("rnn", 2), ("rnn_relu", 1), ("gru_reset_first", 1))
]
SCORED = [
    (Bahdanau, BahdanauConfig(**SIZES, **choice))
    for choice in (
        *({"score": name} for name in ATTENTION_SCORES),
        {"attention": "hard", "depth": 2},
        {"attention": "hard", "estimator": "score_function", "cell": "lstm"},
    )
]
every_model = pytest.mark.parametrize("choice", MODELS + OTHERS + SCORED, ids=_name)
each_attention = pytest.mark.parametrize("choice", MODELS[1::2] + MODELS[10:11], ids=_name)


def scattered(model: nn.Module, size: float = 0.1) -> Any:
    """In float64, and no weight left where it starts: biases start at nothing."""
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.add_(size * torch.randn_like(parameter))
    return model.eval()


@st.composite
def cases(draw: Any, choice: Any) -> Any:
    """A model with weights of its own, and something for it to read."""
    kind, config = choice
    B, S, T = draw(st.integers(1, 4)), draw(st.integers(1, 7)), draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(1, S), min_size=B, max_size=B))
    torch.manual_seed(draw(st.integers(0, 2**32 - 1)))
    model = scattered(kind(config))
    source, target = torch.randint(VOCAB, (B, S)), torch.randint(VOCAB, (B, T))
    target[:, 0] = BOS
    return model, invariants.CheckExample(source, torch.tensor(lengths), target)


def test_luong_setting_names_are_those_of_nn() -> None:
    for config in (LuongConfig, BahdanauConfig, Seq2SeqConfig):
        assert get_args(config.model_fields["cell"].annotation) == tuple(CELLS)
        assert config().cell == "gru"
    assert set(get_args(LuongConfig.model_fields["score"].annotation)) == set(ATTENTION_SCORES)
    assert get_args(LuongConfig.model_fields["attention"].annotation) == ATTENTIONS


# --- invariants ----------------------------------------


@every_model
@given(data=st.data())
@settings(deadline=None, max_examples=2)
def test_luong_invariants_hold_in_float64(choice: Any, data: Any) -> None:
    model, example = data.draw(cases(choice))
    findings = [
        invariants.padding_invariance(model, example),
        invariants.batch_invariance(model, example),
        invariants.causality(model, example, VOCAB),
        invariants.cache_consistency(model, example),
        invariants.beam1_is_greedy(model, example, SPECIAL_TOKENS, LIMIT),
        invariants.beam_score_consistency(model, example, SPECIAL_TOKENS, LIMIT),
        invariants.kernel_parity(model, example),
    ]
    assert all(finding.passed for finding in findings), findings
    source, lengths, target = example
    logits = invariants._logits(model, source, lengths, target)
    other_source = invariants._logits(model, (source + 1) % VOCAB, lengths, target)
    other_target = invariants._logits(model, source, lengths, (target + 1) % VOCAB)
    for other in (other_source, other_target):  # otherwise the invariants would hold trivially
        assert (logits - other).abs().max().item() > 1e-6


@each_attention
@given(data=st.data())
@settings(deadline=None, max_examples=2)
def test_luong_prompt_and_shared_memory_equal_separate_rows(choice: Any, data: Any) -> None:
    model, (source, lengths, target) = data.draw(cases(choice))
    B, T = target.shape
    G, cut = data.draw(st.integers(2, 3)), data.draw(st.integers(1, T))
    several, each = torch.randint(VOCAB, (B * G, T)), torch.arange(B).repeat_interleave(G)
    with torch.no_grad():
        memory, cache = model.init_state(model.encode(source, lengths))
        first, state = model.step(several[:, :cut], DecoderState(memory, select_rows(cache, each)))
        parts = [first]
        if cut < T:
            parts.append(model.step(several[:, cut:], state)[0])
        separate = invariants._logits(model, source[each], lengths[each], several)
    torch.testing.assert_close(torch.cat(parts, dim=1), separate, rtol=0, atol=1e-9)


# --- the equations --------------------------------------------------------------------------------

SOURCE, TARGET = torch.tensor([[3, 4, 5, 2, 6]]), torch.tensor([[1, 6, 7, 8, 2, 3, 3, 4]])


def logits_of(model: Any) -> Tensor:
    with torch.no_grad():
        return invariants._logits(model, SOURCE, None, TARGET)[0]


def framework(ours: Any, width: int, both: bool) -> Any:
    """The framework's GRU with the weights of our stack."""
    depth = len(ours.layers) // (2 if both else 1)
    theirs = nn.GRU(width, WIDTH, depth, batch_first=True, bidirectional=both).double()
    for index, layer in enumerate(ours.layers):
        level, way = (index // 2, "_reverse" * (index % 2)) if both else (index, "")
        for name, value in layer.state_dict().items():
            getattr(theirs, name.replace("_l0", f"_l{level}{way}")).data.copy_(value)
    return theirs


def score_by_hand(score: Any, name: str, h: Tensor, position: Tensor) -> Tensor:
    if name == "dot":
        return h @ position
    if name == "general":
        return h @ score.key.weight @ position
    return score.weight @ torch.tanh(score.both.weight @ torch.cat([h, position]))


def shares_by_hand(model: Any, config: LuongConfig, h: Tensor, positions: Tensor, t: int) -> Tensor:
    """α_t, a place at a time."""
    S = len(positions)
    scores = [
        score_by_hand(model.attention.score, config.score, h, position) for position in positions
    ]
    if config.attention == "hard":
        return torch.eye(S).double()[torch.stack(scores).argmax()]
    centre, window = float(t), float(config.window)
    if config.attention == "global":
        window = math.inf
    elif config.attention == "local_predictive":
        inner = torch.tanh(model.predictor.inner @ h)
        centre = S * float(torch.sigmoid(model.predictor.outer @ inner))
    inside = [s for s in range(S) if abs(s - centre) <= window]
    total = sum(float(scores[s].exp()) for s in inside)
    shares = torch.zeros(S).double()
    for s in inside:
        shares[s] = scores[s].exp() / total
        if config.attention == "local_predictive":
            shares[s] *= math.exp(-((s - centre) ** 2) / (2 * (config.window / 2) ** 2))
    return shares


@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("score, depth", [("dot", 1), ("general", 2), ("concat", 1)])
@torch.no_grad()
def test_luong_steps_equal_equations(score: str, depth: int, attention: str, feeding: bool) -> None:
    config = LuongConfig(
        **SIZES, score=score, depth=depth, attention=attention, window=2, input_feeding=feeding
    )
    model = scattered(Luong(config), 0.3)
    root = math.sqrt(WIDTH)
    outputs, last = framework(model.encoder, WIDTH, True)(root * model.source.table.weight[SOURCE])
    positions = outputs[0] @ model.join.weight.T
    ends = last[:, 0].reshape(depth, 2 * WIDTH)
    state = (ends @ model.bridge.weight.T + model.bridge.bias).tanh()[:, None].contiguous()
    decoder = framework(model.decoder, (1 + feeding) * WIDTH, False)
    combine = torch.cat([model.values.weight, model.own.weight], dim=1)  # W_c
    before, seen_beyond = torch.zeros(WIDTH).double(), False
    expected = []
    for t, token in enumerate(TARGET[0].tolist()):
        x = root * model.target.table.weight[token]
        x = torch.cat([x, before]) if feeding else x
        out, state = decoder(x[None, None], state)
        h = out[0, 0]
        shares = shares_by_hand(model, config, h, positions, t)
        seen_beyond |= not bool(shares.any())
        context = sum(share * position for share, position in zip(shares, positions, strict=True))
        before = torch.tanh(combine @ torch.cat([context, h]) + model.own.bias)
        expected.append(model.output.weight @ before + model.output.bias)
    torch.testing.assert_close(logits_of(model), torch.stack(expected), rtol=0, atol=1e-10)
    assert seen_beyond is (attention == "local_monotonic")  # step 7 is 3 beyond the last place


@pytest.mark.parametrize("feeding", [False, True])
def test_luong_without_input_feeding_is_one_attention_call(feeding: bool) -> None:
    model = Luong(LuongConfig(**SIZES, input_feeding=feeding))
    calls: list[int] = []
    for part in (model.decoder, model.attention):
        part.register_forward_hook(lambda module, inputs, output: calls.append(1))
    logits_of(model)
    assert len(calls) == (2 * TARGET.shape[1] if feeding else 2)


def with_weights_of(model: Luong, **choice: Any) -> Any:
    other = Luong(LuongConfig(**SIZES, **choice)).double().eval()
    left = other.load_state_dict(model.state_dict(), strict=False)
    assert not left.missing_keys
    return other


def test_luong_local_attention_with_full_window_is_global() -> None:
    model = scattered(Luong(LuongConfig(**SIZES, attention="local_predictive")), 0.3)
    whole = logits_of(with_weights_of(model, attention="global"))
    # the last step is 7 places from the first
    covering = logits_of(with_weights_of(model, attention="local_monotonic", window=7))
    torch.testing.assert_close(covering, whole, rtol=0, atol=1e-12)
    narrow = logits_of(with_weights_of(model, attention="local_monotonic", window=6))
    assert float((narrow - whole).abs().max()) > 1e-4
    differences = []
    for window in (8, 16, 32, 64, 1024):
        wide = with_weights_of(model, attention="local_predictive", window=window)
        differences.append(float((logits_of(wide) - whole).abs().max()))
    assert differences == sorted(differences, reverse=True)
    assert differences[0] > 1e-3 and differences[-1] < 1e-5


# --- gradients ------------------------------------------------------------------------------------

SLOPES: list[dict[str, Any]] = [
    {"score": "general", "cell": "lstm", "depth": 2},
    {"attention": "local_monotonic", "window": 1, "score": "concat", "cell": "rnn"},
    {"attention": "local_predictive", "window": 3, "score": "dot", "input_feeding": True},
    {"attention": "hard", "score": "general", "input_feeding": True},
]


class _Loss(nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        state = self.model.init_state(self.model.encode(source, lengths))
        hidden, _ = self.model.decode_hidden(target_in, state)
        logits = self.model.compute_logits(hidden.flatten(0, 1)[torch.arange(5)])
        return cross_entropy(
            logits, torch.tensor([3, 4, 2, 4, 2]), label_smoothing=0.1, reduction="sum"
        )


@pytest.mark.parametrize(
    "choice",
    [*(_luong(**choice) for choice in SLOPES), OTHERS[-1]],
    ids=_name,
)
def test_luong_loss_gradient_equals_finite_difference(choice: Any) -> None:
    kind, config = choice
    model = scattered(kind(config), 0.2)
    source, lengths = torch.tensor([[3, 4, 2], [4, 2, 0]]), torch.tensor([3, 2])
    target_in = torch.tensor([[1, 3, 4], [1, 4, 0]])
    parameters = dict(model.named_parameters())

    def loss(*values: Tensor) -> Tensor:
        own = {f"model.{k}": v for k, v in zip(parameters, values, strict=True)}
        return torch.func.functional_call(_Loss(model), own, (source, lengths, target_in))

    values = tuple(p.detach().clone().requires_grad_() for p in parameters.values())
    assert torch.autograd.gradcheck(loss, values, fast_mode=True, eps=1e-6, atol=1e-6, rtol=1e-4)
    slopes = torch.autograd.grad(loss(*values), values, allow_unused=True)
    unused = [name for name, slope in zip(parameters, slopes, strict=True) if slope is None]
    # a choice has no slope: in training there is one, straight through
    assert unused == (["attention.score.key.weight"] if "hard" in _name(choice) else [])
    model.train()
    slopes = torch.autograd.grad(loss(*values), values)
    assert all(bool(slope.any()) for slope in slopes)


# --- what is seen ---------------------------------------------------------------------------------


@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_luong_attention_can_be_captured(attention: str, feeding: bool) -> None:
    model = scattered(
        Luong(LuongConfig(**SIZES, attention=attention, window=2, input_feeding=feeding)), 0.3
    )
    plain = logits_of(model)
    with capture_attention(model) as seen:
        assert torch.equal(logits_of(model), plain)
    assert seen.names() == ["attention"]
    table = seen.weights("attention")[0, 0]
    assert table.shape == (8, 5)
    sums = table.sum(-1)
    if attention == "local_monotonic":
        near = (torch.arange(8)[:, None] - torch.arange(5)).abs() <= 2
        assert torch.equal(table > 0, near)
        torch.testing.assert_close(sums, near.any(-1).double())
    elif attention == "local_predictive":
        assert bool((sums < 1).all()) and bool((sums > 0).all())
    else:
        torch.testing.assert_close(sums, torch.ones(8).double())
        assert bool((table.max(-1).values == 1).all()) is (attention == "hard")


# --- hard attention learns ------------------------------------------------------------------------


def test_luong_hard_attention_is_seeded() -> None:
    model = Luong(LuongConfig(**SIZES, attention="hard")).train()

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return logits_of(model)

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


def as_ids(words: list[str]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(word) + 1 for word in words])
    table = torch.zeros(len(words), int(lengths.max()), dtype=torch.long)
    for row, word in enumerate(words):
        table[row, : len(word) + 1] = torch.tensor([ord(c) - ord("a") + 3 for c in word] + [EOS])
    return table, lengths


def test_luong_hard_attention_learns_to_reverse() -> None:
    pairs, steps, rows = generate_reverse(size=6000).pairs, 240, 64
    model = Luong(
        LuongConfig(
            source_vocab_size=11, target_vocab_size=11, width=64, dropout=0.0, attention="hard"
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), fused=True)
    chosen = randomly.Random(0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 30) * (1 - step / steps) ** 0.5
        batch = chosen.sample(pairs["train"], rows)
        source, lengths = as_ids([word for word, _ in batch])
        target, target_lengths = as_ids([word for _, word in batch])
        before = torch.cat([torch.full((rows, 1), BOS), target[:, :-1]], dim=1)
        logits = invariants._logits(model, source, lengths, before)
        real = torch.arange(target.shape[1]) < target_lengths[:, None]
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits[real], target[real]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    source, lengths = as_ids([word for word, _ in pairs["test"]])
    reference, expected_lengths = as_ids([word for _, word in pairs["test"]])
    with torch.no_grad():
        max_lengths = torch.full_like(lengths, 10)
        found = greedy_search(
            model,
            model.encode(source, lengths),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=max_lengths,
        )
    right = [
        answer.ids == row[: length - 1]
        for answer, row, length in zip(
            found, reference.tolist(), expected_lengths.tolist(), strict=True
        )
    ]
    exact = sum(right) / len(right)
    print(f"hard attention: exact on held-out words after {steps} steps: {exact}")
    assert len(right) == 500 and exact >= 0.95
    with capture_attention(model) as seen, torch.no_grad():
        invariants._logits(
            model,
            *as_ids(["abcdef"]),
            torch.cat([torch.tensor([[BOS]]), as_ids(["fedcba"])[0][:, :-1]], 1),
        )
    # it looks where the letter stands: from the last to the first
    assert seen.weights("attention")[0, 0].argmax(-1).tolist()[:6] == [5, 4, 3, 2, 1, 0]
