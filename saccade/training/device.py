"""Devices, autocast, threads and memory allocation."""

import ctypes
import sys
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from saccade.errors import ConfigError
from saccade.training.cpu import available_cpus


def resolve_device(name: str) -> torch.device:
    """Return the device of a setting; "auto" is the current accelerator or the CPU."""
    if name == "auto":
        accelerator = (
            torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        )
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = f"({str(error).splitlines()[0]}); try 'auto' or 'cpu'."
        if "device string" in str(error):  # torch lists devices that hardly any machine has
            reason = "; expected auto, cpu, cuda or cuda:N (NVIDIA, AMD), or mps (Apple)."
        raise ConfigError(
            f"train.device is {name!r}, which this machine cannot use{reason}"
        ) from None
    return device


def autocast(dtype: str, model: nn.Module) -> AbstractContextManager[object]:
    """Return a context with matrix products in `dtype`; weights and reductions stay float32."""
    if dtype == "float32":
        return nullcontext()
    device = next(model.parameters()).device.type
    return torch.autocast(device, dtype=torch.bfloat16)


def set_num_threads(threads: int | None) -> int:
    """Set the number of threads (None: that of the available cores) and return it."""
    torch.set_num_threads(threads or available_cpus())
    return torch.get_num_threads()


def tune_malloc() -> None:
    """Configure glibc to keep freed memory instead of returning it to the system.

    A training step frees and reallocates the same large blocks; returned in between, each costs a
    page fault for every 4 kB. `benchmarks/memory.py` measures the gain. Does nothing without glibc.
    """
    if sys.platform != "linux":
        return
    trim_threshold, map_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(map_threshold, 1 << 30)
        mallopt(trim_threshold, (1 << 31) - 1)
