from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.runs import run as runs
from saccade.tasks import task as tasks


class Killed(BaseException):
    """As the operating system does it: nobody catches it."""


@pytest.fixture
def killed_once_saved(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Fit something until it has saved how it stands; the block it would go on with."""
    monkeypatch.setattr(tasks, "SAVE_INTERVAL", 0.02)

    def killed(fit: Callable[[], object]) -> int:
        write = runs.write_arrays
        resume_state: list[int] = []

        def save_and_die(path: Path, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
            write(path, arrays, facts)
            if "fitting" in path.name:
                resume_state.append(int(arrays["next"][0]))
                raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(runs, "write_arrays", save_and_die)
            fit()
        return resume_state[0]

    return killed
