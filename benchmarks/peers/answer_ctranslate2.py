"""CTranslate2 in float32 over the same weights, in a process that never loads torch."""

import json
import sys
from pathlib import Path

import ctranslate2
from peers.answer import LONGEST, Ids, answer_for_ever
from peers.pipe import THREADS, Pipe


def compete(pipe: Pipe, exported: str) -> None:
    """Answer for ever; the export adds the end mark to a source by itself."""
    tokens = json.loads((Path(exported) / "shared_vocabulary.json").read_text())
    numbers = {token: number for number, token in enumerate(tokens)}
    engine = ctranslate2.Translator(
        exported, device="cpu", compute_type="float32", inter_threads=1, intra_threads=THREADS
    )

    def translate(sources: Ids, beam: int) -> Ids:
        found = engine.translate_batch(
            [[tokens[number] for number in ids] for ids in sources],
            beam_size=beam,
            length_penalty=0.0,
            max_batch_size=0,
            max_input_length=0,
            max_decoding_length=LONGEST,
        )
        return [[numbers[token] for token in result.hypotheses[0]] for result in found]

    if "torch" in sys.modules:
        raise SystemExit("torch was loaded beside CTranslate2, which slows it down: not measured.")
    answer_for_ever(pipe, translate, {"about": f"float32, {ctranslate2.__version__}"})
