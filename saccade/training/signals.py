"""Graceful stop on Ctrl-C and SIGTERM."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after Ctrl-C or SIGTERM; a second signal interrupts.

    Outside the main thread no handler is installed and the function always returns False.
    """
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return

    def request_stop(number: int, frame: FrameType | None) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()
        print("\nStopping after this step … (Ctrl-C again to stop immediately)", file=sys.stderr)

    before = {name: signal.signal(name, request_stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested.is_set
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
