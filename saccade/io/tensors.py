"""Checksummed safetensors files of tensors or arrays; the checksum is in the header.

The other files of a run are written by `saccade.io.atomic`. torch is imported only by the functions
that take or return tensors.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from saccade.errors import RunError
from saccade.io.atomic import (
    CHECKSUM_KEY,
    HEADER_KEY,
    corrupt_file_error,
    write_atomically,
)
from saccade.io.documents import parse_json
from saccade.io.file_kinds import check_regular_file

if TYPE_CHECKING:
    from torch import Tensor

TensorMetadata = Mapping[str, Any]


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", metadata: TensorMetadata) -> None:
    """Write tensors and JSON metadata as one checksummed safetensors file."""
    from safetensors.torch import save

    separate = _without_shared_memory(tensors)
    write_atomically(path, save(separate, metadata=_header(separate, metadata)))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: TensorMetadata) -> None:
    """Write arrays and JSON metadata as one checksummed safetensors file."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_atomically(path, save(contiguous, metadata=_header(contiguous, metadata)))


def read_tensors(path: Path) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """Return the tensors and metadata of a file; `RunError` if it was changed."""
    return _read(path, "pt")


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and metadata of a file; `RunError` if it was changed."""
    return _read(path, "numpy")


def _without_shared_memory(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Copy tensors to the CPU and clone tied ones: safetensors refuses shared memory."""
    from torch.nn.parameter import is_lazy

    if unknown := [name for name, tensor in tensors.items() if is_lazy(tensor)]:
        raise ValueError(
            f"got lazy parameters without a shape ({', '.join(unknown)}); expected initialised "
            "ones; try one forward pass before saving."
        )
    separate, seen = {}, set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        address = own.untyped_storage().data_ptr()
        separate[name] = own.clone() if address in seen else own
        seen.add(address)
    return separate


def _header(tensors: Mapping[str, Any], metadata: TensorMetadata) -> dict[str, str]:
    text = json.dumps(metadata, sort_keys=True)
    # one entry: safetensors would write several in an order that differs from file to file
    return {HEADER_KEY: json.dumps({"facts": text, CHECKSUM_KEY: _checksum(tensors, text)})}


def _read(path: Path, framework: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if not path.exists():
        raise RunError(f"{path} is missing. Is {path.parent} a finished run?")
    check_regular_file(path, RunError)
    try:
        with safe_open(path, framework=framework) as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if HEADER_KEY in header:  # format 1 stored the two as entries of their own
            header = parse_json(header[HEADER_KEY])
        text, checksum = header["facts"], header[CHECKSUM_KEY]
        metadata = parse_json(text)
        if not isinstance(metadata, dict):
            raise ValueError(f"got metadata of the type {type(metadata).__name__}")
    except (SafetensorError, KeyError, ValueError, OSError, RuntimeError, TypeError) as error:
        raise corrupt_file_error(
            path, f"it is truncated or is not the file that was written ({error})"
        ) from None
    if _checksum(tensors, text) != checksum:
        raise corrupt_file_error(path, "its content does not match its checksum")
    return tensors, metadata


def _checksum(tensors: Mapping[str, Any], metadata: str) -> str:
    digest = sha256(metadata.encode())
    for name in sorted(tensors):
        dtype, content = _dtype_and_bytes(tensors[name])
        digest.update(f"{name} {dtype} {tuple(tensors[name].shape)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _dtype_and_bytes(tensor: Any) -> tuple[str, Any]:
    """Return the torch name of the dtype and the bytes, equal for a tensor and its array."""
    if isinstance(tensor, np.ndarray):
        return f"torch.{tensor.dtype}", tensor.reshape(-1).view(np.uint8).data
    import torch

    # numpy has no bfloat16, so the memory is viewed as bytes
    return str(tensor.dtype), tensor.reshape(-1).view(torch.uint8).numpy().data
