"""The contract that every target checks.

An input may be refused with a `SaccadeError` that has a message, or with an `OSError` of the
operating system, which the command line prints as a sentence. Everything else that comes out is a
finding: other exceptions, MemoryError and RecursionError among them, a process that ends, and an
input that takes too long (the runner limits time and memory).
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from saccade.errors import SaccadeError

MAX_MESSAGE = 30_000  # characters: a message does not repeat a hostile value as a whole
CPU_SECONDS = 3.0  # of an input, before it is interrupted as with Ctrl-C
OBEY_SECONDS = 2.0  # of processor time after an interrupt


class Violation(Exception):
    """An input broke the contract without an exception of its own."""


def check_message(error: BaseException) -> None:
    """Raise a `Violation` if the message of an error is empty or endless."""
    text = str(error)
    if not text.strip():
        raise Violation(f"{type(error).__name__} without a message") from error
    if len(text) > MAX_MESSAGE:
        raise Violation(f"a message of {len(text):,} characters: {text[:200]}") from error
    if "Traceback" in text or "object at 0x" in text:
        raise Violation(f"a message with internals: {text[:200]}") from error


@contextmanager
def refusals() -> Iterator[None]:
    """Let the errors pass that the contract allows."""
    try:
        yield
    except SaccadeError as error:
        check_message(error)
    except OSError as error:
        if error.errno is None:
            raise


@contextmanager
def interrupted(seconds: float = CPU_SECONDS) -> Iterator[None]:
    """Send Ctrl-C to a block after some processor time; it must end soon after.

    Long work is allowed (a valid setting may ask for a million steps), work that ignores Ctrl-C is
    not.
    """
    sent: list[float] = []

    def send(number: int, frame: FrameType | None) -> None:
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGPROF, send)
    stop = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    except KeyboardInterrupt:
        if not sent:
            raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        signal.signal(signal.SIGINT, stop)
    if sent and time.process_time() - sent[0] > OBEY_SECONDS:
        raise Violation(
            f"Ctrl-C took {time.process_time() - sent[0]:.1f} s of processor time to be obeyed"
        )
