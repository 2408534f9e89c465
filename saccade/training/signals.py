"""Signals that end the process: a graceful stop of a training, and the exit code."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from saccade.errors import Stopped

# Ctrl-C, kill, a closed terminal (which Windows does not have)
STOP_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class StopFlag:
    """Call it to ask whether a signal has arrived; `number` is that of the signal."""

    number: int | None = None

    def __call__(self) -> bool:
        """Return True if a signal has arrived."""
        return self.number is not None


@contextmanager
def stop_on_signal() -> Iterator[StopFlag]:
    """Yield a flag that is set by Ctrl-C, SIGTERM or SIGHUP; a second signal interrupts.

    Outside the main thread no handler is installed and the flag is never set.
    """
    flag = StopFlag()

    def request_stop(number: int, frame: FrameType | None) -> None:
        if flag():
            raise Stopped(signal_number=number)
        flag.number = number
        with suppress(OSError):  # the terminal may be closed
            print("\nStopping … (Ctrl-C again to stop immediately)", file=sys.stderr)

    with _handlers(request_stop):
        yield flag


@contextmanager
def raise_on_signal() -> Iterator[StopFlag]:
    """Raise `Stopped` when Ctrl-C, SIGTERM or SIGHUP arrives; the flag is set as well."""
    flag = StopFlag()

    def interrupt(number: int, frame: FrameType | None) -> None:
        flag.number = number
        raise Stopped(signal_number=number)

    with _handlers(interrupt):
        yield flag


@contextmanager
def _handlers(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the stop signals; one that is ignored, as by `nohup`, stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, handler)
        for number in STOP_SIGNALS
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
