"""Checkpoints for bit-exact resuming.

A checkpoint is one file with a checksum, named by its step and written atomically. The previous
checkpoint is kept; if the newest turns out to be damaged, a warning names it and the previous one
is used. Training waits while its state is copied, not while the copy is hashed and written to disk.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import torch
from torch import Tensor, nn

from saccade.errors import RunError
from saccade.io.documents import parse_structure
from saccade.io.tensors import read_tensors, write_tensors
from saccade.training.config import TrainConfig
from saccade.training.device import resolve_device
from saccade.training.state import TrainState

TENSOR_FIELDS = ("best_weights", "recent_weights", "carry")  # fields of a TrainState with tensors


def inexact_resume_reasons(settings: TrainConfig) -> list[str]:
    """Return the reasons why a resumed run may not be bit-exact."""
    reasons = []
    if settings.minutes is not None:
        reasons.append("it is limited by minutes, so the number of steps depends on speed")
    if settings.compile:
        reasons.append(
            "it is compiled, and the kernels depend on the shapes that a process compiles first"
        )
    if resolve_device(settings.device).type != "cpu":
        reasons.append("on an accelerator the order of summation may vary")
    return reasons


# state of the optimizers with fused kernels, one number for each of the weight
FUSED_STATE = frozenset({"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer"})


class Checkpoint(NamedTuple):
    """Copy of the training state at one step."""

    step: int
    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def snapshot(model: nn.Module, optimizer: torch.optim.Optimizer, state: TrainState) -> Checkpoint:
    """Copy the state of model, optimizer and loop; training waits for this copy only."""
    tensors, facts = _split_state(optimizer.state_dict()["state"])
    tensors |= {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"carry/{name}": tensor for name, tensor in state.carry.items()}
    copied = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    # these are copies already, which are never modified in place
    copied |= {f"best/{name}": tensor for name, tensor in state.best_weights.items()}
    for index, weights in enumerate(state.recent_weights):
        copied |= {f"recent/{index}/{name}": tensor for name, tensor in weights.items()}
    plain = {name: value for name, value in vars(state).items() if name not in TENSOR_FIELDS}
    return Checkpoint(state.step, copied, {"state": plain, "optimizer": facts})


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, keep the previous one and delete older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{checkpoint.step:09d}.safetensors"
    # a step may be saved twice, as at the end of training
    previous = [existing for existing in list_checkpoints(folder) if existing != path]
    write_tensors(path, checkpoint.tensors, checkpoint.facts)
    for old in previous[:-1]:
        old.unlink(missing_ok=True)


class BackgroundWriter:
    """Run one action at a time in a background thread, so that training does not wait for the disk.

    An exception of an action is raised by the next `submit` or `wait`, or at the end of the block.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def submit(self, action: Callable[[], None]) -> None:
        """Start an action after the previous one has finished."""
        self.wait()

        def run() -> None:
            try:
                action()
            except BaseException as error:  # raised again in the thread that waits
                self._error = error

        self._thread = threading.Thread(target=run, name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Wait for the running action and raise its exception, if any."""
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
            with suppress(Exception):  # the first error is the one to report
                self.wait()


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the paths of the checkpoints, oldest first."""
    return sorted(folder.glob("[0-9]*.safetensors"))


def load_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    warn: Callable[[str], None],
) -> TrainState:
    """Load the newest undamaged checkpoint into model and optimizer, and return the loop's state.

    Without a checkpoint, model and optimizer are unchanged and the state is that of step 0.
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
            warn(f"Using the previous checkpoint: {path}.")
        try:
            return _restore(tensors, facts, model, optimizer)
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[-1].strip()
            raise RunError(
                f"{path} does not fit the settings of its run: {reason:.1000}; expected the "
                "checkpoint that its training wrote; try to remove it, or train again."
            ) from None
    if damaged:
        warn("There is no previous checkpoint; training starts from step 0.")
    return TrainState()


def _restore(
    tensors: dict[str, Tensor],
    facts: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> TrainState:
    """Load a checkpoint into model and optimizer, and return the state of the loop."""
    # into aligned memory: in a file a tensor may start at any byte, and the order in which a
    # CPU kernel adds up a product may depend on the alignment
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    model.load_state_dict(_under("model/", tensors))
    optimizer_state = _join_state(_under("optimizer/", tensors), facts["optimizer"])
    _load_optimizer_state(optimizer, optimizer_state)
    known = get_type_hints(TrainState)
    saved = {OLD_STATE_NAMES.get(name, name): value for name, value in _saved_state(facts)}
    shapes = {name: weight.shape for name, weight in model.state_dict().items()}
    best, recent = _under("best/", tensors), _recent_weights(tensors)
    for weights in (best, *recent):
        if weights and {name: weight.shape for name, weight in weights.items()} != shapes:
            raise ValueError("its best or recent weights have other shapes than the model")
    plain = {
        name: parse_structure(known[name], value)
        for name, value in saved.items()
        if name in known.keys() - {*TENSOR_FIELDS}
    }
    return TrainState(
        **plain,
        best_weights=best,
        recent_weights=recent,
        carry=_under("carry/", tensors) or _under("carried/", tensors),
    )


def read_checkpoint_weights(folder: Path) -> tuple[dict[str, Tensor], int] | None:
    """Return the best weights of the newest undamaged checkpoint and their step.

    Before the first evaluation there are no best weights; then these are the newest ones. None if
    there is no checkpoint.
    """
    for path in reversed(list_checkpoints(folder)):
        try:
            tensors, facts = read_tensors(path)
        except RunError:
            continue
        if best := _under("best/", tensors):
            return best, int(dict(_saved_state(facts))["best_step"])
        return _under("model/", tensors), int(path.stem)
    return None


OLD_STATE_NAMES = {"evaluated": "last_eval_step", "since_best": "evals_since_best"}


def _saved_state(facts: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Return the fields of the saved `TrainState`; run formats 1 and 2 call it "standing"."""
    saved: dict[str, Any] = facts["state"] if "state" in facts else facts["standing"]
    return saved.items()


