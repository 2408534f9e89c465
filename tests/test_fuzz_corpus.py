"""Every case of the fuzzing corpus, run through its target: the contract holds."""

import traceback
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
    assert finding(path.parent.name, path.read_bytes()) is None


def finding(target: str, content: bytes) -> str | None:
    """Return the error that broke the contract of a target; None: it holds."""
    try:
        TARGETS[target].run(content)
    except BaseException:
        return traceback.format_exc()
    return None


def test_error_that_is_no_refusal_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    case = (CORPUS / "records" / "quote-never-closed").read_bytes()

    def fail(*arguments: object, **options: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("fuzz.record_files.open_records", fail)
    assert "IndexError" in (finding("records", case) or "")


def test_every_target_has_cases() -> None:
    assert {path.parent.name for path in CASES} == set(TARGETS)
