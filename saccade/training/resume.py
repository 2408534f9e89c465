"""Checkpoints: all that it takes to go on as if nothing had happened.

A checkpoint is one sealed file, named by its step, written beside and renamed. The one before
goes only when the new one is safe; one that turns out damaged is named, and the one before used.
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import RunError
from saccade.storage import read_tensors, write_tensors
from saccade.training.loop import Standing
from saccade.training.precision import device_named
from saccade.training.settings import TrainConfig


def why_not_exact(settings: TrainConfig) -> list[str]:
    """What keeps a resumed run from being, to the bit, the one that was never stopped."""
    reasons = []
    if settings.minutes is not None:
        reasons.append("it is bounded by minutes, and how many steps fit in is the clock's affair")
    if settings.compile:
        reasons.append(
            "it is compiled, and the kernels follow from the shapes that a process meets first"
        )
    if device_named(settings.device).type != "cpu":
        reasons.append("on a graphics card sums may be taken in another order each time")
    return reasons


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, standing: Standing
) -> None:
    """Write the checkpoint of this step; keep the one before, drop the older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors, facts = _apart(optimizer.state_dict()["state"])
    tensors |= {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best/{name}": tensor for name, tensor in standing.best_weights.items()}
    plain = {name: value for name, value in vars(standing).items() if name != "best_weights"}
    path = folder / f"{standing.step:09d}.safetensors"
    # a step that is saved twice, at the end of training say, has the same one before it
    before = [other for other in checkpoints(folder) if other != path]
    write_tensors(path, tensors, {"standing": plain, "optimizer": facts})
    for old in before[:-1]:
        old.unlink(missing_ok=True)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints that are there, oldest first."""
    return sorted(folder.glob("[0-9]*.safetensors"))


def load_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    warn: Callable[[str], None],
) -> Standing:
    """Put model and optimiser where the newest whole checkpoint left them.

    With no checkpoint at all, training starts from its beginning: that is where it stood.
    """
    damaged = False
    for path in reversed(checkpoints(folder)):
        try:
            tensors, facts = read_tensors(path)
        except RunError as error:
            warn(str(error))
            damaged = True
            continue
        if damaged:
            warn(f"The checkpoint before it is used: {path}.")
        model.load_state_dict(_under("model/", tensors))
        state = _together(_under("optimizer/", tensors), facts["optimizer"])
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        known = {field.name for field in fields(Standing)}
        plain = {name: value for name, value in facts["standing"].items() if name in known}
        return Standing(**plain, best_weights=_under("best/", tensors))
    if damaged:
        warn("There is no checkpoint before it: training starts from its beginning.")
    return Standing()


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def _apart(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors and plain values."""
    tensors, facts = {}, {}
    for index, values in state.items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer/{index}/{name}"] = value
            else:
                facts[f"{index}/{name}"] = value
    return tensors, facts


def _together(tensors: dict[str, Tensor], facts: dict[str, Any]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for path, value in {**tensors, **facts}.items():
        index, _, name = path.partition("/")
        state.setdefault(int(index), {})[name] = value
    return state