def _recent_weights(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    recent: list[dict[str, Tensor]] = []
    while weights := _under(f"recent/{len(recent)}/", tensors):
        recent.append(weights)
    return recent


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose name starts with `prefix`, without it."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def _split_state(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Split an optimizer's state into named tensors and plain values.

    Each tensor of a list gets a name of its own, and None in its position of the plain list.
    """
    tensors, facts = {}, {}
    for index, values in state.items():
        for name, value in values.items():
            path = f"{index}/{name}"
            if isinstance(value, Tensor):
                tensors[f"optimizer/{path}"] = value
            elif isinstance(value, list):
                facts[path] = [None if isinstance(item, Tensor) else item for item in value]
                items = {f"optimizer/{path}/{number}": item for number, item in enumerate(value)}
                tensors |= {key: item for key, item in items.items() if isinstance(item, Tensor)}
            else:
                facts[path] = value
    return tensors, facts


def _join_state(tensors: dict[str, Tensor], facts: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Invert `_split_state`."""
    state: dict[int, dict[str, Any]] = {}
    for path, value in {**facts, **tensors}.items():
        index, name, *number = path.split("/")
        values = state.setdefault(int(index), {})
        if number:
            values[name][int(number[0])] = value
        else:
            values[name] = value
    return state


def _load_optimizer_state(
    optimizer: torch.optim.Optimizer, state: dict[int, dict[str, Any]]
) -> None:
    """Load an optimizer's state without changing its number formats.

    torch converts all of it but the step count to the weights' dtype, so that in a float64 model a
    scalar saved as float32 would continue as a different number.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    _check_optimizer_state(weights, state)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    for index, values in state.items():
        loaded = optimizer.state[weights[index]]
        for name, value in values.items():
            if isinstance(value, Tensor) and loaded[name].dtype != value.dtype:
                loaded[name] = value.to(loaded[name].device)


def _check_optimizer_state(weights: list[Tensor], state: dict[int, dict[str, Any]]) -> None:
    """Raise ValueError for state that does not fit the weights.

    torch checks neither, and its fused kernels read and write as many numbers as the weight has.
    """
    total = sum(weight.numel() for weight in weights)
    parts = (
        frozenset(name for name, value in values.items() if isinstance(value, Tensor))
        for values in state.values()
    )
    if len({*parts}) > 1:
        raise ValueError("its optimizer state has other parts for one weight than for another")
    for index, values in state.items():
        if not 0 <= index < len(weights):
            raise ValueError(f"its optimizer state is of weight {index}, of {len(weights)}")
        weight = weights[index]
        for name, value in values.items():
            is_kept = isinstance(value, Tensor) and name in FUSED_STATE
            if is_kept and (value.shape, value.dtype) != (weight.shape, weight.dtype):
                raise ValueError(
                    f"{name} of weight {index} is {value.dtype} of shape {tuple(value.shape)}, the "
                    f"weight {weight.dtype} of {tuple(weight.shape)}"
                )
            # of each number of a weight, of one weight, or (L-BFGS) of all weights in one vector
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Tensor) and item.numel() not in (1, weight.numel(), total):
                    raise ValueError(
                        f"{name} of weight {index} has {item.numel():,} numbers, the weight "
                        f"{weight.numel():,}"
                    )
