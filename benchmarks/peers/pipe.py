"""What a measured process says and hears: a line of JSON for each, by its own input and output.

It loads nothing that could disturb what is measured: no torch, no Saccade.
"""

import json
import os
import sys
from typing import Any

THREADS = 2  # of every process that is measured


class Pipe:
    """The way to the process that measures; all other output goes to the log."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # what a library prints must not be taken for an answer

    def say(self, **facts: Any) -> None:
        """One message."""
        self._out.write(json.dumps(facts) + "\n")

    def hear(self) -> dict[str, Any]:
        """The next message; sleeps until it comes, and ends the process if none will."""
        line = sys.stdin.readline()
        if not line:
            os._exit(0)  # some trainers save themselves when they are asked to end
        return json.loads(line)
