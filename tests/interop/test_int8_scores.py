"""Loss of BLEU by int8, on a trained translation run: name its run in SACCADE_RUN."""

import os
from pathlib import Path

import pytest

from saccade.runs.run import load_run
from saccade.tasks.translation.evaluate import score_translations


@pytest.mark.long
@pytest.mark.parametrize("quantization", ["float32", "int8"])
@pytest.mark.parametrize("beam", [1, 5])
def test_int8_bleu_is_within_half_a_point(quantization: str, beam: int, tmp_path: Path) -> None:
    named = os.environ.get("SACCADE_RUN")
    if not named:
        pytest.skip("a trained Transformer run is needed: name its folder in SACCADE_RUN")
    run = load_run(named)
    copy = tmp_path / "run"
    run.save(copy)
    other = load_run(copy)
    other.export("ctranslate2", quantization=quantization)
    pairs = run.split("test").pairs
    sources, references = list(pairs.sources()), list(pairs.targets())
    scores = {}
    for engine in ("fused", "ctranslate2"):
        answers = [a.text for a in other.predict(sources, engine=engine, beam=beam)]
        scores[engine] = score_translations(answers, references).metrics["bleu"]
    print(quantization, "beam", beam, scores)
    assert abs(scores["ctranslate2"] - scores["fused"]) <= 0.5
