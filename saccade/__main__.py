"""Entry point: `saccade`, and `python -m saccade`."""

import signal


def start() -> None:
    """Load the commands and run the one that is asked for."""
    # until they are loaded, Ctrl-C ends the process as SIGTERM does, without a traceback
    loading = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if loading:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from saccade.cli.main import main

    if loading:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


if __name__ == "__main__":
    start()
