"""Hugging Face's `generate` with the same weights."""

import torch
from peers.answer import MAX_NEW_TOKENS, Ids, answer_until_closed
from peers.answer_saccade import padded
from peers.marian import attention_mask, hugging_face, suppress_special_tokens
from peers.pipe import THREADS, Pipe

from saccade.data.special_tokens import EOS
from saccade.runs.run import load_run
from saccade.training.device import tune_malloc


def compete(pipe: Pipe, run: str) -> None:
    """Translate until the pipe is closed."""
    torch.set_num_threads(THREADS)
    tune_malloc()
    ours = load_run(run)
    model = hugging_face(ours.model, ours.recipe.model).eval()
    suppress_special_tokens(model)

    def translate(sources: Ids, beam: int) -> Ids:
        ids, _ = padded(sources)
        with torch.inference_mode():
            found = model.generate(
                input_ids=ids,
                attention_mask=attention_mask(ids),
                num_beams=beam,
                do_sample=False,
                use_cache=True,
                length_penalty=0.0,
                max_new_tokens=MAX_NEW_TOKENS,
            )
        return [row[: row.index(EOS)] if EOS in row else row for row in found[:, 1:].tolist()]

    parameters = sum(parameter.numel() for parameter in model.parameters())
    facts = {"parameters": parameters, "about": type(model).__name__}
    answer_until_closed(pipe, translate, facts)
