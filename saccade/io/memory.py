"""Memory of the machine, and refusal of allocations that it cannot hold.

Linux grants memory that does not exist and kills the process that uses it, so an estimate is
compared with the available memory before anything large is allocated.
"""

from contextlib import suppress
from pathlib import Path

from saccade.errors import ConfigError

BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")
WEIGHT_BYTES = 4  # of a value in float32
MEMINFO = Path("/proc/meminfo")
# the limit of a container, and what it uses (control groups, version 2)
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


def available_memory() -> int | None:
    """Return the bytes that this process may still allocate; None where that is unknown."""
    found = []
    with suppress(OSError, StopIteration, ValueError, IndexError):
        lines = MEMINFO.read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):  # "max": no limit
        found.append(int(CGROUP_LIMIT.read_text()) - int(CGROUP_USED.read_text()))
    return max(0, min(found)) if found else None


def check_memory(needed: int, purpose: str, advice: str) -> None:
    """Raise a ConfigError if `needed` bytes are more than the available memory.

    Args:
        needed: the estimate in bytes.
        purpose: the subject of the message ("a model with model.width=65536").
        advice: what to try.
    """
    available = available_memory()
    if available is not None and needed > available:
        raise ConfigError(
            f"got {purpose}, which needs about {format_bytes(needed)} of memory; expected at most "
            f"the {format_bytes(available)} that are available; try {advice}."
        )


def format_bytes(size: float) -> str:
    """Return a number of bytes with a unit, three digits."""
    for unit in BYTE_UNITS:
        if size < 1000 or unit == BYTE_UNITS[-1]:
            break
        size /= 1000
    return f"{size:.3g} {unit}" if unit != "B" else f"{size:.0f} B"
