"""Every example runs with the command that its docstring gives."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def documented_command(example: Path) -> list[str]:
    """Return the line `python examples/NAME …` of an example's docstring, split at spaces."""
    lines = example.read_text(encoding="utf-8").splitlines()
    return next(line.split() for line in lines if line.startswith("python examples/"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints(example: Path, tmp_path: Path) -> None:
    _, _, *arguments = documented_command(example)
    completed = subprocess.run(
        [sys.executable, "-W", "error", str(example), *arguments],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.strip()
