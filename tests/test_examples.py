"""Every example runs as its first lines say."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def command_of(example: Path) -> list[str]:
    """The line `python examples/NAME …` of its docstring."""
    lines = example.read_text(encoding="utf-8").splitlines()
    return next(line.split() for line in lines if line.startswith("python examples/"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    _, _, *arguments = command_of(example)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example), *arguments],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
