"""Benchmark processes that alternate, and the statistics of their windows.

Every contestant has its own process, with the same environment, for the whole benchmark; between
its windows it waits on its pipe. So a temporary slow-down of the machine affects all of them, and
no allocator or thread pool is shared.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from peers.pipe import THREADS

MAX_OTHER_SHARE = 0.06  # of the machine's CPU time in a window, by other processes
MAX_ATTEMPTS = 3  # at a disturbed window; the least disturbed counts
_TUNING = ("OMP_", "GOMP_", "KMP_", "MKL_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
_TICK = os.sysconf("SC_CLK_TCK")


def environment() -> dict[str, str]:
    """Return the same environment for all: two threads, no other tuning of threads or allocator."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(_TUNING)}
    threads = {"OMP_NUM_THREADS": str(THREADS), "MKL_NUM_THREADS": str(THREADS)}
    folder = str(Path(__file__).resolve().parents[1])
    return plain | threads | {"PYTHONPATH": folder, "HF_HUB_OFFLINE": "1"}


class Window(NamedTuple):
    """Result of one window, and the load by other processes."""

    value: float
    others: float  # share of the machine's CPU time that was not the contestant's
    kernel: float  # share of the contestant's own CPU time that was the kernel's
    answer: dict[str, Any]


class Contestant:
    """A benchmark process that waits for commands."""

    def __init__(self, name: str, *arguments: str, tuning: Mapping[str, str] | None = None):
        self.name = name
        self.windows: list[Window] = []
        self.repeated = 0
        self._log = TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "peers.contestant", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment() | (tuning or {}),
            text=True,
        )
        self.facts = self.receive()

    def receive(self) -> dict[str, Any]:
        """Return the next message of the process; exit with its log if it ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            last = "".join(self._log.readlines()[-25:])
            code = self._process.wait()
            raise SystemExit(f"{last}\n{self.name} ended unexpectedly (code {code}): see above.")
        return json.loads(line)

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command and return the reply."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self.receive()

    def measure(self, value: Callable[[dict[str, Any]], float], **command: Any) -> Window:
        """Measure one window, with the CPU time of the machine and of this process."""
        cores = os.cpu_count() or 1
        start, busy, (user, system) = time.perf_counter(), _busy(), self._cpu()
        answer = self.ask(**command)
        more_user, more_system = self._cpu()
        mine = more_user - user + more_system - system
        span = time.perf_counter() - start
        others = max(0.0, _busy() - busy - mine) / (span * cores)
        kernel = (more_system - system) / mine if mine else 0.0
        return Window(value(answer), others, kernel, answer)

    def turn(self, value: Callable[[dict[str, Any]], float], **command: Any) -> Window:
        """Record a window: the first undisturbed one, or the least disturbed of a few."""
        tried = [self.measure(value, **command)]
        while tried[-1].others > MAX_OTHER_SHARE and len(tried) < MAX_ATTEMPTS:
            self.repeated += 1
            tried.append(self.measure(value, **command))
        best = min(tried, key=lambda window: window.others)
        self.windows.append(best)
        return best

    @property
    def values(self) -> list[float]:
        """Measured value of each window."""
        return [window.value for window in self.windows]

    @property
    def peak(self) -> float:
        """Peak memory of the process in MB."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

    def end(self) -> None:
        """Close the pipe, which ends the process, and kill it after ten seconds."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _cpu(self) -> tuple[float, float]:
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        user, system, children_user, children_system = map(int, stat[11:15])
        return (user + children_user) / _TICK, (system + children_system) / _TICK


def _busy() -> float:
    """Return the non-idle CPU seconds of the machine, including time stolen by the host."""
    fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / _TICK


def ratio(ours: Sequence[float], theirs: Sequence[float], draws: int = 10_000) -> list[float]:
    """Return the ratio of the medians and its 95 % bootstrap interval."""
    generator = np.random.default_rng(1)
    middles = [
        np.median(generator.choice(np.asarray(values), (draws, len(values))), axis=1)
        for values in (ours, theirs)
    ]
    low, high = np.percentile(middles[0] / middles[1], [2.5, 97.5])
    return [median(ours) / median(theirs), float(low), float(high)]


def summary(contestant: Contestant) -> dict[str, Any]:
    """Return a contestant's results for the JSON file."""
    windows = contestant.windows
    return {
        "median": median(contestant.values),
        "windows": contestant.values,
        "others": [round(window.others, 4) for window in windows],
        "kernel": [round(window.kernel, 4) for window in windows],
        "repeated": contestant.repeated,
        "peak_mb": round(contestant.peak),
        **contestant.facts,
    }


def log_progress(text: str) -> None:
    """Print a line of progress with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)
