"""Weights of other tools as safetensors files: the header is compared before a tensor is read."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from saccade.errors import DataError
from saccade.io.file_kinds import check_regular_file
from saccade.io.signatures import PICKLES, binary_kind, zip_document_kind
from saccade.io.tensor_header import TensorInfo, read_tensor_header

MAX_DIFFERENCES = 5  # tensors of a wrong shape that a message lists
FLOAT_TENSOR_TYPES = ("F16", "BF16", "F32", "F64")


def read_weights_header(path: Path, advice: str) -> dict[str, TensorInfo]:
    """Return type and shape of each tensor of a file; DataError if it is not safetensors.

    Args:
        path: an existing file.
        advice: what to try if the file is a pickle, which is never opened.
    """
    check_regular_file(path)
    with path.open("rb") as file:
        start = file.read(16)
    if binary_kind(start) in PICKLES or zip_document_kind(path) in PICKLES:
        raise DataError(
            f"{path}: got a pickle, which may execute code when it is opened; expected "
            f"safetensors; {advice}"
        )
    try:
        return read_tensor_header(path)[0]
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable_weights(path, error) from None


def wrong_tensor(found: TensorInfo | None, expected: tuple[int | None, ...]) -> str:
    """Return how a tensor differs from what is expected; an empty string if it does not."""
    shape = " × ".join("any" if size is None else f"{size:,}" for size in expected)
    if found is None:
        return f"it is missing; expected {shape}"
    if found.dtype not in FLOAT_TENSOR_TYPES:
        return f"got values of type {found.dtype}; expected {', '.join(FLOAT_TENSOR_TYPES)}"
    same = len(found.shape) == len(expected) and all(
        size in (None, own) for own, size in zip(found.shape, expected, strict=True)
    )
    return "" if same else f"got {' × '.join(map('{:,}'.format, found.shape))}; expected {shape}"


def read_float_tensors(path: Path, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return tensors in float32, by our name, of their names in the file."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(stored).float() for name, stored in names.items()}
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable_weights(path, error) from None


def _unreadable_weights(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} could not be read: {error}; expected a complete safetensors file; try to copy or "
        "download it again."
    )
