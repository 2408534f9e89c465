"""The shift benchmark on real data: accuracy lost and recovered, three seeds of each kind."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def shift(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("shift_benchmark", FOLDER / "shift.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# as measured over ten seeds: covariate 20 lost and 13 regained, label 21 and 18, concept 38 and 30
@pytest.mark.parametrize(
    ("case", "lost", "regained"), [(0, 0.1, 0.05), (4, 0.1, 0.06), (6, 0.25, 0.18)]
)
def test_shift_benchmark_remedies_recover_accuracy(
    case: int, lost: float, regained: float, shift: ModuleType
) -> None:
    seeds = [shift.measured(shift.cases()[case], seed) for seed in range(3)]
    costs = np.mean([one["source"] - one["before"] for one in seeds])
    gains = [one["after"] - one["before"] for one in seeds]
    assert costs > lost, seeds
    assert np.mean(gains) > regained and min(gains) > 0, seeds
    assert sum(one["found"] == shift.cases()[case].kind for one in seeds) >= 2


def test_shift_benchmark_splits_are_disjoint_and_labels_change_only_with_the_concept(
    shift: ModuleType,
) -> None:
    for case in shift.cases():
        world = case.make(3)
        rows = [tuple(row) for part in world for row in part.x.tolist()]
        assert len(set(rows)) > 0.98 * len(rows)  # some pictures are alike, made coarse
    known = {tuple(x): y for x, y in zip(*map(np.ndarray.tolist, shift.digits()), strict=True)}
    world = shift.moved_meaning(0)
    for rows, moved in ((world.learned, False), (world.asked, True)):
        for x, y in zip(rows.x.tolist(), rows.y.tolist(), strict=True):
            was = known[tuple(x)]
            assert y == (shift.SWAPPED.get(was, was) if moved else was)


def test_shift_benchmark_fine_tunes_from_the_trained_weights(shift: ModuleType) -> None:
    world = shift.moved_meaning(0)
    before = shift.learn(world.learned, "mlp", 0)
    kept = {name: weight.clone() for name, weight in before.model.state_dict().items()}
    after = shift.learn(world.seen, "mlp", 0, start=before)
    assert after.schema is before.schema
    tuned = after.model.state_dict()
    for name, weight in before.model.state_dict().items():
        assert torch.equal(weight, kept[name])
        assert not torch.equal(weight, tuned[name])
