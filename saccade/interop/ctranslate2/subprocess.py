"""An engine in a process of its own, which never loads torch, for a program that has."""

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from saccade.errors import ConfigError, DataError, MissingPackageError, RunError, SaccadeError
from saccade.types.results import Prediction

ERROR_CLASSES = {
    kind.__name__: kind for kind in (ConfigError, DataError, MissingPackageError, RunError)
}


class SubprocessEngine:
    """`saccade.interop.ctranslate2.engine` at the other end of two pipes, a line of JSON at a time.

    The process is started when it is first asked, and again if it was lost; it ends with this
    object, and at the latest with this program, whose end closes its input.
    """

    def __init__(self, run: Path):
        self.run = run
        self._process: subprocess.Popen[str] | None = None
        self._one_at_a_time = threading.Lock()

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        **options: Any,
    ) -> list[Prediction]:
        """As `Engine.predict`."""
        request = {"do": "predict", "texts": list(texts), "first": first, "options": options}
        return [_answered(fields) for fields in self._ask(request, on_progress)]

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """As `Engine.score`."""
        request = {"do": "score", "sources": sources, "targets": targets}
        return self._ask(request, lambda more: None)

    def export_info(self) -> dict[str, Any]:
        """What was written about the export, `quantization` among it."""
        return self._ask({"do": "export_info"}, lambda more: None)

    def close(self) -> None:
        """End the process; the next question starts another."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _ask(self, request: dict[str, Any], on_progress: Callable[[int], None]) -> Any:
        with self._one_at_a_time:
            try:
                if self._process is None or self._process.poll() is not None:
                    self._start()
                return self._exchange(request, on_progress)
            except SaccadeError:
                raise
            except BaseException:  # half an answer may be left in the pipe
                self.close()
                raise

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "saccade.interop.ctranslate2.engine", str(self.run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            # it finds what this program finds
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for this program
        )
        weakref.finalize(self, _end, self._process)
        try:
            self._answer(lambda more: None)
        except SaccadeError:
            self.close()
            raise

    def _exchange(self, request: dict[str, Any], on_progress: Callable[[int], None]) -> Any:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer(on_progress)

    def _answer(self, on_progress: Callable[[int], None]) -> Any:
        """What comes back, when the last of it has."""
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "more" in said:
                on_progress(said["more"])
            elif "error" in said:
                kind, message = said["error"]
                raise ERROR_CLASSES.get(kind, SaccadeError)(message)
            else:
                return said.get("answer")
        code = self._process.wait()
        raise RuntimeError(
            f"the engine's process ended before it had answered (exit code {code}); what it said "
            "is above."
        )


def _answered(fields: list[Any]) -> Prediction:
    text, score, log_probability, finished, alternatives = fields
    return Prediction(text, score, log_probability, finished, tuple(map(_answered, alternatives)))


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()
