from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.runs import run as runs
from saccade.training import estimator


class Killed(BaseException):
    """Stands for SIGKILL: no code catches it."""


@pytest.fixture
def killed_once_saved(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Return a function that runs a fit until its first checkpoint; it returns the next block."""
    monkeypatch.setattr(estimator, "SAVE_INTERVAL", 0.02)

    def run_until_killed(fit: Callable[[], object]) -> int:
        write = runs.write_arrays
        next_blocks: list[int] = []

        def save_and_die(path: Path, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
            write(path, arrays, metadata)
            if "fitting" in path.name:
                next_blocks.append(int(arrays["next"][0]))
                raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(runs, "write_arrays", save_and_die)
            fit()
        return next_blocks[0]

    return run_until_killed
