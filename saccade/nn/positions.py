r"""Where a token stands, told to a model that otherwise could not know.

`positions(start, steps) -> (T, D)`, added to the embeddings: with a remembered past, `start` is
the number of places already read.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Sinusoidal(nn.Module):
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

    def forward(self, start: int, steps: int) -> Float[Tensor, "T D"]:
        """The codes of the places start … start + steps - 1."""
        places = torch.arange(start, start + steps, device=self.rates.device)
        angles = places[:, None] * self.rates  # (T, D/2)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class Learned(nn.Module):
    """A learned vector for each of `longest` places (Gehring et al. 2017)."""

    def __init__(self, width: int, longest: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(longest, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, start: int, steps: int) -> Float[Tensor, "T D"]:
        """The vectors of the places start … start + steps - 1."""
        longest = self.table.shape[0]
        if start + steps > longest:
            raise ValueError(
                f"place {start + steps} was asked for and the learned positions end at {longest}; "
                "use sinusoidal positions, or train with a larger `longest`."
            )
        return self.table[start : start + steps]


POSITIONS = ("sinusoidal", "learned")
