r"""Local attention: a query looks only at the places around its centre (Luong et al. 2015).

    α_ts = softmax over |s - p_t| ≤ D of score(h_t, h_s)                        section 3.2
    monotonic:    p_t = t
    predictive:   p_t = S · σ(vᵀ tanh(W h_t)),  and α_ts · exp(-(s - p_t)² / 2σ²) with σ = D/2

Places are counted from 0, for s and for t, and S is each row's own length. The Gaussian is applied
to weights that already sum to 1, and the paper does not make them sum to 1 again, so with
it a query gets less the farther its centre lies from what it looks for. Only the Gaussian tells
W and v where to look: that the window moves with p_t has no slope.

The window is cut out of the whole table of scores, not gathered: the sentences of a recurrent
model are short, and one masked softmax is the quickest there.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.nn.attention import Attention, attention_weights
from saccade.nn.attention_scores import Score
from saccade.nn.masks import Mask
from saccade.types.shapes import Hidden, MaySee


def predict_centre(
    hidden: Hidden,
    lengths: Int[Tensor, " B"],
    inner: Float[Tensor, "F D"],
    outer: Float[Tensor, " F"],
) -> Float[Tensor, "B T"]:
    r"""p_t = S · σ(vᵀ tanh(W h_t)), somewhere between 0 and the length of the row."""
    share = ((hidden @ inner.T).tanh() @ outer).sigmoid()
    return lengths[:, None].to(inner.dtype) * share  # a place in a short format would be rounded


def window_mask(
    centre: Float[Tensor, "B H T"], key_length: int, window: int
) -> Bool[Tensor, "B H T {key_length}"]:
    """|s - p_t| ≤ D."""
    return _offsets(centre, key_length).abs() <= window


def gaussian_window(
    centre: Float[Tensor, "B H T"], key_length: int, window: int
) -> Float[Tensor, "B H T {key_length}"]:
    r"""exp(-(s - p_t)² / 2σ²) with σ = D/2: e⁻² = 0.14 at the window's edge."""
    return (-0.5 * (_offsets(centre, key_length) / (window / 2)).square()).exp()


def _offsets(centre: Tensor, key_length: int) -> Tensor:
    return torch.arange(key_length, device=centre.device) - centre[..., None]


def local_weights(
    scores: Float[Tensor, "B H T S"],
    centre: Float[Tensor, "B H T"],
    window: int,
    gaussian: bool = False,
    may_see: MaySee | None = None,
) -> Float[Tensor, "B H T S"]:
    """softmax over what is near and may be seen, and where `gaussian` less of what is less near.

    A query whose window lies beyond the row gets all zeros.
    """
    key_length = scores.shape[-1]
    seen = window_mask(centre, key_length, window)
    if may_see is not None:
        seen = seen & may_see
    shares = attention_weights(scores, seen)
    return shares * gaussian_window(centre, key_length, window) if gaussian else shares


class LocalAttention(Attention):
    """Attention within a window around a centre that each query brings with it.

    A query is [h_t; p_t], as `with_centre` makes it: the score compares h_t, the window is put
    around p_t. So the centre goes wherever the query goes, to a memory that hypotheses share and
    to whoever watches. With any score it takes the clear path: the window is a row's own, and the
    Gaussian is nothing the fused kernel can do.
    """

    def __init__(self, score: Score, window: int, gaussian: bool = False):
        super().__init__(score)
        if window < 1:
            raise ValueError(f"a window of {window} was asked for; it must be at least 1.")
        self.window, self.gaussian = window, gaussian

    def forward(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B H S P"],
        values: Float[Tensor, "B H S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """The table of weights, times the values."""
        return self.reference(query, keys, values, mask)

    def weights(
        self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S P"], mask: Mask
    ) -> Float[Tensor, "B H T S"]:
        """The table of weights; with the Gaussian its rows sum to less than 1."""
        may_see = mask.may_see(query.shape[-2], keys.shape[-2], query.device)
        scores = self.score.compare(query[..., :-1], keys)
        return local_weights(scores, query[..., -1], self.window, self.gaussian, may_see)


def with_centre(
    query: Float[Tensor, "B H T Q"], centre: Float[Tensor, "B T"]
) -> Float[Tensor, "B H T E"]:
    """[h_t; p_t], with one centre for all heads."""
    column = centre[:, None, :, None].expand(-1, query.shape[1], -1, -1)
    return torch.cat([query, column], dim=-1)


class CentrePredictor(nn.Module):
    r"""S · σ(vᵀ tanh(W h)): where to look, from the state alone. No biases, as in the paper."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.inner = nn.Parameter(torch.empty(hidden, width))
        self.outer = nn.Parameter(torch.empty(hidden))
        nn.init.xavier_uniform_(self.inner)
        nn.init.uniform_(self.outer, -(hidden**-0.5), hidden**-0.5)

    def forward(self, hidden: Hidden, lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T"]:
        """The centre of each query; `sizes` are the rows' lengths."""
        return predict_centre(hidden, lengths, self.inner, self.outer)
