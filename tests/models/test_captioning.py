"""Captioning networks: equations, invariances, frozen features, and hard attention."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.decoding import SpecialTokens, beam_search, exhaustive_search, greedy_search
from saccade.errors import ConfigError
from saccade.inspection import invariants
from saccade.models.caption_config import (
    AttentiveCaptionerConfig,
    CaptionTransformerConfig,
    MeanCaptionerConfig,
)
from saccade.models.captioning import (
    CaptionTransformer,
    GridEncoder,
    RecurrentCaptioner,
    conv_stages,
    coverage_loss,
)
from saccade.tasks.captioning.inspect import NumberedImages

VOCAB, SIZE = 9, 8
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "channels": 1,
    "image_size": SIZE,
    "encoder_width": 3,
    "encoder_depth": 1,
    "width": 6,
    "dropout": 0.2,
}
SPECIAL = SpecialTokens(1, 2, (0, 1, 3))
NETWORKS = {
    "soft lstm": lambda **k: RecurrentCaptioner(AttentiveCaptionerConfig(**SIZES, **k)),
    "soft gru": lambda **k: RecurrentCaptioner(
        AttentiveCaptionerConfig(cell="gru", depth=2, score="scaled_dot", **SIZES, **k)
    ),
    "hard": lambda **k: RecurrentCaptioner(
        AttentiveCaptionerConfig(attention="hard", **SIZES, **k)
    ),
    "mean": lambda **k: RecurrentCaptioner(MeanCaptionerConfig(**SIZES, **k)),
    "transformer": lambda **k: CaptionTransformer(CaptionTransformerConfig(heads=2, **SIZES, **k)),
}


def build(name: str, **changes: Any) -> Any:
    torch.manual_seed(0)
    model = NETWORKS[name](**changes).double()
    with torch.no_grad():
        for module in model.modules():  # statistics as after some training
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return model.eval()


def draw_images(count: int = 3) -> Tensor:
    return torch.randn(count, 1, SIZE, SIZE, dtype=torch.float64)


@pytest.mark.parametrize("name", NETWORKS)
def test_invariants(name: str) -> None:
    model = build(name)
    images = draw_images()
    numbers = torch.arange(3)[:, None]
    target = torch.randint(4, VOCAB, (3, 5))
    target[:, 0] = SPECIAL.bos
    example = invariants.CheckExample(numbers, torch.ones(3, dtype=torch.long), target)
    wrapped = NumberedImages(model, images)
    results = [
        invariants.batch_invariance(wrapped, example),
        invariants.cache_consistency(wrapped, example),
        invariants.causality(wrapped, example, VOCAB),
        invariants.kernel_parity(wrapped, example),
        invariants.beam1_is_greedy(wrapped, example, SPECIAL, 6),
        invariants.nbest_prefix(wrapped, example, SPECIAL, 6),
        invariants.beam_score_consistency(wrapped, example, SPECIAL, 6),
    ]
    assert [r.invariant for r in results if not r.passed] == []
    assert torch.equal(model(images, target), model(images, target))  # no state is kept


@pytest.mark.parametrize("name", ["soft lstm", "transformer"])
def test_wide_beam_finds_the_best_caption(name: str) -> None:
    model, images = build(name), draw_images(2)
    limit = torch.full((2,), 3)
    options = {"special_tokens": SPECIAL, "max_lengths": limit}
    with torch.no_grad():
        best = exhaustive_search(model, model.encode(images, None), **options)
        beams = beam_search(model, model.encode(images, None), width=200, **options)
        greedy = greedy_search(model, model.encode(images, None), **options)
    for row in range(2):
        assert beams[row][0].ids == best[row][0].ids
        assert greedy[row].log_probability <= best[row][0].log_probability + 1e-12


def test_attention_is_that_of_the_equations() -> None:
    """One step of the soft decoder by loops over the cells."""
    model, images = build("soft lstm"), draw_images(1)
    with torch.no_grad():
        cells = model.encoder(images)[0]
        features = model.encoder.features(images)[0]
        side = SIZE // 2
        for i, (y, x) in enumerate(product(range(side), range(side))):
            own = model.encoder.project(features[:, y, x])
            position = model.encoder.rows[y, 0] + model.encoder.columns[0, x]
            assert torch.allclose(cells[i], own + position)
        start = model.bridge(cells.mean(0)).tanh()
        memory = model.encode(images, None)
        assert torch.allclose(memory.init_state[0, 0], start)
        score = model.attention.score
        query = start[: model.width].view(1, 1, 1, -1)
        scores = [
            score.compare(query, score.prepare(cell.view(1, 1, 1, -1))).item() for cell in cells
        ]
        weights = torch.tensor(scores, dtype=torch.float64).softmax(0)
        found = model.attended_hidden(images, torch.tensor([[SPECIAL.bos]]))
        assert torch.allclose(found.weights[0, 0], weights)
        context = sum(w * model.values(cell) for w, cell in zip(weights, cells, strict=True))
        assert torch.allclose(found.hidden[0, 0, 2 * model.width :], context[model.gates :])


def test_without_attention_the_context_is_the_mean_of_the_grid() -> None:
    model, images = build("mean"), draw_images(2)
    with torch.no_grad():
        logits = model(images, torch.tensor([[1, 5, 4]] * 2))
        order = torch.randperm(model.encoder.rows.shape[0] * model.encoder.columns.shape[1])
        original = model.encoder.forward
        model.encoder.forward = lambda x: original(x)[:, order]
        shuffled = model(images, torch.tensor([[1, 5, 4]] * 2))
    assert torch.allclose(logits, shuffled)
    assert not hasattr(model, "attention")


def test_coverage_loss_by_loops_and_its_gradient() -> None:
    torch.manual_seed(0)
    weights = torch.rand(2, 3, 4, dtype=torch.float64)
    is_real = torch.tensor([[True, True, True], [True, False, False]])
    expected = 0.0
    for row in range(2):
        for cell in range(4):
            received = sum(weights[row, t, cell].item() for t in range(3) if is_real[row, t])
            expected += (1 - received) ** 2
    assert float(coverage_loss(weights, is_real)) == pytest.approx(expected)
    weights.requires_grad_()
    assert torch.autograd.gradcheck(lambda w: coverage_loss(w, is_real), weights)


def test_sampled_paths_are_decoded_along_their_cells() -> None:
    model = build("hard").train()
    images, target = draw_images(2), torch.tensor([[1, 5], [1, 4]])
    paths = model.sample_paths(images, None, target)
    assert paths.hidden.shape[:2] == (2 * model.path_samples, 2)
    assert (paths.log_probabilities <= 0).all()
    paths.log_probabilities.sum().backward()
    assert model.attention.score.query.weight.grad.abs().sum() > 0


def test_grids_of_frozen_features_replace_images() -> None:
    torch.manual_seed(0)
    config = AttentiveCaptionerConfig(
        vocab_size=VOCAB, channels=3, image_size=64, encoder="efficientnet_lite0", width=8
    )
    model = RecurrentCaptioner(config)
    assert config.has_frozen_encoder
    frozen = [p for p in model.encoder.features.parameters() if p.requires_grad]
    assert frozen == [] and not model.train().encoder.features.network.bn1.training
    model.eval()
    images, target = torch.randn(2, 3, 64, 64), torch.tensor([[1, 5], [1, 4]])
    with torch.no_grad():
        grids = model.encoder.features(images)
        assert grids.shape[1:] == model.encoder.grid_shape
        assert torch.equal(model(images, target), model(grids, target))


def test_stages_leave_a_grid_of_eight_cells_a_side_or_less() -> None:
    sides = {}
    for size in (8, 16, 28, 32, 48, 64, 100):
        config = AttentiveCaptionerConfig(**SIZES | {"image_size": size, "encoder_depth": None})
        sides[size] = GridEncoder(config).grid_shape[1]
    assert sides == {8: 2, 16: 4, 28: 7, 32: 8, 48: 6, 64: 8, 100: 6}
    given = AttentiveCaptionerConfig(**SIZES | {"image_size": 32, "encoder_depth": 1})
    assert GridEncoder(given).grid_shape[1] == 16


def test_cells_of_two_stages_depend_on_fourteen_pixels() -> None:
    torch.manual_seed(0)
    layers = conv_stages(1, 4, 2).double().eval()
    image = torch.randn(1, 1, 32, 32, dtype=torch.float64)
    affects = set()
    with torch.no_grad():
        cell = layers(image)[0, :, 4, 3]
        for y, x in product(range(32), range(32)):
            changed = image.clone()
            changed[0, 0, y, x] += 100  # more than any pooling hides
            if not torch.equal(layers(changed)[0, :, 4, 3], cell):
                affects.add((y, x))
    assert affects == set(product(range(11, 25), range(7, 21)))


def test_resnet_encoder_has_no_output_layer() -> None:
    sizes = SIZES | {"image_size": 32, "encoder": "resnet18", "encoder_width": 4}
    model = CaptionTransformer(CaptionTransformerConfig(heads=2, **sizes))
    assert model.encoder.grid_shape == (32, 4, 4)
    logits = model(torch.randn(2, 1, 32, 32), torch.tensor([[1], [1]]))
    logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_sizes_are_checked() -> None:
    with pytest.raises(ConfigError, match="got vocab_size=0, channels=0, image_size=0"):
        GridEncoder(AttentiveCaptionerConfig())
    with pytest.raises(ConfigError, match="image_size=8, which leaves no pixel"):
        GridEncoder(AttentiveCaptionerConfig(**SIZES | {"encoder_depth": 4}))
