"""Saving and loading of shared, lazy and custom layers, in whole and in part."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from saccade.io.tensors import read_tensors, write_tensors
from saccade.nn.state_dict import load_matching_state_dict, unique_state_dict
from saccade.seeding import seed_torch
from saccade.training.checkpoint import load_checkpoint, snapshot, write_checkpoint
from saccade.training.state import TrainState

# --- shared ---------------------------------------------------------------------------------------


def shared() -> nn.Sequential:
    """Return a model that uses one layer twice."""
    same = nn.Linear(4, 4)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), same, nn.Tanh(), same).double()


def test_shared_layer_gradients_add_up() -> None:
    model, x = shared(), torch.randn(5, 3, dtype=torch.float64)
    separate = shared()
    separate[4] = nn.Linear(4, 4).double()  # the same numbers in two layers
    with torch.no_grad():
        for name, tensor in separate.state_dict().items():
            tensor.copy_(model.state_dict()[name])
    for net in (model, separate):
        net(x).square().sum().backward()
    for name in ("weight", "bias"):
        both = getattr(separate[2], name).grad + getattr(separate[4], name).grad
        torch.testing.assert_close(getattr(model[2], name).grad, both)
    sizes = [sum(p.numel() for p in net.parameters()) for net in (model, separate)]
    assert sizes == [4 * 3 + 4 + 4 * 4 + 4, 4 * 3 + 4 + 2 * (4 * 4 + 4)]


@pytest.mark.parametrize("once", [True, False], ids=["once", "by every name"])
def test_unique_state_dict_round_trip_keeps_sharing(once: bool, tmp_path: Path) -> None:
    model, x = shared(), torch.randn(5, 3, dtype=torch.float64)
    write_tensors(tmp_path / "w", unique_state_dict(model) if once else model.state_dict(), {})
    tensors, _ = read_tensors(tmp_path / "w")
    names = ["0.bias", "0.weight", "2.bias", "2.weight"]
    assert sorted(tensors) == (names if once else [*names, "4.bias", "4.weight"])
    again = shared()
    found = load_matching_state_dict(again, tensors)
    assert torch.equal(again(x), model(x))
    assert again[2].weight is again[4].weight
    assert not (found.missing or found.mismatched or found.unexpected)
    assert found.summary == "loaded: 6."


# --- deferred -------------------------------------------------------------------------------------


def deferred() -> nn.Sequential:
    """Return a model with lazy layers."""
    return nn.Sequential(nn.LazyLinear(6), nn.Tanh(), nn.LazyLinear(2))


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, first_step: int, end: int) -> None:
    for step in range(first_step, end):
        x = torch.randn(8, 5, generator=torch.Generator().manual_seed(step))
        loss = (model(x) - x[:, :2]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def made() -> tuple[nn.Sequential, torch.optim.Optimizer]:
    seed_torch(0, "weights")
    model = deferred()
    model(torch.zeros(1, 5))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def test_lazy_layers_resume_bit_exactly(tmp_path: Path) -> None:
    whole, optimizer = made()
    learn(whole, optimizer, 0, 9)
    stopped, optimizer = made()
    learn(stopped, optimizer, 0, 4)
    write_checkpoint(tmp_path, snapshot(stopped, optimizer, TrainState(step=4)))
    seed_torch(1, "weights")  # initialised with other numbers
    again, optimizer = deferred(), None
    again(torch.zeros(1, 5))
    optimizer = torch.optim.Adam(again.parameters(), lr=0.01)
    state = load_checkpoint(tmp_path, again, optimizer, pytest.fail)
    learn(again, optimizer, state.step, 9)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])


@pytest.mark.parametrize("seen", [True, False], ids=["after a batch", "before one"])
def test_lazy_layers_round_trip(seen: bool, tmp_path: Path) -> None:
    model, x = deferred(), torch.randn(3, 5)
    model(x)
    write_tensors(tmp_path / "w", model.state_dict(), {})
    again = deferred()
    if seen:
        again(x)
    assert load_matching_state_dict(again, read_tensors(tmp_path / "w")[0]).summary == "loaded: 4."
    assert torch.equal(again(x), model(x))


def test_lazy_layers_refuse_saving_before_first_batch(tmp_path: Path) -> None:
    for tensors in (deferred().state_dict(), unique_state_dict(deferred())):
        with pytest.raises(ValueError, match="0.weight, 0.bias, .* try one forward pass before"):
            write_tensors(tmp_path / "w", tensors, {})
    assert not list(tmp_path.iterdir())


# --- in part --------------------------------------------------------------------------------------


class Reduce(nn.Module):
    """y_k = Σ_ij W_kij x_ij."""

    def __init__(self, rows: int, columns: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, rows, columns))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("kij,bij->bk", self.weight, x)


def test_load_matching_state_dict_loads_matches_and_reports_rest(tmp_path: Path) -> None:
    old = nn.ModuleDict({"body": Reduce(2, 3, 4), "head": nn.Linear(4, 5), "old": nn.Linear(1, 1)})
    new = nn.ModuleDict({"body": Reduce(2, 3, 4), "head": nn.Linear(4, 7), "new": nn.Linear(2, 2)})
    write_tensors(tmp_path / "w", old.state_dict(), {})
    before = {name: tensor.clone() for name, tensor in new.state_dict().items()}
    found = load_matching_state_dict(new, read_tensors(tmp_path / "w")[0])
    assert torch.equal(new["body"].weight, old["body"].weight)
    for name in ("head.weight", "head.bias", "new.weight", "new.bias"):
        assert torch.equal(new.state_dict()[name], before[name])
    assert found.loaded == ["body.weight"]
    assert sorted(found.missing) == ["new.bias", "new.weight"]
    assert sorted(found.unexpected) == ["old.bias", "old.weight"]
    assert found.summary == (
        "loaded: 1; missing: new.weight, new.bias; "
        "shape mismatch: head.bias (expected 7, got 5), head.weight (expected 7×4, got 5×4); "
        "unexpected: old.bias, old.weight."
    )


def test_load_matching_state_dict_without_matches() -> None:
    found = load_matching_state_dict(nn.Linear(2, 2), {"x": torch.ones(1)})
    assert found == ([], ["weight", "bias"], [], ["x"])
