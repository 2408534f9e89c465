"""Hard attention trained by the score function: the gradient against enumerated paths."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.models.attention_paths import AttentionPathDecoder
from saccade.models.bahdanau import Bahdanau
from saccade.models.config import BahdanauConfig, LuongConfig
from saccade.models.luong import Luong
from saccade.nn import hard_attention
from saccade.tasks.translation.objective import score_function_loss
from saccade.types.shapes import Batch

VOCAB = 5
SIZES: dict[str, Any] = {
    "source_vocab_size": VOCAB,
    "target_vocab_size": VOCAB,
    "width": 3,
    "dropout": 0.0,
    "attention": "hard",
    "estimator": "score_function",
    "samples": 2,
}
MODELS = {
    "luong": (Luong, LuongConfig(**SIZES, score="dot")),
    "luong, input feeding": (Luong, LuongConfig(**SIZES, input_feeding=True)),
    "bahdanau": (Bahdanau, BahdanauConfig(**SIZES)),
    "bahdanau, scaled dot": (Bahdanau, BahdanauConfig(**SIZES, score="scaled_dot", cell="lstm")),
}
# two rows; the second source is one token long, so that its path is not random, and its target is
# padded
BATCH = Batch(
    source=torch.tensor([[3, 4], [2, 0]]),
    source_lengths=torch.tensor([2, 1]),
    target_in=torch.tensor([[1, 4, 3], [1, 2, 0]]),
    target_out=torch.tensor([4, 3, 2, 2, 2]),
    target_positions=torch.tensor([0, 1, 2, 3, 4]),
    weights=torch.tensor([1.0, 0.5, 1, 2, 1], dtype=torch.float64),
    lines=(1, 2),
)
PATHS = list(product(range(2), repeat=3))  # of the first row


def build(name: str) -> Any:
    torch.manual_seed(4)
    kind, config = MODELS[name]
    model = kind(config).double().train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def force(monkeypatch: pytest.MonkeyPatch, paths: list[tuple[int, ...]]) -> None:
    """Replace the samples: the n-th path of the first row is paths[n], the other row has key 0."""
    steps = iter(range(3))

    def sample_keys(log_probabilities: Tensor, count: int) -> Tensor:
        B, H, queries, _ = log_probabilities.shape
        keys = torch.zeros(B, H, queries, 1, dtype=torch.long)
        if queries == 3 * len(paths):  # all steps of one path after the other
            keys[0, 0, :, 0] = torch.tensor(paths).flatten()
        else:  # one step of all paths
            step = next(steps)
            keys[0, 0, :, 0] = torch.tensor([path[step] for path in paths])
        return keys

    monkeypatch.setattr(hard_attention, "sample_keys", sample_keys)


def log_probability(model: AttentionPathDecoder, rows: list[int]) -> Tensor:
    """Return log p(s) of the forced paths of these rows, in the order of the paths."""
    found = model.sample_paths(BATCH.source, BATCH.source_lengths, BATCH.target_in)
    return found.log_probabilities[rows].sum(1)


def gradients(model: Any, value: Tensor) -> Tensor:
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    pairs = zip(found, model.parameters(), strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])


@pytest.mark.parametrize("name", MODELS)
def test_expected_gradient_is_that_of_the_expected_loss(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pairs of paths with their probabilities, against the derivative of Σ_s p(s) loss(s)."""
    model = build(name)
    exact, losses = torch.zeros((), dtype=torch.float64), {}
    for path in PATHS:
        force(monkeypatch, [path, path])
        probability = log_probability(model, [0])[0].exp()
        force(monkeypatch, [path, path])
        found = score_function_loss(model, BATCH, 0.1)
        losses[path] = float(found.total.detach())
        exact = exact + probability * found.total  # equal paths: the term of the estimator is 0
    expected = gradients(model, exact)
    mean, total = torch.zeros_like(expected), 0.0
    for pair in product(PATHS, repeat=2):
        force(monkeypatch, list(pair))
        probability = float(log_probability(model, [0, 1]).sum().detach().exp())
        force(monkeypatch, list(pair))
        found = score_function_loss(model, BATCH, 0.1)
        both = (losses[pair[0]] + losses[pair[1]]) / 2
        assert float(found.total.detach()) == pytest.approx(both, rel=1e-9)
        estimate = gradients(model, found.total)
        mean, total = mean + probability * estimate, total + probability
    assert total == pytest.approx(1)
    torch.testing.assert_close(mean, expected, rtol=1e-8, atol=1e-9)
    # without the rewards the estimate would be another: the paths matter
    pathwise = torch.zeros_like(expected)
    for path in PATHS:
        force(monkeypatch, [path, path])
        probability = log_probability(model, [0])[0].exp().detach()
        force(monkeypatch, [path, path])
        pathwise += probability * gradients(model, score_function_loss(model, BATCH, 0.1).total)
    assert float((pathwise - expected).abs().max()) > 1e-4


def test_equal_paths_have_no_score_term() -> None:
    """The baseline of one path is the reward of the other, so that equal paths cancel."""
    losses, log_probabilities = torch.rand(2, 1, 3).expand(2, 4, 3), torch.randn(2, 4, 3)
    log_probabilities.requires_grad_()
    hard_attention.path_loss(losses, log_probabilities, True).backward()
    assert log_probabilities.grad is not None
    torch.testing.assert_close(log_probabilities.grad, torch.zeros(2, 4, 3), rtol=0, atol=1e-6)


@pytest.mark.parametrize("later", [False, True])
def test_path_loss_is_its_equation_by_loops(later: bool) -> None:
    torch.manual_seed(0)
    losses, logs = torch.rand(2, 3, 4), torch.randn(2, 3, 4, requires_grad=True)
    value = hard_attention.path_loss(losses, logs, later)
    assert float(value.detach()) == 0
    [found] = torch.autograd.grad(value, logs)
    for b, n, t in product(range(2), range(3), range(4)):
        end = 4 if later else t + 1
        rewards = [-float(losses[b, path, t:end].sum()) for path in range(3)]
        baseline = sum(rewards[path] for path in range(3) if path != n) / 2
        expected = -(rewards[n] - baseline) / 3
        assert float(found[b, n, t]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_samples_have_the_probabilities_of_the_attention(name: str) -> None:
    """Frequencies of the first key of many samples, and no sample of padding."""
    model = build(name)
    model.path_samples = 2000
    torch.manual_seed(1)
    first = BATCH.target_in[:, :1]
    with torch.no_grad():
        found = model.sample_paths(BATCH.source, BATCH.source_lengths, first).log_probabilities
    values, counts = found[:2000, 0].unique(return_counts=True)
    assert values.exp().sum() == pytest.approx(1)
    for log, count in zip(values.tolist(), counts.tolist(), strict=True):
        share = float(torch.tensor(log).exp())
        assert count / 2000 == pytest.approx(share, abs=4 * (share * (1 - share) / 2000) ** 0.5)
    assert bool((found[2000:] == 0).all())  # one key: probability 1


def test_paths_are_not_sampled_by_other_settings() -> None:
    for kind, config, base in (
        (Luong, LuongConfig, {}),
        (Luong, LuongConfig, {"attention": "hard"}),
        (Luong, LuongConfig, {"estimator": "score_function"}),
        (Bahdanau, BahdanauConfig, {}),
        (Bahdanau, BahdanauConfig, {"attention": "hard"}),
    ):
        sizes = {key: SIZES[key] for key in ("source_vocab_size", "target_vocab_size", "width")}
        assert kind(config(**sizes, **base)).path_samples == 0  # type: ignore[operator]
