"""Arrays mapped from a file: only the pages that are read are in memory."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def open_memmap(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Map a file of numbers read-only, as one row; an empty file, which cannot be mapped, too."""
    if not path.stat().st_size:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
