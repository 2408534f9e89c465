"""NCE, InfoNCE, SimCSE and CPC against their equations by loops and known values."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.nn.contrastive import nt_xent_of_views
from saccade.nn.noise_contrast import (
    info_nce,
    mutual_information_bound,
    nce,
    predictive_contrast,
    sentence_contrast,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


# --- NCE ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "noise"), [(4, 4), (3, 9), (5, 2)])
def test_nce_is_its_equation_by_loops(data: int, noise: int) -> None:
    of_data, of_noise = draw(data), draw(noise, seed=1)
    ratio = noise / data
    loss = -sum(log_sigmoid(g - math.log(ratio)) for g in of_data.tolist()) / data
    loss -= ratio * sum(log_sigmoid(math.log(ratio) - g) for g in of_noise.tolist()) / noise
    assert float(nce(of_data, of_noise)) == pytest.approx(loss, rel=1e-12)
    inputs = (of_data.requires_grad_(), of_noise.requires_grad_())
    assert torch.autograd.gradcheck(nce, inputs)
    with pytest.raises(ValueError, match="0 of noise; expected one or more"):
        nce(of_data, of_noise[:0])


def test_nce_recovers_the_normaliser_of_a_gaussian() -> None:
    """f = -a x²/2 + c, normalised if c = ½ log(a / 2π); the noise is wider than the data."""
    precision, scale = 4.0, 1.0
    data, noise = draw(20_000) / math.sqrt(precision), draw(60_000, seed=1) * scale
    log_a, c = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    parameters = [log_a.requires_grad_(), c.requires_grad_()]

    def ratio(u: Tensor) -> Tensor:
        log_noise = -0.5 * (u / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi))
        return -0.5 * log_a.exp() * u**2 + c - log_noise

    optimizer = torch.optim.LBFGS(parameters, max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = nce(ratio(data), ratio(noise))
        loss.backward()
        return loss

    optimizer.step(closure)
    assert log_a.exp().item() == pytest.approx(precision, rel=0.03)
    assert c.item() == pytest.approx(0.5 * math.log(precision / (2 * math.pi)), abs=0.02)


# --- InfoNCE --------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(0, 4), st.integers(0, 100))
def test_info_nce_is_its_equation_by_loops(queries: int, more: int, seed: int) -> None:
    scores = draw(queries, queries + more, seed=seed)
    rows = scores.tolist()
    each = [-row[i] + math.log(sum(map(math.exp, row))) for i, row in enumerate(rows)]
    found = info_nce(scores)
    torch.testing.assert_close(found.each, torch.tensor(each, dtype=torch.float64))
    assert int(found.correct) == sum(max(row) == row[i] for i, row in enumerate(rows))


def test_info_nce_gradients_and_refusal() -> None:
    scores = draw(3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: info_nce(s).each, (scores,))
    with pytest.raises(ValueError, match="2 candidates of 3 queries"):
        info_nce(scores[:, :2])


def gaussian_bound(correlation: float, candidates: int, batches: int = 200) -> float:
    """Return the bound for correlated Gaussians with the best score, log p(y | x) / p(y)."""
    bounds = []
    for seed in range(batches):
        x, noise = draw(2, candidates, seed=seed)
        y = correlation * x + math.sqrt(1 - correlation**2) * noise
        spread = 1 - correlation**2
        scores = -0.5 * (y - correlation * x[:, None]) ** 2 / spread + 0.5 * y**2
        bounds.append(mutual_information_bound(info_nce(scores).each.mean(), candidates))
    return float(torch.stack(bounds).mean())


def test_info_nce_bounds_the_mutual_information_of_gaussians() -> None:
    known = -0.5 * math.log(1 - 0.8**2)  # 0.511 nats
    bounds = [gaussian_bound(0.8, candidates) for candidates in (2, 8, 64)]
    assert bounds == sorted(bounds) and bounds[0] < 0.8 * known
    assert bounds[-1] == pytest.approx(known, abs=0.02)


def test_info_nce_does_not_exceed_the_logarithm_of_the_candidates() -> None:
    correlation = math.sqrt(1 - math.exp(-2 * 6.0))  # 6 nats
    for candidates in (4, 32):
        bound = gaussian_bound(correlation, candidates, batches=20)
        assert 0.9 * math.log(candidates) < bound <= math.log(candidates)


# --- sentences ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("has_negatives", [False, True])
def test_sentence_contrast_is_its_equation_by_loops(has_negatives: bool, weight: float) -> None:
    anchors, positives, negatives = draw(3, 4, 5)
    each = []
    for i, anchor in enumerate(anchors):
        total = sum(math.exp(cosine(anchor, other) / 0.3) for other in positives)
        for j, other in enumerate(negatives if has_negatives else []):
            total += (weight if i == j else 1.0) * math.exp(cosine(anchor, other) / 0.3)
        each.append(-math.log(math.exp(cosine(anchor, positives[i]) / 0.3) / total))
    hard = negatives if has_negatives else None
    found = sentence_contrast(anchors, positives, hard, temperature=0.3, negative_weight=weight)
    torch.testing.assert_close(found.each, torch.tensor(each, dtype=torch.float64))
    inputs = tuple(t.clone().requires_grad_() for t in (anchors, positives, negatives))
    assert torch.autograd.gradcheck(
        lambda a, p, n: sentence_contrast(a, p, n, temperature=0.3).each, inputs
    )


def test_sentence_contrast_has_fewer_candidates_than_nt_xent() -> None:
    one, two = draw(2, 6, 3)
    sentence = sentence_contrast(one, two, temperature=0.5).each
    assert (sentence < nt_xent_of_views(one, two, 0.5).each[:6]).all()


def test_sentence_contrast_refuses_invalid_settings() -> None:
    one, two = draw(2, 3, 4)
    with pytest.raises(ValueError, match="temperature 0; expected more than 0"):
        sentence_contrast(one, two, temperature=0.0)
    with pytest.raises(ValueError, match="weight -1 of hard negatives"):
        sentence_contrast(one, two, one, negative_weight=-1.0)


# --- CPC ------------------------------------------------------------------------------------------


def cpc_by_loops(
    context: Tensor, encoded: Tensor, weight: Tensor, distance: int, lengths: list[int]
) -> float:
    pairs = [(b, t) for b, n in enumerate(lengths) for t in range(n - distance)]
    losses = []
    for b, t in pairs:
        predicted = weight @ context[b, t]
        scores = [float(encoded[c, s + distance] @ predicted) for c, s in pairs]
        own = float(encoded[b, t + distance] @ predicted)
        losses.append(math.log(sum(map(math.exp, scores))) - own)
    return sum(losses) / len(losses)


@pytest.mark.parametrize("lengths", [None, [6, 3], [4, 6]])
def test_predictive_contrast_is_its_equation_by_loops(lengths: list[int] | None) -> None:
    context, encoded, weights = draw(2, 6, 3), draw(2, 6, 4, seed=1), draw(2, 4, 3, seed=2)
    given = None if lengths is None else torch.tensor(lengths)
    found = predictive_contrast(context, encoded, weights, given)
    for number, weight in enumerate(weights):
        expected = cpc_by_loops(context, encoded, weight, number + 1, lengths or [6, 6])
        assert float(found[number]) == pytest.approx(expected, rel=1e-10)


def test_predictive_contrast_ignores_padding_and_has_gradients() -> None:
    context, encoded, weights = draw(2, 5, 3), draw(2, 5, 3, seed=1), draw(2, 3, 3, seed=2)
    lengths = torch.tensor([5, 3])
    found = predictive_contrast(context, encoded, weights, lengths)
    context[1, 3:], encoded[1, 3:] = 7.0, -9.0
    torch.testing.assert_close(predictive_contrast(context, encoded, weights, lengths), found)
    inputs = tuple(t.requires_grad_() for t in (context, encoded, weights))
    assert torch.autograd.gradcheck(lambda c, z, w: predictive_contrast(c, z, w, lengths), inputs)
    alone = predictive_contrast(context[:1], encoded[:1], weights, torch.tensor([1]))
    assert alone.tolist() == [0, 0]
    with pytest.raises(ValueError, match="5 distances and sequences of 5 steps"):
        predictive_contrast(context, encoded, torch.cat([weights, weights, weights])[:5])


def test_predictive_contrast_learns_what_persists() -> None:
    """Sequences have a constant part and noise; the encoding keeps the constant part."""
    torch.manual_seed(0)
    constant = torch.randn(64, 1, 2).expand(64, 8, 2)
    steps = torch.cat([constant, torch.randn(64, 8, 6)], 2)
    encoder, context = torch.nn.Linear(8, 2, bias=False), torch.nn.GRU(2, 4, batch_first=True)
    weights = torch.nn.Parameter(torch.randn(2, 2, 4) / 2)
    parameters = [*encoder.parameters(), *context.parameters(), weights]
    optimizer = torch.optim.Adam(parameters, 0.03)
    for _ in range(100):
        encoded = encoder(steps)
        loss = predictive_contrast(context(encoded)[0], encoded, weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    share = encoder.weight[:, :2].square().sum() / encoder.weight.square().sum()
    assert share > 0.9
