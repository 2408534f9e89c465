"""NT-Xent, alignment and uniformity against their equations by loops."""

import itertools
import math

import pytest
import torch

from saccade.nn.contrastive import alignment, nt_xent, nt_xent_of_views, uniformity


def vectors(count: int = 5, width: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    one, two = torch.randn(2, count, width, dtype=torch.float64, generator=generator)
    return one, two


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


@pytest.mark.parametrize("temperature", [0.07, 0.5, 2.0])
def test_nt_xent_is_its_equation_by_loops(temperature: float) -> None:
    one, two = vectors()
    views = [*one, *two]
    losses = []
    for i, view in enumerate(views):
        j = (i + 5) % 10
        total = sum(
            math.exp(cosine(view, other) / temperature) for k, other in enumerate(views) if k != i
        )
        losses.append(-math.log(math.exp(cosine(view, views[j]) / temperature) / total))
    found = nt_xent_of_views(one, two, temperature)
    torch.testing.assert_close(found.each, torch.tensor(losses, dtype=torch.float64))
    assert float(nt_xent(one, two, temperature)) == pytest.approx(sum(losses) / 10, rel=1e-12)


def test_nt_xent_gradients_and_invariances() -> None:
    one, two = vectors()
    inputs = (one.requires_grad_(), two.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: nt_xent(a, b, 0.5), inputs)
    before = nt_xent(one, two, 0.5)
    order = torch.tensor([3, 1, 4, 0, 2])
    for changed in ((two, one), (one[order], two[order]), (3 * one, 0.1 * two)):
        torch.testing.assert_close(nt_xent(*changed, 0.5), before)
    assert nt_xent(one[:1], two[:1], 0.5).item() == 0  # nothing to be compared with
    equal = nt_xent_of_views(one, one.clone(), 0.05)
    assert int(equal.correct) == 10
    with pytest.raises(ValueError, match="expected more than 0"):
        nt_xent(one, two, 0.0)


def test_alignment_and_uniformity_by_loops() -> None:
    one, two = vectors(6)
    unit = [v / v.norm() for v in one]
    pairs = [float(((a - b / b.norm()) ** 2).sum()) for a, b in zip(unit, two, strict=True)]
    assert float(alignment(one, two)) == pytest.approx(sum(pairs) / 6)
    terms = [math.exp(-2 * float(((a - b) ** 2).sum())) for a, b in itertools.combinations(unit, 2)]
    assert float(uniformity(one)) == pytest.approx(math.log(sum(terms) / len(terms)))
    assert float(uniformity(one[:1].repeat(3, 1))) == pytest.approx(0)
    with pytest.raises(ValueError, match="two or more"):
        uniformity(one[:1])
