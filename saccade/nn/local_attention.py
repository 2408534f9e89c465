r"""Local attention: a query attends to the positions around a centre (Luong et al. 2015).

    α_ts = softmax over |s - p_t| ≤ D of score(h_t, h_s)                        section 3.2
    monotonic:    p_t = t
    predictive:   p_t = S · σ(vᵀ tanh(W h_t)),  and α_ts · exp(-(s - p_t)² / 2σ²) with σ = D/2

Positions s and t are numbered from 0, and S is the length of the row. The Gaussian multiplies
weights that already sum to 1, and as in the paper they are not normalised again, so a query gets
less the farther its centre is from the keys with high scores. Only the Gaussian passes a gradient
to W and v: the movement of the window with p_t has none.

A query is compared with at most 2D + 1 keys. In a long source these are gathered, so that the
products grow with T · D and not with T · S (`gathered_local_attention`). In a short one the window
is a mask on the whole table of scores (`local_weights`, the reference). Fewer products are not
always less time: on a CPU, rows that are copied may take longer than a product of whole matrices.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.nn.attention_scores import Score
from saccade.nn.functional import Attention, allowed_keys, attention_weights, repeat_kv
from saccade.nn.masks import Mask
from saccade.types.shapes import Hidden, MaySee

MIN_LOCAL_GAIN = 4  # ratio of keys to gathered keys, below which all scores are computed


def predict_centre(
    hidden: Hidden,
    lengths: Int[Tensor, " B"],
    inner: Float[Tensor, "F D"],
    outer: Float[Tensor, " F"],
) -> Float[Tensor, "B T"]:
    r"""p_t = S · σ(vᵀ tanh(W h_t)), between 0 and the length of the row."""
    share = ((hidden @ inner.T).tanh() @ outer).sigmoid()
    return lengths[:, None].to(inner.dtype) * share  # half precision would round positions


def window_mask(
    centre: Float[Tensor, "B H T"], key_length: int, window: int
) -> Bool[Tensor, "B H T {key_length}"]:
    """Return |s - p_t| ≤ D."""
    return _offsets(centre, key_length).abs() <= window


def gaussian_window(
    centre: Float[Tensor, "B H T"], key_length: int, window: int
) -> Float[Tensor, "B H T {key_length}"]:
    r"""exp(-(s - p_t)² / 2σ²) with σ = D/2: e⁻² = 0.14 at the window's edge."""
    return _gaussian(_offsets(centre, key_length), window)


def _gaussian(offsets: Tensor, window: int) -> Tensor:
    return (-0.5 * (offsets / (window / 2)).square()).exp()


def _offsets(centre: Tensor, key_length: int) -> Tensor:
    return torch.arange(key_length, device=centre.device) - centre[..., None]


def local_weights(
    scores: Float[Tensor, "B H T S"],
    centre: Float[Tensor, "B H T"],
    window: int,
    gaussian: bool = False,
    may_see: MaySee | None = None,
) -> Float[Tensor, "B H T S"]:
    """Return the softmax within the window and the mask, times the Gaussian if `gaussian`.

    A query whose window lies outside the row gets zeros.
    """
    key_length = scores.shape[-1]
    allowed = window_mask(centre, key_length, window)
    if may_see is not None:
        allowed = allowed & may_see
    weights = attention_weights(scores, allowed)
    return weights * gaussian_window(centre, key_length, window) if gaussian else weights


def gathered_local_attention(
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B H S P"],
    values: Float[Tensor, "B H S K"],
    centre: Float[Tensor, "B H T"],
    score: Score,
    window: int,
    gaussian: bool = False,
    may_see: MaySee | None = None,
) -> Float[Tensor, "B H T K"]:
    """Return `local_weights` @ values from the keys and values of the windows alone.

    The integers within D of p_t are among the 2D + 2 from ⌊p_t⌋ - D on.
    """
    S = keys.shape[-2]
    first = centre.detach().floor().long() - window
    positions = first[..., None] + torch.arange(2 * window + 2, device=centre.device)
    offsets = positions - centre[..., None]
    inside = positions.clamp(0, S - 1)  # (B, H, T, W)
    allowed = (offsets.abs() <= window) & (positions == inside)
    if may_see is not None:
        allowed = allowed & may_see.expand(*query.shape[:-1], S).gather(-1, inside)
    near_keys, near_values = (_gather_rows(x, inside) for x in (keys, values))
    scores = score.compare(query.unsqueeze(-2), near_keys).squeeze(-2)  # one query each
    weights = attention_weights(scores, allowed)
    if gaussian:
        weights = weights * _gaussian(offsets, window)
    return (weights.unsqueeze(-2) @ near_values).squeeze(-2)


def _gather_rows(
    x: Float[Tensor, "B H S P"], positions: Int[Tensor, "B H T W"]
) -> Float[Tensor, "B H T W P"]:
    B, H, S, P = x.shape
    first = torch.arange(0, B * H * S, S, device=x.device).view(B, H, 1, 1)
    return x.reshape(-1, P).index_select(0, (positions + first).flatten()).view(*positions.shape, P)


class LocalAttention(Attention):
    """Attention within a window around the centre of each query.

    A query is [h_t; p_t], as `with_centre` returns it: the score compares h_t, and the window is
    centred on p_t. So the centre is available wherever the query is: with a memory that hypotheses
    share, and to `capture_attention`. The fused kernel is not used: the window differs between
    rows, and the kernel has no Gaussian.
    """

    def __init__(self, score: Score, window: int, gaussian: bool = False):
        super().__init__(score)
        if window < 1:
            raise ValueError(f"got a window of {window}; expected 1 or more.")
        self.window, self.gaussian = window, gaussian

    def forward(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B G S P"],
        values: Float[Tensor, "B G S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """Gather the windows where they are short compared with the keys, else use the equation."""
        if keys.shape[-2] <= MIN_LOCAL_GAIN * (2 * self.window + 2):
            return self.reference(query, keys, values, mask)
        keys, values = repeat_kv(keys, query), repeat_kv(values, query)
        return gathered_local_attention(
            query[..., :-1],
            keys,
            values,
            query[..., -1],
            self.score,
            self.window,
            self.gaussian,
            allowed_keys(query, keys, mask),
        )

    def weights(
        self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S P"], mask: Mask
    ) -> Float[Tensor, "B H T S"]:
        """Return the table of weights; with the Gaussian its rows sum to less than 1."""
        may_see = allowed_keys(query, keys, mask)
        scores = self.score.compare(query[..., :-1], repeat_kv(keys, query))
        return local_weights(scores, query[..., -1], self.window, self.gaussian, may_see)


def with_centre(
    query: Float[Tensor, "B H T Q"], centre: Float[Tensor, "B T"]
) -> Float[Tensor, "B H T E"]:
    """Return [h_t; p_t], with one centre for all heads."""
    column = centre[:, None, :, None].expand(-1, query.shape[1], -1, -1)
    return torch.cat([query, column], dim=-1)


class CentrePredictor(nn.Module):
    r"""S · σ(vᵀ tanh(W h)): the centre as a function of the state. No biases, as in the paper."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.inner = nn.Parameter(torch.empty(hidden, width))
        self.outer = nn.Parameter(torch.empty(hidden))
        nn.init.xavier_uniform_(self.inner)
        nn.init.uniform_(self.outer, -(hidden**-0.5), hidden**-0.5)

    def forward(self, hidden: Hidden, lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T"]:
        """Return the centre of each query."""
        return predict_centre(hidden, lengths, self.inner, self.outer)
