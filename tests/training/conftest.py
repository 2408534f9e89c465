import pytest


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train without drawing the figures of the report."""
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)
