r"""Positional encodings.

Two kinds. Those added to the embeddings, `positions(start, length) -> (T, D)`, where `start` is the
number of positions already in the cache. And `AttentionPositions`, which act inside every
self-attention, where a query is compared with a key, and so can depend on the distance of the two.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    r"""p_{t,2i} = sin(t / 10000^{2i/D}),  p_{t,2i+1} = cos(t / 10000^{2i/D}).

    Vaswani et al. 2017, section 3.5. Sines and cosines alternate, as in the paper (some libraries
    put all sines first). Computed on demand, so there is no maximum length.
    """

    def __init__(self, width: int):
        super().__init__()
        if width % 2:
            raise ValueError(f"got width {width}; expected an even width for sinusoidal positions.")
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        self.register_buffer("rates", rates, persistent=False)
        self.rates: Tensor

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """Return the encodings of the positions start … start + length - 1."""
        positions = torch.arange(start, start + length, device=self.rates.device)
        angles = positions[:, None] * self.rates  # (T, D/2)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """A learned vector for each of `max_length` positions (Gehring et al. 2017)."""

    def __init__(self, width: int, max_length: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_length, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """Return the vectors of the positions start … start + length - 1."""
        max_length = self.table.shape[0]
        if start + length > max_length:
            raise ValueError(
                f"got {start + length} positions; expected at most {max_length}, the length of the "
                "learned positions; try sinusoidal positions, or train with a larger `max_length`."
            )
        return self.table[start : start + length]


class AttentionPositions(nn.Module):
    """The interface of positions that act inside attention; this base class has no effect.

    Queries and keys are numbered by their position in the sequence, as in masks.
    `depends_on_position` is True if there is a bias.
    """

    depends_on_position = False

    def rotate(self, vectors: Float[Tensor, "B H T K"], start: int) -> Float[Tensor, "B H T K"]:
        """Rotate queries or keys at the positions from `start` on, before they are compared."""
        return vectors

    def add_content_bias(self, query: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """Add the learned content bias u to the query (Transformer-XL)."""
        return query

    def bias(
        self, query: Float[Tensor, "B H T K"], key_length: int, first_query: int
    ) -> Float[Tensor, "B H T S"] | None:
        """Return the bias of the scores; `first_query` is the position of the first query."""
        return None


class RotaryPositions(AttentionPositions):
    r"""Rotate each pair (x_{2i}, x_{2i+1}) of a query or key at position t by t / 10000^{2i/K}.

    Su et al. 2021, eq. 15. With R_t the rotation at position t,

        (R_s q)ᵀ (R_t k) = qᵀ R_{t-s} k:

    the score depends on the offset alone. That holds for every score that is invariant to a
    rotation of both: dot, scaled dot, cosine, Gaussian; general, additive and concat have matrices
    that do not commute with R. The cache holds rotated keys, and the fused kernel is used as
    before. Neighbouring elements are paired, as in the paper and in GPT-J (Llama pairs the halves:
    the same up to the order of the rows of W_q and W_k).
    """

    def __init__(self, width: int):
        super().__init__()
        if width % 2:
            raise ValueError(
                f"got a head width of {width}; expected an even one, as rotary positions rotate "
                "pairs; try another number of heads."
            )
        self.angles = SinusoidalPositions(width)

    def rotate(self, vectors: Float[Tensor, "B H T K"], start: int) -> Float[Tensor, "B H T K"]:
        """Return R_t x_t for the positions from `start` on."""
        codes = self.angles(start, vectors.shape[-2]).to(vectors.dtype)
        sine, cosine = codes.unflatten(-1, (-1, 2)).unbind(-1)  # (T, K/2) each
        left, right = vectors.unflatten(-1, (-1, 2)).unbind(-1)
        rotated = [left * cosine - right * sine, left * sine + right * cosine]
        return torch.stack(rotated, dim=-1).flatten(-2)


class RelativePositions(AttentionPositions):
    r"""A bias that depends on the distance: ((q + u)ᵀ k + (q + v)ᵀ W_r p_{i-j}) / √K.

    Dai et al. 2019 (Transformer-XL), section 3.3, with p the sinusoid of the offset i - j and u
    and v learned for each head: a preference for contents, and for distances, that does not depend
    on the query. Unlike there, each layer has its own u and v, initialised at zero, and the second
    term is divided by √K for every score of the first.

    W_r p is computed for each of the T + S offsets, not of the T · S pairs, and aligned by
    `relative_shift`. The bias needs a gradient, and the fused CPU kernel takes no bias that does:
    training uses the equation, inference the fused kernel.
    """

    depends_on_position = True

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.codes = SinusoidalPositions(width)
        self.project = nn.Linear(width, width, bias=False)
        nn.init.xavier_uniform_(self.project.weight)
        self.content = nn.Parameter(torch.zeros(heads, 1, width // heads))  # u
        self.distance = nn.Parameter(torch.zeros(heads, 1, width // heads))  # v

    def add_content_bias(self, query: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """Return q + u."""
        return query + _for_heads(self.content, query)

    def bias(
        self, query: Float[Tensor, "B H T K"], key_length: int, first_query: int
    ) -> Float[Tensor, "B H T S"]:
        """Return (q + v)ᵀ W_r p_{i-j} / √K."""
        length, heads = query.shape[-2], self.distance.shape[0]
        # from the largest distance back (last query) to the largest ahead (first query), plus one
        codes = self.codes(first_query - key_length + 1, length + key_length).flip(0)
        distances = self.project(codes).unflatten(-1, (heads, -1)).transpose(0, 1)  # (H, T + S, K)
        biased = query + _for_heads(self.distance, query)
        table = biased @ _for_heads(distances, query).transpose(-2, -1)
        return relative_shift(table, key_length) / math.sqrt(query.shape[-1])


def _for_heads(each: Float[Tensor, "h N K"], query: Float[Tensor, "B H T K"]) -> Tensor:
    """Repeat per-head values where hypotheses that share a memory are additional heads."""
    times = query.shape[1] // each.shape[0]
    return each if times == 1 else each.repeat_interleave(times, dim=0)


def relative_shift(table: Float[Tensor, "*B T L"], key_length: int) -> Float[Tensor, "*B T S"]:
    r"""out[i, j] = table[i, T - i + j] for `key_length` keys j, where L = T + S.

    Dai et al. 2019, appendix B. Row i starts one column before row i - 1, as do the rows of the
    same memory read with rows that are one shorter: no number is moved.
    """
    T, L = table.shape[-2:]
    return table.flatten(-2)[..., T:].unflatten(-1, (T, L - 1))[..., :key_length]


POSITIONS = ("sinusoidal", "learned", "rotary", "relative", "none")
