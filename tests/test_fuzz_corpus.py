"""Every case of the fuzzing corpus, run through its target: the contract holds."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from fuzz.targets import TARGETS

CORPUS = Path(__file__).parent.parent / "fuzz" / "corpus"
CASES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a case take as long as it takes: a slow machine must not change the outcome."""
    for module in ("targets", "commands", "record_files"):
        monkeypatch.setattr(f"fuzz.{module}.interrupted", nullcontext)


@pytest.mark.parametrize("path", CASES, ids=[f"{path.parent.name}/{path.name}" for path in CASES])
def test_case_of_the_corpus(path: Path) -> None:
    TARGETS[path.parent.name].run(path.read_bytes())


def test_every_target_has_cases() -> None:
    assert {path.parent.name for path in CASES} == set(TARGETS)
