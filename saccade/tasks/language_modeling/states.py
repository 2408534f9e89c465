r"""Heat maps of language models: gates and states, and the influence of each context token.

The influence of the token at position i on the token at t is measured by leaving it out:

    s_ti = log p(x_t | x_<t) - log p(x_t | x_<t without x_i)

It is positive where token i makes token t more probable.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from saccade.inspection.figures import HeatMap
from saccade.inspection.recurrent_states import LayerStates
from saccade.tasks.base import HeatMapKey
from saccade.types.arrays import FloatArray

MAX_OCCLUDED_TOKENS = 96  # last tokens of the context that are left out one by one
SIGNED_STATES = ("candidate", "hidden", "cell")
LogProbabilities = Callable[
    [Tensor], Tensor
]  # ids (B, T) → (B, T - 1), of each token but the first


def causal_influence(
    log_probabilities: LogProbabilities, ids: Sequence[int], first: int
) -> FloatArray:
    """Return the influence (tokens from `first` on, context) of each context token on each.

    NaN: a token that comes later, or one before the last `MAX_OCCLUDED_TOKENS`.
    """
    full = log_probabilities(torch.tensor([ids]))[0].double().cpu().numpy()
    found = np.full((len(ids) - first, len(ids) - 1), np.nan)
    left_out = range(max(1, len(ids) - 1 - MAX_OCCLUDED_TOKENS), len(ids) - 1)
    if not left_out:
        return found
    rows = torch.tensor([[*ids[:at], *ids[at + 1 :]] for at in left_out])
    without = log_probabilities(rows).double().cpu().numpy()
    for at, values in zip(left_out, without, strict=True):
        start = max(first, at + 1)
        # in the shorter text token t is at t - 1, and has no log-probability as the first one
        found[start - first :, at] = full[start - 1 :] - values[start - 2 :]
    return found


def influence_map(scores: FloatArray, rows: Sequence[str], columns: Sequence[str]) -> HeatMap:
    """Return the influence of context tokens as a heat map."""
    title = "influence: fall of log p(token) without a context token"
    return HeatMap(
        scores, rows, columns, title, "context token that is left out", "predicted token"
    )


def state_maps(
    stacks: Mapping[str, list[LayerStates]], tokens: Mapping[str, Sequence[str]]
) -> dict[HeatMapKey, HeatMap]:
    """Return the mean of every gate over the tokens, and each gate and state unit by unit.

    `tokens` are those that each stack reads, in its order.
    """
    kinds: dict[HeatMapKey, HeatMap] = {}
    means: list[tuple[str, FloatArray]] = []
    for stack, layers in stacks.items():
        way = "" if len(stacks) == 1 else stack.partition("_")[0]
        for number, states in enumerate(layers, start=1):
            for name, tensor in states.items():
                values = tensor.double().cpu().numpy().T
                label = f"{way} {_state_name(name)}, layer {number}".strip()
                kind = f"{way}_{name}" if way else name
                limits = _limits(name, values)
                kinds[kind, number] = HeatMap(
                    values, [], tokens[stack], label, "token that is read", "unit", limits
                )
                mean = np.abs(values) if name in SIGNED_STATES else values
                sign = "|" if name in SIGNED_STATES else ""
                arrow = {"forward": "→", "backward": "←"}.get(way, "")
                means.append((f"{arrow}{sign}{name}{sign}:{number}", mean.mean(axis=0)))
    by_stack = next(iter(tokens.values()))
    if len(stacks) > 1:  # both directions in the order of the text
        means = [
            (label, values[::-1] if label.startswith("←") else values) for label, values in means
        ]
    table = np.stack([values for _, values in means])
    summary = HeatMap(
        table,
        [label for label, _ in means],
        by_stack,
        "mean over the units of each gate and |state|:layer",
        "token that is read",
    )
    return {("mean", 1): summary, **kinds}


def _state_name(name: str) -> str:
    if name == "candidate":
        return "candidate state"
    return f"{name} state" if name in SIGNED_STATES else f"{name} gate"


def _limits(name: str, values: FloatArray) -> tuple[float, float] | None:
    if name not in SIGNED_STATES:
        return (0.0, 1.0)
    largest = float(np.abs(values).max()) or 1.0
    return (-largest, largest) if name == "cell" or largest > 1 else (-1.0, 1.0)
