"""Processes that take turns, one awake at a time, and what their windows come to.

Every contestant lives in a process of its own, with the same environment, from the beginning of
a run to its end; between its windows it sleeps at its pipe. So what slows the machine down for a
while slows all of them down, and no allocator or pool of threads serves two of them.
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

QUIET = 0.06  # the share of the machine that others may take of a window
TRIES = 3  # of a window that was disturbed; the quietest counts
_TUNING = ("OMP_", "GOMP_", "KMP_", "MKL_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
_TICK = os.sysconf("SC_CLK_TCK")


def environment() -> dict[str, str]:
    """The same for all: two threads, and nothing else that tunes threads or the allocator."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(_TUNING)}
    threads = {"OMP_NUM_THREADS": str(THREADS), "MKL_NUM_THREADS": str(THREADS)}
    folder = str(Path(__file__).resolve().parents[1])
    return plain | threads | {"PYTHONPATH": folder, "HF_HUB_OFFLINE": "1"}


class Window(NamedTuple):
    """What a contestant did in one turn, and who disturbed it."""

    value: float
    others: float  # share of the machine's CPU time that was not the contestant's
    kernel: float  # share of the contestant's own CPU time that was the kernel's
    answer: dict[str, Any]


class Contestant:
    """A process that waits for its turn."""

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
        self.facts = self.hear()

    def hear(self) -> dict[str, Any]:
        """The next message of the process, or why there is none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            last = "".join(self._log.readlines()[-25:])
            code = self._process.wait()
            raise SystemExit(f"{last}\n{self.name} ended by itself (code {code}): see above.")
        return json.loads(line)

    def ask(self, **command: Any) -> dict[str, Any]:
        """Say something and wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self.hear()

    def measure(self, value: Callable[[dict[str, Any]], float], **command: Any) -> Window:
        """One turn, with the time that the whole machine and this process took for it."""
        cores = os.cpu_count() or 1
        began, busy, (user, system) = time.perf_counter(), _busy(), self._cpu()
        answer = self.ask(**command)
        more_user, more_system = self._cpu()
        mine = more_user - user + more_system - system
        span = time.perf_counter() - began
        others = max(0.0, _busy() - busy - mine) / (span * cores)
        kernel = (more_system - system) / mine if mine else 0.0
        return Window(value(answer), others, kernel, answer)

    def turn(self, value: Callable[[dict[str, Any]], float], **command: Any) -> Window:
        """A window that counts: the first quiet one, or the quietest of a few."""
        tried = [self.measure(value, **command)]
        while tried[-1].others > QUIET and len(tried) < TRIES:
            self.repeated += 1
            tried.append(self.measure(value, **command))
        best = min(tried, key=lambda window: window.others)
        self.windows.append(best)
        return best

    @property
    def values(self) -> list[float]:
        """What was measured, a value for each window."""
        return [window.value for window in self.windows]

    @property
    def peak(self) -> float:
        """The most memory the process has held so far, in MB."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

    def end(self) -> None:
        """Close the pipe, on which the process ends; it has ten seconds for that."""
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
    """Seconds of CPU time that the machine was not idle, what a host took of it included."""
    fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / _TICK


def ratio(ours: Sequence[float], theirs: Sequence[float], draws: int = 10_000) -> list[float]:
    """Median over median, and the ends of its 95 % interval, windows drawn again with luck."""
    luck = np.random.default_rng(1)
    middles = [
        np.median(luck.choice(np.asarray(values), (draws, len(values))), axis=1)
        for values in (ours, theirs)
    ]
    low, high = np.percentile(middles[0] / middles[1], [2.5, 97.5])
    return [median(ours) / median(theirs), float(low), float(high)]


def summary(contestant: Contestant) -> dict[str, Any]:
    """What is kept of a contestant, for a file."""
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


def say(text: str) -> None:
    """A line of progress with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)
