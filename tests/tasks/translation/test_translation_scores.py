"""The script that prints a table of translation scores, on runs of a few steps."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from saccade.runs.run import load_run

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "translation_scores.py"


@pytest.fixture(scope="module")
def scores() -> ModuleType:
    spec = importlib.util.spec_from_file_location("translation_scores", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_translation_scores_prints_a_markdown_table(
    scores: ModuleType,
    trained_runs: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["seq2seq", "transformer"]
    assert scores.main([str(trained_runs[name]) for name in names]) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:4]]
    assert all(len(row) == len(rows[0]) for row in rows)
    for name, row in zip(names, rows[2:], strict=True):
        run = load_run(trained_runs[name])
        cells = dict(zip(rows[0], row, strict=True))
        assert cells["model"] == f"`{name}`"
        assert cells["parameters"] == f"{run.parameters:,}"
        assert cells["seed"] == str(run.recipe.train.seed)
        assert cells["steps"] == str(run.recipe.train.steps)
        last = run.metrics()[-1]
        assert float(cells["minutes"]) == pytest.approx(last["seconds"] / 60, abs=0.06)
        rates = [line["rate"] for line in run.metrics() if "rate" in line]
        assert min(rates) - 1 <= float(cells["tokens/s"].replace(",", "")) <= max(rates) + 1
        greedy, beam = run.evaluate(), run.evaluate(beam=5)
        for title, metric in (("chrF", "chrf"), ("chrF lower", "chrf_lower")):
            assert cells[title] == f"{greedy[metric]:.2f} / {beam[metric]:.2f}"
        assert cells["BLEU"] == "–"  # the references are single words
        assert cells["published"] == ""
    below = "\n".join(lines[4:])
    assert re.search(r"^chrF: `.*case:mixed.*nc:6", below, re.M)
    assert re.search(r"^chrF lower: `.*case:lc.*nc:6", below, re.M)
    assert below.count("chrF: ") == 1  # once for both runs
    assert "2 of 2: " in output.err


def test_translation_scores_has_published_figures_of_the_same_model(
    scores: ModuleType, trained_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_run(trained_runs["transformer"])
    monkeypatch.setattr(run, "evaluate", lambda **options: {})
    data = run.recipe.data.with_values(path=None, dataset="multi30k", direction="de-en")
    run.recipe = run.recipe.with_values(data=data.model_dump(exclude_unset=True))
    row = scores.row_of(run)
    assert (row.data, row.published) == ("multi30k de-en", "36.5")


def test_translation_scores_refuses_folders_that_are_no_runs(
    scores: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert scores.main([str(tmp_path)]) == 2
    assert "is not a run: there is no run.toml in it" in capsys.readouterr().err
    assert scores.main([]) == 2
    assert "RUN [RUN ...]" in capsys.readouterr().err
