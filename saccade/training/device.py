"""Devices, number formats and threads."""

import ctypes
import sys
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from saccade.errors import ConfigError
from saccade.training.cpu import available_cpus


def resolve_device(name: str) -> torch.device:
    """The device a setting means; "auto" is the first accelerator there is, or the CPU."""
    if name == "auto":
        found = (
            torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        )
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"train.device is {name!r}, which this machine cannot use ({reason}). "
            "Use 'auto' or 'cpu'."
        ) from None
    return device


def autocast(dtype: str, model: nn.Module) -> AbstractContextManager[object]:
    """Matrix products in bfloat16 when asked for; weights and sums stay float32."""
    if dtype == "float32":
        return nullcontext()
    device = next(model.parameters()).device.type
    return torch.autocast(device, dtype=torch.bfloat16)


def set_num_threads(threads: int | None) -> int:
    """Use so many threads (None: as many as there are cores), and say how many that is."""
    torch.set_num_threads(threads or available_cpus())
    return torch.get_num_threads()


def tune_malloc() -> None:
    """Ask the C library to keep freed memory rather than hand it back to the system.

    A step of training frees and asks again for the same large blocks; handed back in between,
    each costs a page fault for every 4 kB. `benchmarks/memory.py` shows what it gains. Only
    glibc has the switch.
    """
    if sys.platform != "linux":
        return
    trim_threshold, map_threshold = -1, -3  # glibc's names for them: M_TRIM_…, M_MMAP_THRESHOLD
    switch = getattr(ctypes.CDLL(None), "mallopt", None)
    if switch is not None:
        switch(map_threshold, 1 << 30)
        switch(trim_threshold, (1 << 31) - 1)
