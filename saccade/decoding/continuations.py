r"""Probability of given continuations of a prompt, for the choice among candidates."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.decoding.protocol import AutoregressiveModel, check_model
from saccade.types.shapes import DecoderState, TokenIds, select_rows


@torch.no_grad()
def score_continuations(
    model: AutoregressiveModel, prompt: TokenIds, continuations: Sequence[Sequence[int]]
) -> Float[Tensor, " C"]:
    r"""Return \(\log p(c \mid x) = \sum_t \log p(c_t \mid x, c_{<t})\) of each continuation c.

    The prompt is read once; its state is copied for each continuation. After a continuation's last
    token its row is ignored, so that the others do not change it.

    Args:
        model: has `init_state(memory)` and `step(ids, state)`.
        prompt: the ids before the continuations, one row (1, T).
        continuations: one token or more each.
    """
    check_model(model)
    if not continuations or not all(continuations):
        raise ValueError("got no continuation, or an empty one; expected one token or more each.")
    device = prompt.device
    logits, state = model.step(prompt, model.init_state(prompt))
    rows = torch.zeros(len(continuations), dtype=torch.long, device=device)
    table = logits[:, -1].double().log_softmax(-1)[rows]
    state = DecoderState(*select_rows(tuple(state), rows))
    lengths = torch.tensor([len(ids) for ids in continuations], device=device)
    longest = int(lengths.max())
    ids = torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in continuations])
    ids = ids.to(device)
    total = table.gather(1, ids[:, :1])[:, 0]
    for t in range(1, longest):
        logits, state = model.step(ids[:, t - 1 : t], state)
        gain = logits[:, -1].double().log_softmax(-1).gather(1, ids[:, t : t + 1])[:, 0]
        total = total + torch.where(t < lengths, gain, 0.0)
    return total
