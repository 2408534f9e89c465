"""Entry point: `saccade`, and `python -m saccade`.

Signals are handled from the first line of `start` to the end of the process: while the commands are
loaded, nothing has been written and a signal ends the process; after the command, it ends with the
code of the command. In between, `saccade.cli.main` handles them.
"""

import os
import signal
import sys

EARLY_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def start() -> None:
    """Load the commands, run the one that is asked for, and exit with its code."""
    code: int | None = None

    def exit_now(number: int, frame: object) -> None:
        if code is None:
            try:
                os.write(2, b"Stopped.\n")
            except OSError:  # a closed terminal
                pass
        os._exit(128 + number if code is None else code)

    for name in EARLY_SIGNALS:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as by nohup
            signal.signal(number, exit_now)
    from saccade.cli.main import run_process

    code = run_process(sys.argv[1:])
    sys.exit(code)


if __name__ == "__main__":
    start()
