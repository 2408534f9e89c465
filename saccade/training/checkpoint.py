"""Checkpoints: all that it takes to go on as if nothing had happened.

A checkpoint is one sealed file, named by its step, written beside and renamed. The one before
goes only when the new one is safe; one that turns out damaged is named, and the one before used.
Training waits while its state is copied, not while the copy is hashed and brought to the disk.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.errors import RunError
from saccade.io.tensors import read_tensors, write_tensors
from saccade.optim import PIDState
from saccade.training.config import TrainConfig
from saccade.training.device import resolve_device
from saccade.training.loop import TrainState

TENSOR_FIELDS = (
    "best_weights",
    "recent_weights",
    "carry",
)  # what a Standing holds beside plain values


def inexact_resume_reasons(settings: TrainConfig) -> list[str]:
    """What keeps a resumed run from being, to the bit, the one that was never stopped."""
    reasons = []
    if settings.minutes is not None:
        reasons.append("it is bounded by minutes, and how many steps fit in is the clock's affair")
    if settings.compile:
        reasons.append(
            "it is compiled, and the kernels follow from the shapes that a process meets first"
        )
    if resolve_device(settings.device).type != "cpu":
        reasons.append("on a graphics card sums may be taken in another order each time")
    return reasons


class Checkpoint(NamedTuple):
    """What stood at one step, apart from the model that goes on."""

    step: int
    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def snapshot(model: nn.Module, optimizer: torch.optim.Optimizer, state: TrainState) -> Checkpoint:
    """Copy all that it takes to go on from here; this is all that training waits for."""
    tensors, facts = _apart(optimizer.state_dict()["state"])
    tensors |= {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"carry/{name}": tensor for name, tensor in state.carry.items()}
    copied = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    # these are copies already, which are replaced and never changed
    copied |= {f"best/{name}": tensor for name, tensor in state.best_weights.items()}
    for place, weights in enumerate(state.recent_weights):
        copied |= {f"recent/{place}/{name}": tensor for name, tensor in weights.items()}
    plain = {name: value for name, value in vars(state).items() if name not in TENSOR_FIELDS}
    return Checkpoint(state.step, copied, {"state": plain, "optimizer": facts})


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; keep the one before, drop the older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{checkpoint.step:09d}.safetensors"
    # a step that is saved twice, at the end of training say, has the same one before it
    before = [other for other in list_checkpoints(folder) if other != path]
    write_tensors(path, checkpoint.tensors, checkpoint.facts)
    for old in before[:-1]:
        old.unlink(missing_ok=True)


class BackgroundWriter:
    """Does one thing at a time beside the training, which waits for the disk only if it must.

    A failure is raised where the next thing is to be begun, or at the end of the block.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def submit(self, action: Callable[[], None]) -> None:
        """Begin, once what was begun before is done."""
        self.wait()

        def act() -> None:
            try:
                action()
            except BaseException as error:  # it belongs to the one who waits
                self._error = error

        self._thread = threading.Thread(target=act, name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Until it is done; if it failed, that is raised."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __enter__(self) -> "BackgroundWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.wait()
        else:
            with suppress(Exception):  # the first error is the one to tell
                self.wait()


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints that are there, oldest first."""
    return sorted(folder.glob("[0-9]*.safetensors"))


def load_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    warn: Callable[[str], None],
) -> TrainState:
    """Put model and optimiser where the newest whole checkpoint left them.

    With no checkpoint at all, training starts from its beginning: that is where it stood.
    """
    damaged = False
    for path in reversed(list_checkpoints(folder)):
        try:
            tensors, facts = read_tensors(path)
        except RunError as error:
            warn(str(error))
            damaged = True
            continue
        if damaged:
            warn(f"The checkpoint before it is used: {path}.")
        # to where new tensors lie: in a file they begin at any byte, and the order in which a
        # processor adds up a product may depend on that
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        model.load_state_dict(_under("model/", tensors))
        state = _together(_under("optimizer/", tensors), facts["optimizer"])
        _load(optimizer, state)
        known = {field.name for field in fields(TrainState)}
        saved = {OLD_STATE_NAMES.get(name, name): value for name, value in _saved_state(facts)}
        plain = {name: value for name, value in saved.items() if name in known}
        plain["control"] = PIDState(*plain.get("control", ()))
        return TrainState(
            **plain,
            best_weights=_under("best/", tensors),
            recent_weights=_recent(tensors),
            carry=_under("carry/", tensors) or _under("carried/", tensors),
        )
    if damaged:
        warn("There is no checkpoint before it: training starts from its beginning.")
    return TrainState()


OLD_STATE_NAMES = {"evaluated": "last_eval_step", "since_best": "evals_since_best"}


def _saved_state(facts: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Return the fields of the saved `TrainState`; run formats 1 and 2 call it "standing"."""
    saved: dict[str, Any] = facts["state"] if "state" in facts else facts["standing"]
    return saved.items()


def _recent(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    found: list[dict[str, Tensor]] = []
    while weights := _under(f"recent/{len(found)}/", tensors):
        found.append(weights)
    return found


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def _apart(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors and plain values.

    Of a list each tensor has a name of its own, and a gap among the plain values.
    """
    tensors, facts = {}, {}
    for index, values in state.items():
        for name, value in values.items():
            path = f"{index}/{name}"
            if isinstance(value, Tensor):
                tensors[f"optimizer/{path}"] = value
            elif isinstance(value, list):
                facts[path] = [None if isinstance(one, Tensor) else one for one in value]
                inside = {f"optimizer/{path}/{place}": one for place, one in enumerate(value)}
                tensors |= {key: one for key, one in inside.items() if isinstance(one, Tensor)}
            else:
                facts[path] = value
    return tensors, facts


def _together(tensors: dict[str, Tensor], facts: dict[str, Any]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for path, value in {**facts, **tensors}.items():
        index, name, *place = path.split("/")
        values = state.setdefault(int(index), {})
        if place:
            values[name][int(place[0])] = value
        else:
            values[name] = value
    return state


def _load(optimizer: torch.optim.Optimizer, state: dict[int, dict[str, Any]]) -> None:
    """Hand the state over as it was.

    The framework gives all of it but the count of steps the weights' own type of number: in a model
    of float64 a scalar that was kept in float32 would go on as another one.
    """
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for index, values in state.items():
        kept = optimizer.state[weights[index]]
        for name, value in values.items():
            if isinstance(value, Tensor) and kept[name].dtype != value.dtype:
                kept[name] = value.to(kept[name].device)
