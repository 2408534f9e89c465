"""Kernels: functions that numba turns into machine code, once, and keeps beside the source."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from saccade.errors import ConfigError

try:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import njit, types
    from numba.extending import intrinsic
except ImportError as error:  # pragma: no cover: an extra that the tests have
    raise ConfigError(
        "word vectors and support vector machines need numba, which is not installed: "
        "pip install 'saccade[vectors]'."
    ) from error

CACHE_LINE_BYTES = 64  # bytes that memory gives at a time

KernelFunction = TypeVar("KernelFunction", bound=Callable[..., Any])


def jit_nogil(function: KernelFunction) -> KernelFunction:
    """To machine code at its first call; Python's lock is not held, so threads run side by side.

    Sums may be taken in any order (fastmath), which is what lets a product of two rows use the
    processor's wide registers.
    """
    kernel = njit(nogil=True, fastmath=True, cache=True, error_model="numpy")(function)
    return cast(KernelFunction, kernel)


def jit_nogil_no_nrt(function: KernelFunction) -> KernelFunction:
    """`compiled`, for what makes no arrays: nothing keeps count of who holds one.

    A view of a row would else be counted when it is made and again when it is left, and in an inner
    loop that takes a fifth of the time. What a kernel wants to write to is handed to it.
    """
    uncounted: dict[str, Any] = {"_nrt": False}
    decorate = njit(nogil=True, fastmath=True, cache=True, error_model="numpy", **uncounted)
    kernel = decorate(function)
    return cast(KernelFunction, kernel)


def _prefetch_of(typing: Any, address: Any) -> Any:
    """The processor's own instruction: begin to fetch the line at an address, wait for nothing."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # to be read and written; kept near; data
        how = [ir.Constant(whole, number) for number in (1, 3, 1)]
        builder.call(fetch, [builder.inttoptr(arguments[0], byte), *how])
        return context.get_dummy_value()

    return types.void(types.uintp), code


_prefetch: Any = intrinsic(_prefetch_of)


@jit_nogil_no_nrt
def prefetch_row(table: Any, row: int) -> None:
    """Begin to fetch a row, so that it is there when it is needed.

    Rows lie anywhere in many megabytes: one that is not asked for ahead is waited for.
    """
    first = table.ctypes.data + row * table.shape[1] * 4
    # a loop that counts by ones: one by steps of a line takes ten times as long
    for line in range((table.shape[1] * 4 + CACHE_LINE_BYTES - 1) // CACHE_LINE_BYTES):
        _prefetch(first + line * CACHE_LINE_BYTES)


def aligned_zeros(count: int, width: int) -> NDArray[np.float32]:
    """Rows of zeros, filled up to whole lines of the cache, the first at the beginning of one.

    So a row is no more lines to fetch than it must be, and two threads that change rows side by
    side never wait for the same line.
    """
    many = CACHE_LINE_BYTES // 4
    wide = -(-width // many) * many
    room = np.zeros(count * wide + many, np.float32)
    first = -room.ctypes.data % CACHE_LINE_BYTES // 4
    return room[first : first + count * wide].reshape(count, wide)
