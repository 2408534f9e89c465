"""Rows of weights in memory, refused where the machine cannot hold them."""

from saccade.compiled.jit import aligned_zeros
from saccade.io.memory import check_memory
from saccade.types.arrays import Float32Array

ROW_COPIES = 2  # the rows, and their random values or the file that is written


def allocate_rows(count: int, width: int) -> Float32Array:
    """Return `count` aligned rows of zeros; ConfigError if they do not fit into memory."""
    check_memory(
        ROW_COPIES * 4 * count * width,
        f"{count:,} rows of model.width={width}",
        "a smaller --set model.width=N, or fewer rows: data.min_count, model.buckets",
    )
    return aligned_zeros(count, width)
