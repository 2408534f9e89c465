"""CTranslate2 in float32 with the same weights, in a process that does not load torch."""

import json
import sys
from pathlib import Path

import ctranslate2
from peers.answer import MAX_NEW_TOKENS, Ids, answer_until_closed
from peers.pipe import THREADS, Pipe


def compete(pipe: Pipe, exported: str) -> None:
    """Translate until the pipe is closed; the export adds end-of-sequence to a source."""
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
            max_decoding_length=MAX_NEW_TOKENS,
        )
        return [[numbers[token] for token in result.hypotheses[0]] for result in found]

    if "torch" in sys.modules:
        raise SystemExit(
            "torch is loaded in the process of CTranslate2, which slows it down: not measured."
        )
    answer_until_closed(pipe, translate, {"about": f"float32, {ctranslate2.__version__}"})
