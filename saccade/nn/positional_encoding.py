r"""Where a token stands, told to a model that otherwise could not know.

Two kinds. Those added to the embeddings, `positions(start, steps) -> (T, D)`: with a remembered
past, `start` is the number of places already read. And `Places`, which act inside every
self-attention, where a query meets a key, and so can speak of the distance between the two.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    r"""p_{t,2i} = sin(t / 10000^{2i/D}),  p_{t,2i+1} = cos(t / 10000^{2i/D}).

    Vaswani et al. 2017, section 3.5. Sines and cosines take turns, as in the paper (some
    libraries put all sines first). Computed when asked for, so there is no longest length.
    """

    def __init__(self, width: int):
        super().__init__()
        if width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {width}.")
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        self.register_buffer("rates", rates, persistent=False)
        self.rates: Tensor

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """The codes of the places start … start + steps - 1."""
        key_length = torch.arange(start, start + length, device=self.rates.device)
        angles = key_length[:, None] * self.rates  # (T, D/2)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """A learned vector for each of `longest` places (Gehring et al. 2017)."""

    def __init__(self, width: int, max_length: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_length, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """The vectors of the places start … start + steps - 1."""
        max_length = self.table.shape[0]
        if start + length > max_length:
            raise ValueError(
                f"place {start + length} was asked for and the learned positions end at {max_length}; "
                "use sinusoidal positions, or train with a larger `longest`."
            )
        return self.table[start : start + length]


class AttentionPositions(nn.Module):
    """What attention asks of positions that act inside it; this one says nothing of places.

    Queries and keys are counted by their place in the sequence, as masks count them.
    `asks_where` says that there is a bias.
    """

    depends_on_position = False

    def rotate(self, vectors: Float[Tensor, "B H T K"], start: int) -> Float[Tensor, "B H T K"]:
        """Queries or keys that stand at the places from `start` on, before they are compared."""
        return vectors

    def add_content_bias(self, query: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """The query that is compared with the keys, which may have a liking for some of them."""
        return query

    def bias(
        self, query: Float[Tensor, "B H T K"], key_length: int, first_query: int
    ) -> Float[Tensor, "B H T S"] | None:
        """What to add to the scores of S = `places` keys; the first query stands at key `first`."""
        return None


class RotaryPositions(AttentionPositions):
    r"""Every pair (x_{2i}, x_{2i+1}) of a query or key at place t is turned by t / 10000^{2i/K}.

    Su et al. 2021, eq. 15. With R_t the rotation at place t,

        (R_s q)ᵀ (R_t k) = qᵀ R_{t-s} k:

    the score depends on the offset alone. That is so for every score that no rotation of both
    changes: dot, scaled dot, cosine, Gaussian; general, additive and concat have matrices that do
    not commute with R. The keys are remembered as turned, and the fused kernel is used as before.
    Neighbours are paired, as in the paper and in GPT-J (Llama pairs the halves: the same up to
    the order of the rows of W_q and W_k).
    """

    def __init__(self, width: int):
        super().__init__()
        if width % 2:
            raise ValueError(
                f"rotary positions turn pairs and need an even width of each head, not {width}; "
                "use another number of heads."
            )
        self.angles = SinusoidalPositions(width)

    def rotate(self, vectors: Float[Tensor, "B H T K"], start: int) -> Float[Tensor, "B H T K"]:
        """R_t x_t at the places from `start` on."""
        codes = self.angles(start, vectors.shape[-2]).to(vectors.dtype)
        sine, cosine = codes.unflatten(-1, (-1, 2)).unbind(-1)  # (T, K/2) each
        left, right = vectors.unflatten(-1, (-1, 2)).unbind(-1)
        turned = [left * cosine - right * sine, left * sine + right * cosine]
        return torch.stack(turned, dim=-1).flatten(-2)


class RelativePositions(AttentionPositions):
    r"""A query meets every key and the distance to it: ((q + u)ᵀ k + (q + v)ᵀ W_r p_{i-j}) / √K.

    Dai et al. 2019 (Transformer-XL), section 3.3, with p the sinusoid of the offset i - j and u
    and v learned for each head: a liking for some contents, and for some distances, whoever asks.
    Unlike there, u and v are each layer's own and start at zero, and the second part is divided
    by √K whatever the score of the first.

    W_r p is computed for each of the T + S offsets, not of the T · S pairs, and put in its place
    by `shifted`. The second part needs a gradient, and the fused kernel of the CPU takes no bias
    that does: in training the clear path is taken, the fused one without gradients.
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
        """q + u."""
        return query + _for_heads(self.content, query)

    def bias(
        self, query: Float[Tensor, "B H T K"], key_length: int, first_query: int
    ) -> Float[Tensor, "B H T S"]:
        """(q + v)ᵀ W_r p_{i-j} / √K."""
        length, heads = query.shape[-2], self.distance.shape[0]
        # from the farthest key behind the last query to the farthest ahead of the first, and one
        codes = self.codes(first_query - key_length + 1, length + key_length).flip(0)
        distances = self.project(codes).unflatten(-1, (heads, -1)).transpose(0, 1)  # (H, T + S, K)
        asked = query + _for_heads(self.distance, query)
        table = asked @ _for_heads(distances, query).transpose(-2, -1)
        return relative_shift(table, key_length) / math.sqrt(query.shape[-1])


def _for_heads(each: Float[Tensor, "h N K"], query: Float[Tensor, "B H T K"]) -> Tensor:
    """One for each head of the query, where hypotheses that share a memory stand as more heads."""
    times = query.shape[1] // each.shape[0]
    return each if times == 1 else each.repeat_interleave(times, dim=0)


def relative_shift(table: Float[Tensor, "*B T L"], key_length: int) -> Float[Tensor, "*B T S"]:
    r"""out[i, j] = table[i, T - i + j] for `places` keys j, where L = T + S.

    Dai et al. 2019, appendix B. Row i begins one place before row i - 1. So do the rows of the
    same numbers read in lines that are one shorter: no number is moved.
    """
    T, L = table.shape[-2:]
    return table.flatten(-2)[..., T:].unflatten(-1, (T, L - 1))[..., :key_length]


POSITIONS = ("sinusoidal", "learned", "rotary", "relative", "none")
