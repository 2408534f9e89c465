"""Header of a safetensors file: types and shapes, without reading a tensor or importing numpy."""

from pathlib import Path
from typing import NamedTuple

from safetensors import safe_open


class TensorInfo(NamedTuple):
    """Type (F32, BF16, I64, …) and shape of a stored tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_tensor_header(path: Path) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Return type and shape of each tensor and the metadata of a file; no tensor is read.

    A header that contradicts itself or the size of the file is a `SafetensorError`.
    """
    with safe_open(path, framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        found = {
            name: TensorInfo(str(part.get_dtype()), tuple(part.get_shape()))
            for name, part in slices.items()
        }
        return found, file.metadata() or {}
