"""The table of metrics: those that summarise, and why others are left out."""

from rich.console import Console

from saccade.cli.console import scores_table
from saccade.types.results import Evaluation

REASON = "no reference has two words between spaces"
FOUND = Evaluation(
    {"exact": 0.5, "chrf": 70.0, "examples": 4.0},
    {"exact": "share"},
    floors={"copied source": {"exact": 0.25}},
    omitted={"bleu": "no reference has 4 tokens", "rouge1": REASON, "rouge2": REASON},
)


def printed(headline: tuple[str, ...] | None) -> str:
    console = Console(width=100, highlight=False)
    with console.capture() as captured:
        console.print(scores_table(FOUND, headline))
    return captured.get()


def test_each_reason_to_leave_metrics_out_is_printed_once() -> None:
    text = printed(None)
    assert text.count(f"left out: {REASON}") == 1 and "left out: no reference has 4" in text
    rows = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert rows == ["metric", "exact", "chrf", "examples", "bleu", "rouge1", "rouge2"]


def test_headline_limits_the_metrics_and_the_reasons() -> None:
    text = printed(("exact", "bleu"))
    rows = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert rows == ["metric", "exact", "examples", "bleu"]
