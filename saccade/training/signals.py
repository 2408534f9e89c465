"""Signals that end the process: a graceful stop of a training, and the exit code.

Python calls a signal handler between two of its own instructions. A long call into compiled code
(fitting a tokenizer, reading a table, a matrix product) therefore delays it, and code that waits
for its threads delays the end. `limit_exit_time` starts a thread that receives the signal without
delay and ends a command that has not ended by itself after `EXIT_SECONDS`. Files are complete or
absent at any moment (`saccade.io.atomic`), so nothing is lost by it.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from saccade.errors import Stopped

# Ctrl-C, kill, a closed terminal (which Windows does not have)
STOP_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
EXIT_SECONDS = 0.5  # from a signal to the end of a command that does not end by itself


class EvaluationStopped(Stopped):
    """An evaluation, or a pass of a fit, was left because training is to stop.

    It is repeated when the training is resumed.
    """


class StopFlag:
    """Call it to ask whether a signal has arrived; `number` is that of the signal."""

    number: int | None = None

    def __init__(self) -> None:
        self._is_evaluating = False

    def __call__(self) -> bool:
        """Return True if a signal has arrived."""
        return self.number is not None

    def arrive(self, number: int) -> None:
        """Set the flag; in a block of `stoppable_evaluation` raise `EvaluationStopped`."""
        self.number = number
        if self._is_evaluating:
            self._is_evaluating = False  # what handles the error is not part of the evaluation
            raise EvaluationStopped(signal_number=number)

    @contextmanager
    def stoppable_evaluation(self) -> Iterator[None]:
        """Raise `EvaluationStopped` when a signal arrives, or now if one has arrived.

        An evaluation changes nothing that is saved, so it can be left at any point of it.
        """
        self._is_evaluating = True
        try:
            if self.number is not None:
                self.arrive(self.number)
            yield
        finally:
            self._is_evaluating = False


SHOW_CURSOR = b"\x1b[?25h"  # progress bars hide it


def exit_immediately(number: int, message: bytes = b"Stopped.\n") -> None:
    """End the process with the code of a signal, without cleaning up."""
    with suppress(OSError):  # a closed terminal
        os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + message)
    os._exit(128 + number)


class _CommandHandler:
    """Handler of the signals of a command: the first raises, the second ends the process."""

    def __init__(self) -> None:
        self.flag = StopFlag()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.flag():
            exit_immediately(number)
        self.flag.number = number
        raise Stopped(signal_number=number)


@contextmanager
def stop_on_signal() -> Iterator[StopFlag]:
    """Yield a flag that is set by Ctrl-C, SIGTERM or SIGHUP; a second signal interrupts.

    Within a command (`raise_on_signal`), the second signal ends the process. Outside the main
    thread no handler is installed and the flag is never set.
    """
    flag = StopFlag()
    is_command = any(isinstance(signal.getsignal(n), _CommandHandler) for n in STOP_SIGNALS)

    def request_stop(number: int, frame: FrameType | None) -> None:
        if flag():
            if is_command:
                exit_immediately(number)
            raise Stopped(signal_number=number)
        # the terminal may be closed, or this signal has interrupted another print
        with suppress(OSError, RuntimeError):
            print("\nStopping … (Ctrl-C again to stop immediately)", file=sys.stderr)
        flag.arrive(number)

    with _handlers(request_stop):
        yield flag


@contextmanager
def raise_on_signal() -> Iterator[StopFlag]:
    """Raise `Stopped` when Ctrl-C, SIGTERM or SIGHUP arrives; the flag is set as well.

    A second signal ends the process.
    """
    handler = _CommandHandler()
    with _handlers(handler):
        yield handler.flag


def limit_exit_time() -> None:
    """End this process `EXIT_SECONDS` after a signal to a command that does not end by itself.

    In a block of `stop_on_signal`, which saves its state first, this holds for the second signal.
    """
    if os.name == "nt":  # signals of a console reach Python in a thread of its own
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # the number of a signal is written by the signal itself, whatever the main thread is doing
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch_signals, args=(reader,), name="signals", daemon=True).start()


def _watch_signals(reader: int) -> None:
    arrived = 0
    while numbers := os.read(reader, 1):
        number = numbers[0]
        if number not in STOP_SIGNALS:
            continue
        arrived += 1
        handler = signal.getsignal(number)
        if arrived > 1 or isinstance(handler, _CommandHandler):
            time.sleep(EXIT_SECONDS)
            # a command that has ended has restored the handler, and printed a message
            has_ended = signal.getsignal(number) is not handler
            exit_immediately(number, b"" if has_ended else b"Stopped.\n")


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
