"""Tensors and arrays in sealed files: the seal of a safetensors file is in its header.

The other files of a run are those of `saccade.io.atomic`. torch is loaded by those who have tensors,
and by nobody else.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from saccade.errors import RunError
from saccade.io.atomic import CHECKSUM_KEY, corrupt_file_error, write_atomically

if TYPE_CHECKING:
    from torch import Tensor, nn

TensorMetadata = Mapping[str, Any]


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", metadata: TensorMetadata) -> None:
    """Write tensors and a few plain facts as one sealed safetensors file."""
    from safetensors.torch import save

    whole = _each_its_own(tensors)
    write_atomically(path, save(whole, metadata=_notes(whole, metadata)))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: TensorMetadata) -> None:
    """Write arrays and a few plain facts as one sealed safetensors file."""
    from safetensors.numpy import save

    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_atomically(path, save(whole, metadata=_notes(whole, metadata)))


def read_tensors(path: Path) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """The tensors and facts that were written, or a `RunError` if they were changed."""
    return _read(path, "pt")


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The same as arrays."""
    return _read(path, "numpy")


def _each_its_own(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """On the CPU, and apart: safetensors refuses tied weights, which share their memory."""
    from torch.nn.parameter import is_lazy

    if unknown := [name for name, tensor in tensors.items() if is_lazy(tensor)]:
        raise ValueError(
            f"{', '.join(unknown)}: no size is known yet, so there is nothing to write; send one "
            "batch through the model first."
        )
    whole, seen = {}, set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        place = own.untyped_storage().data_ptr()
        whole[name] = own.clone() if place in seen else own
        seen.add(place)
    return whole


def _notes(whole: Mapping[str, Any], metadata: TensorMetadata) -> dict[str, str]:
    note = json.dumps(metadata, sort_keys=True)
    # one entry: of several, safetensors would write them in another order every time
    return {"sealed": json.dumps({"facts": note, CHECKSUM_KEY: _seal(whole, note)})}


def _read(path: Path, framework: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if not path.exists():
        raise RunError(f"{path} is missing. Is {path.parent} a finished run?")
    try:
        with safe_open(path, framework=framework) as file:
            notes = file.metadata() or {}
            whole = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if "sealed" in notes:  # in format 1 the two stood by themselves
            notes = json.loads(notes["sealed"])
        note, seal = notes["facts"], notes[CHECKSUM_KEY]
        metadata = json.loads(note)
    except (SafetensorError, KeyError, ValueError, OSError, RuntimeError, TypeError) as error:
        raise corrupt_file_error(
            path, f"it is cut short or is not the file that was written ({error})"
        ) from None
    if _seal(whole, note) != seal:
        raise corrupt_file_error(path, "its content does not match its seal")
    return whole, dict(metadata)


def _seal(whole: Mapping[str, Any], note: str) -> str:
    digest = sha256(note.encode())
    for name in sorted(whole):
        kind, content = _plain(whole[name])
        digest.update(f"{name} {kind} {tuple(whole[name].shape)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _plain(tensor: Any) -> tuple[str, Any]:
    """The name of its numbers' format, and its bytes; of a tensor and an array the same."""
    if isinstance(tensor, np.ndarray):
        return f"torch.{tensor.dtype}", tensor.reshape(-1).view(np.uint8).data
    import torch

    # numpy knows no bfloat16, so the bytes are taken as bytes
    return str(tensor.dtype), tensor.reshape(-1).view(torch.uint8).numpy().data


# --- a module's tensors ---------------------------------------------------------------------------


def unique_state_dict(module: "nn.Module") -> "dict[str, Tensor]":
    """A module's tensors by name; one that it has in two places stands under its first name only.

    `load_matching` puts it into both places again.
    """
    firsts: dict[int, str] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        firsts.setdefault(id(tensor), name)
    own = module.state_dict()
    return {name: own[name] for name in firsts.values()}


class LoadReport(NamedTuple):
    """What a module took, by name, and what was left."""

    loaded: list[str]
    missing: list[str]  # the module's own for which there was nothing: they stay as they were
    mismatched: list[str]  # with the two shapes; these stay as they were, too
    unexpected: list[str]  # what the module has no place for

    @property
    def summary(self) -> str:
        """For a person."""
        left = {"missing": self.missing, "of another shape": self.mismatched}
        left["of no use here"] = self.unexpected
        said = [f"{what}: {', '.join(names)}" for what, names in left.items() if names]
        return "; ".join([f"taken: {len(self.loaded)}", *said]) + "."


def load_matching_state_dict(module: "nn.Module", tensors: "Mapping[str, Tensor]") -> LoadReport:
    """Put the tensors that have the name and the shape of a module's own into it; say the rest.

    A place whose size is not known yet (of a lazy layer before its first batch) takes any shape.
    """
    from torch.nn.parameter import is_lazy

    own = module.state_dict(keep_vars=True)
    known = {name: tensor for name, tensor in tensors.items() if name in own}
    other = {
        name: f"{name} (is {_shape(own[name])}, got {_shape(tensor)})"
        for name, tensor in known.items()
        if not is_lazy(own[name]) and own[name].shape != tensor.shape
    }
    fitting = {name: tensor for name, tensor in known.items() if name not in other}
    module.load_state_dict(fitting, strict=False)
    filled = {id(own[name]) for name in fitting}
    return LoadReport(
        [name for name, tensor in own.items() if id(tensor) in filled],
        [name for name, tensor in own.items() if id(tensor) not in filled and name not in other],
        list(other.values()),
        [name for name in tensors if name not in own],
    )


def _shape(tensor: "Tensor") -> str:
    return "×".join(map(str, tensor.shape)) or "one number"
