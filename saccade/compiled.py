"""Kernels: functions that numba turns into machine code, once, and keeps beside the source."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from saccade.errors import ConfigError

try:
    from numba import njit
except ImportError as error:  # pragma: no cover: an extra that the tests have
    raise ConfigError(
        "word vectors and support vector machines need numba, which is not installed: "
        "pip install 'saccade[vectors]'."
    ) from error

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """To machine code at its first call; Python's lock is not held, so threads run side by side.

    Sums may be taken in any order (fastmath), which is what lets a product of two rows use the
    processor's wide registers.
    """
    kernel = njit(nogil=True, fastmath=True, cache=True, error_model="numpy")(function)
    return cast(Kernel, kernel)
