"""Messages of a benchmark process: lines of JSON on its standard input and output.

This module imports neither torch nor Saccade, so as not to disturb what is measured.
"""

import json
import os
import sys
from typing import Any

THREADS = 2  # of every process that is measured


class Pipe:
    """The channel to the controlling process; all other output goes to the log."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # output of libraries must not be read as a message

    def send(self, **facts: Any) -> None:
        """Send one message."""
        self._out.write(json.dumps(facts) + "\n")

    def receive(self) -> dict[str, Any]:
        """Wait for the next message and return it; end the process if the pipe is closed."""
        line = sys.stdin.readline()
        if not line:
            os._exit(0)  # some trainers save a checkpoint on a normal exit
        return json.loads(line)
