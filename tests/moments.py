"""Commands that get a signal at a chosen moment: an import, the opening or renaming of a file.

`CommandServer` has all modules loaded and forks a process for each command, so that a command costs
a fraction of a second. A moment is an audit event of Python, not a time: the same one at any load
of the machine. Moments on the disk (a file opened for writing, flushed, renamed or removed under
the folder of the command) are counted, so that a command can be killed at the n-th.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

SERVER = r"""
import atexit, json, os, signal, sys, threading, time
import saccade.__main__, saccade.cli.main, saccade.runs.run, saccade.runs.train
import saccade.training.session, saccade.tasks.registry, saccade.plots.render
modules, is_quick = json.loads(sys.argv[1])
for name in modules:
    __import__(name)
if is_quick:
    from matplotlib.figure import Figure

    save = Figure.savefig
    coarse = lambda self, file, **options: save(self, file, format=options["format"], dpi=20)
    Figure.savefig = coarse

DISK = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
flush = os.fsync


def install(order):
    root, wanted, seen = os.path.realpath(os.getcwd()), order["moment"], {"count": 0, "disk": 0}

    def reached():
        number = order["signals"].pop(0)
        try:
            os.kill(os.getpid(), number)
            if number == signal.SIGKILL:
                time.sleep(60)  # another thread may run on for a moment
        finally:
            if order["signals"]:
                reached()

    def disk_moment():
        seen["disk"] += 1
        if seen["disk"] == wanted:
            reached()

    def hook(event, arguments):
        text = str(arguments[0]) if arguments else ""
        if event == "os.rename":
            text = f"{arguments[0]} {arguments[1]}"
        if isinstance(wanted, list) and event == wanted[0] and wanted[1] in text:
            seen["count"] += 1
            if seen["count"] == wanted[2]:
                reached()
        is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
        if (is_write or event in DISK) and os.path.abspath(text.split()[0]).startswith(root):
            disk_moment()

    def flushed(handle):
        disk_moment()
        flush(handle)
        disk_moment()

    os.fsync = flushed
    if wanted == ["atexit", "", 1]:
        atexit.register(reached)
    sys.addaudithook(hook)
    return seen


for line in sys.stdin:
    order = json.loads(line)
    started = time.monotonic()
    child = os.fork()
    if not child:
        os.chdir(order["folder"])
        null, errors = os.open(os.devnull, os.O_RDWR), os.open(order["errors"], 577, 0o600)
        os.dup2(null, 0), os.dup2(os.open(order["output"], 577, 0o600), 1), os.dup2(errors, 2)
        sys.argv[1:] = order["arguments"]
        sys.stdin = open(os.devnull)
        seen = install(order)
        try:
            saccade.__main__.start()
        finally:
            with open(order["count"], "w") as file:
                file.write(str(seen["disk"]))
            if order["is_quick"]:  # without a second for freeing the memory
                sys.stdout.flush()
                os._exit(sys.exc_info()[1].code)
    killed = False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if order["seconds"] is not None and time.monotonic() - started > order["seconds"]:
            os.kill(child, signal.SIGKILL)  # a child that has ended is a zombie until waitpid
            order["seconds"] = None
        time.sleep(0.001)
    print(json.dumps([os.waitstatus_to_exitcode(status), time.monotonic() - started]), flush=True)
"""


class Ended(NamedTuple):
    """The end of a command: exit code, output, messages, moments on the disk and duration."""

    code: int
    output: str
    errors: str
    moments: int
    seconds: float


class CommandServer:
    """A process that has all modules loaded and forks one for each command."""

    def __init__(self, folder: Path, modules: tuple[str, ...] = (), is_quick: bool = False):
        """Start the process; with `is_quick` figures are coarse, and no exit functions are run."""
        self.folder, self.is_quick = folder, is_quick
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, json.dumps([modules, is_quick])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
        )

    def __call__(
        self,
        arguments: list[Any],
        folder: Path,
        *,
        signals: tuple[int, ...] = (),
        moment: tuple[str, str, int] | int | None = None,
        seconds: float | None = None,
    ) -> Ended:
        """Run a command in a folder and return its end.

        Args:
            arguments: of the command.
            folder: where it runs.
            signals: that it gets at the moment.
            moment: audit event, a part of its first argument and how often; "atexit"; or the number
                of a moment on the disk.
            seconds: after which it is killed.
        """
        assert self.process.stdin and self.process.stdout
        errors, output, count = (self.folder / name for name in ("errors", "output", "count"))
        count.unlink(missing_ok=True)
        order = {
            "arguments": [str(argument) for argument in arguments],
            "folder": str(folder),
            "errors": str(errors),
            "output": str(output),
            "count": str(count),
            "signals": [int(number) for number in signals],
            "moment": moment,
            "seconds": seconds,
            "is_quick": self.is_quick,
        }
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        code, took = json.loads(self.process.stdout.readline())
        moments = int(count.read_text()) if count.exists() else 0
        return Ended(code, output.read_text("utf-8"), errors.read_text("utf-8"), moments, took)

    def close(self) -> None:
        """End the process."""
        self.process.communicate()
