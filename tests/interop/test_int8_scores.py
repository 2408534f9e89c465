"""What int8 costs, on a translator that somebody has trained: name its run in SACCADE_RUN."""

import os
from pathlib import Path

import pytest

from saccade.runs.run import load_run
from saccade.tasks.translation import score_translations


@pytest.mark.long
@pytest.mark.parametrize("quantization", ["float32", "int8"])
@pytest.mark.parametrize("beam", [1, 5])
def test_bleu_is_within_half_a_point(quantization: str, beam: int, tmp_path: Path) -> None:
    named = os.environ.get("SACCADE_RUN")
    if not named:
        pytest.skip("a trained Transformer run is needed: name its folder in SACCADE_RUN")
    run = load_run(named)
    split = run._split_for(None, "test")
    copy = tmp_path / "run"
    run.save(copy)
    other = load_run(copy)
    other.export("ctranslate2", quantization=quantization)
    pairs = run.task.pairs[split]
    sources, references = list(pairs.sources()), list(pairs.targets())
    scores = {}
    for engine in (None, "ctranslate2"):
        answers = [a.text for a in other.predict(sources, engine=engine, beam=beam)]
        figures, _ = score_translations(answers, references)
        scores[engine or "ours"] = figures["bleu"]
    print(quantization, "beam", beam, scores)
    assert abs(scores["ctranslate2"] - scores["ours"]) <= 0.5
