"""Partial loading of `state_dict`s, and `state_dict`s without duplicates of shared tensors."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.parameter import is_lazy


def unique_state_dict(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a module by name, a shared one under its first name only.

    `load_matching_state_dict` loads it under all its names.
    """
    first_names: dict[int, str] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        first_names.setdefault(id(tensor), name)
    state_dict = module.state_dict()
    return {name: state_dict[name] for name in first_names.values()}


class LoadReport(NamedTuple):
    """The names that were loaded into a module, and those that were not."""

    loaded: list[str]
    missing: list[str]  # of the module, not in the file: unchanged
    mismatched: list[str]  # with both shapes; unchanged, too
    unexpected: list[str]  # in the file, not of the module

    @property
    def summary(self) -> str:
        """One line for a user."""
        rest = {
            "missing": self.missing,
            "shape mismatch": self.mismatched,
            "unexpected": self.unexpected,
        }
        lists = [f"{kind}: {', '.join(names)}" for kind, names in rest.items() if names]
        return "; ".join([f"loaded: {len(self.loaded)}", *lists]) + "."


def load_matching_state_dict(module: nn.Module, tensors: Mapping[str, Tensor]) -> LoadReport:
    """Load the tensors whose name and shape match the module's own, and report the rest.

    An uninitialised parameter (of a lazy layer before its first batch) takes any shape.
    """
    own = module.state_dict(keep_vars=True)
    known = {name: tensor for name, tensor in tensors.items() if name in own}
    mismatched = {
        name: f"{name} (expected {_shape(own[name])}, got {_shape(tensor)})"
        for name, tensor in known.items()
        if not is_lazy(own[name]) and own[name].shape != tensor.shape
    }
    matching = {name: tensor for name, tensor in known.items() if name not in mismatched}
    module.load_state_dict(matching, strict=False)
    loaded = {id(own[name]) for name in matching}
    return LoadReport(
        [name for name, tensor in own.items() if id(tensor) in loaded],
        [
            name
            for name, tensor in own.items()
            if id(tensor) not in loaded and name not in mismatched
        ],
        list(mismatched.values()),
        [name for name in tensors if name not in own],
    )


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "a scalar"
