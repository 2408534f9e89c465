"""Decorators for loops that numba compiles, and a prefetch instruction for them.

numba is optional: without it these modules can be imported, and a compiled function raises
`MissingPackageError` when it is called.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from saccade.errors import MissingPackageError
from saccade.types.arrays import Float32Array

try:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import njit, types
    from numba.extending import intrinsic
except ImportError:
    HAS_NUMBA = False
else:
    HAS_NUMBA = True

CACHE_LINE_BYTES = 64

KernelFunction = TypeVar("KernelFunction", bound=Callable[..., Any])


def jit_nogil(function: KernelFunction) -> KernelFunction:
    """Compile a function at its first call; it runs without the GIL, so threads run in parallel.

    The machine code is cached on disk. Sums may be taken in any order (fastmath), which lets the
    dot product of two rows use the processor's vector registers.
    """
    return _jit(function)


def jit_nogil_no_nrt(function: KernelFunction) -> KernelFunction:
    """`jit_nogil` without reference counting (NRT); the function must not allocate arrays.

    A view of a row would otherwise be counted when it is made and again when it is dropped, which
    takes a fifth of the time of an inner loop. Output arrays are passed in by the caller.
    """
    return _jit(function, _nrt=False)


def jit_exact(function: KernelFunction) -> KernelFunction:
    """Compile a function that computes the same bits as in Python; without numba, return it as is.

    Sums keep their order (no fastmath). The function is short enough to be of use uncompiled.
    """
    return _jit(function, fastmath=False) if HAS_NUMBA else function


def _jit(function: KernelFunction, fastmath: bool = True, **options: Any) -> KernelFunction:
    if not HAS_NUMBA:
        return _raise_when_called(function)
    decorate = njit(nogil=True, fastmath=fastmath, cache=True, error_model="numpy", **options)
    return cast(KernelFunction, decorate(function))


def _raise_when_called(function: KernelFunction) -> KernelFunction:
    @wraps(function)
    def missing(*args: Any, **kwargs: Any) -> Any:
        raise MissingPackageError(
            f"{function.__module__}.{function.__name__} is compiled by numba, which is not "
            "installed: pip install 'saccade[vectors]'."
        )

    return cast(KernelFunction, missing)


def _prefetch_code(typing: Any, address: Any) -> Any:
    """Emit the processor's prefetch instruction for the cache line at an address."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, integer, integer, integer])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # for writing; high locality; data cache
        options = [ir.Constant(integer, number) for number in (1, 3, 1)]
        builder.call(fetch, [builder.inttoptr(arguments[0], byte), *options])
        return context.get_dummy_value()

    return types.void(types.uintp), code


_prefetch: Any = intrinsic(_prefetch_code) if HAS_NUMBA else None


@jit_nogil_no_nrt
def prefetch_row(table: Any, row: int) -> None:
    """Start to load a row into the cache before it is needed.

    Rows are spread over many megabytes, so that one that is not prefetched is a cache miss.
    """
    first = table.ctypes.data + row * table.shape[1] * 4
    # a loop that counts by ones: one with a step of a cache line takes ten times as long
    for line in range((table.shape[1] * 4 + CACHE_LINE_BYTES - 1) // CACHE_LINE_BYTES):
        _prefetch(first + line * CACHE_LINE_BYTES)


def aligned_zeros(count: int, width: int) -> Float32Array:
    """Return rows of zeros, padded to whole cache lines and aligned to them.

    A row then spans as few cache lines as possible, and two threads that update neighbouring rows
    never contend for a line (no false sharing).
    """
    per_line = CACHE_LINE_BYTES // 4
    padded = -(-width // per_line) * per_line
    memory = np.zeros(count * padded + per_line, np.float32)
    first = -memory.ctypes.data % CACHE_LINE_BYTES // 4
    return memory[first : first + count * padded].reshape(count, padded)
