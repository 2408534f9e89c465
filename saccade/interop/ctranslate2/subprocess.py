"""Client of the CTranslate2 engine in a separate process, for programs that import torch."""

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saccade.errors import ConfigError, DataError, MissingPackageError, RunError, SaccadeError
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import Prediction

ERROR_CLASSES = {
    error.__name__: error for error in (ConfigError, DataError, MissingPackageError, RunError)
}


class SubprocessEngine:
    """Run `saccade.interop.ctranslate2.engine` in a process; exchange lines of JSON over pipes.

    The process is started by the first request, and again if it died. It ends with this object,
    at the latest with this program, which closes its input.
    """

    def __init__(self, run: Path):
        self.run = run
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Progress = ignore_progress,
        **options: Any,
    ) -> list[Prediction]:
        """Return a prediction for each text; see `CTranslate2Engine.predict`."""
        request = {"method": "predict", "texts": list(texts), "first": first, "options": options}
        return [_to_prediction(fields) for fields in self._call(request, on_progress)]

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """Return log-probabilities of targets; see `CTranslate2Engine.score`."""
        request = {"method": "score", "sources": sources, "targets": targets}
        return self._call(request, ignore_progress)

    def export_info(self) -> dict[str, Any]:
        """Return the metadata of the export, e.g. its `quantization`."""
        return self._call({"method": "export_info"}, ignore_progress)

    def close(self) -> None:
        """End the process; the next request starts a new one."""
        if self._process is not None:
            _kill(self._process)
            self._process = None

    def _call(self, request: dict[str, Any], on_progress: Progress) -> Any:
        with self._lock:
            try:
                if self._process is None or self._process.poll() is not None:
                    self._start()
                return self._exchange(request, on_progress)
            except SaccadeError:
                raise
            except BaseException:  # a partial reply may be left in the pipe
                self.close()
                raise

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "saccade.interop.ctranslate2.engine", str(self.run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            # the same import path as this program
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C must not reach it
        )
        weakref.finalize(self, _kill, self._process)
        try:
            self._read_reply(ignore_progress)
        except SaccadeError:
            self.close()
            raise

    def _exchange(self, request: dict[str, Any], on_progress: Progress) -> Any:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read_reply(on_progress)

    def _read_reply(self, on_progress: Progress) -> Any:
        """Read lines until the result; forward progress, raise errors."""
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            reply = json.loads(line)
            if "progress" in reply:
                on_progress(*reply["progress"])
            elif "error" in reply:
                kind, message = reply["error"]
                raise ERROR_CLASSES.get(kind, SaccadeError)(message)
            else:
                return reply.get("result")
        code = self._process.wait()
        raise RuntimeError(
            f"the engine's process ended before it replied (exit code {code}); its messages are "
            "above."
        )


def _to_prediction(fields: list[Any]) -> Prediction:
    prediction = Prediction(*fields)
    alternatives: Sequence[Any] = prediction.alternatives  # lists, as JSON has no named tuples
    return prediction._replace(alternatives=tuple(map(_to_prediction, alternatives)))


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()
