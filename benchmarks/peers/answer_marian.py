"""Hugging Face's `generate` over the same weights."""

import torch
from peers.answer import LONGEST, Ids, answer_for_ever
from peers.answer_saccade import padded
from peers.marian import hugging_face, never_write_marks, seen
from peers.pipe import THREADS, Pipe

from saccade.data.vocabulary import EOS
from saccade.runs.run import load_run
from saccade.training.device import tune_malloc


def compete(pipe: Pipe, run: str) -> None:
    """Answer for ever."""
    torch.set_num_threads(THREADS)
    tune_malloc()
    ours = load_run(run)
    model = hugging_face(ours.task.model, ours.recipe.model).eval()
    never_write_marks(model)

    def translate(sources: Ids, beam: int) -> Ids:
        ids, _ = padded(sources)
        with torch.inference_mode():
            found = model.generate(
                input_ids=ids,
                attention_mask=seen(ids),
                num_beams=beam,
                do_sample=False,
                use_cache=True,
                length_penalty=0.0,
                max_new_tokens=LONGEST,
            )
        return [row[: row.index(EOS)] if EOS in row else row for row in found[:, 1:].tolist()]

    parameters = sum(parameter.numel() for parameter in model.parameters())
    facts = {"parameters": parameters, "about": type(model).__name__}
    answer_for_ever(pipe, translate, facts)
