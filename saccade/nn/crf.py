r"""Linear-chain conditional random field (Lafferty et al. 2001) over padded batches.

With emissions e_t(y), transitions A(y, y'), start scores s(y) and end scores f(y), the score of
tags y_1 … y_n is

    S(y) = s(y_1) + Σ_t e_t(y_t) + Σ_{t > 1} A(y_{t-1}, y_t) + f(y_n),    p(y) = exp S(y) / Z

and log Z is computed by the forward algorithm, α_t(y) = e_t(y) + log Σ_{y'} exp(α_{t-1}(y') +
A(y', y)). A forbidden move has the score -10,000, so that its probability is 0 in float32 and its
gradient 0, without infinities. All rows advance together; padding is at their end.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.types.shapes import Lengths, Logits, TokenIds

FORBIDDEN_SCORE = -1e4


class ChainScores(NamedTuple):
    """Scores of moves between V tags, and of the first and the last tag of a row."""

    transitions: Float[Tensor, "V V"]  # from, to
    start: Float[Tensor, " V"]
    end: Float[Tensor, " V"]


class BestTags(NamedTuple):
    """The tags with the largest score; those of padding are 0."""

    tags: TokenIds
    score: Float[Tensor, " B"]


def sequence_score(
    emissions: Logits, tags: TokenIds, lengths: Lengths, chain: ChainScores
) -> Float[Tensor, " B"]:
    """Return S(y) of the given tags of each row."""
    is_token = _is_token(emissions, lengths)
    emitted = emissions.gather(2, tags[..., None])[..., 0].masked_fill(~is_token, 0).sum(1)
    moved = chain.transitions[tags[:, :-1], tags[:, 1:]].masked_fill(~is_token[:, 1:], 0).sum(1)
    last = tags.gather(1, lengths[:, None] - 1)[:, 0]
    return chain.start[tags[:, 0]] + emitted + moved + chain.end[last]


def log_partition(emissions: Logits, lengths: Lengths, chain: ChainScores) -> Float[Tensor, " B"]:
    """Return log Z of each row, by the forward algorithm."""
    is_token = _is_token(emissions, lengths)
    alpha = chain.start + emissions[:, 0]
    for t in range(1, emissions.shape[1]):
        moved = torch.logsumexp(alpha[:, :, None] + chain.transitions, dim=1) + emissions[:, t]
        alpha = torch.where(is_token[:, t, None], moved, alpha)
    return torch.logsumexp(alpha + chain.end, dim=1)


@torch.no_grad()
def viterbi(emissions: Logits, lengths: Lengths, chain: ChainScores) -> BestTags:
    """Return the tags with the largest S(y) of each row (Viterbi 1967)."""
    is_token = _is_token(emissions, lengths)
    stay = torch.arange(emissions.shape[2], device=emissions.device)
    best = chain.start + emissions[:, 0]
    origins = []
    for t in range(1, emissions.shape[1]):
        moved, origin = (best[:, :, None] + chain.transitions).max(dim=1)
        best = torch.where(is_token[:, t, None], moved + emissions[:, t], best)
        origins.append(torch.where(is_token[:, t, None], origin, stay))
    score, tag = (best + chain.end).max(dim=1)
    path = [tag]
    for origin in reversed(origins):
        tag = origin.gather(1, tag[:, None])[:, 0]
        path.append(tag)
    return BestTags(torch.stack(path[::-1], dim=1).masked_fill(~is_token, 0), score)


def tag_marginals(emissions: Logits, lengths: Lengths, chain: ChainScores) -> Logits:
    r"""Return p(y_t = y) of each position and tag: ∂ log Z / ∂ e_t(y). Padding has zeros."""
    with torch.enable_grad():
        variable = emissions.detach().requires_grad_()
        fixed = ChainScores(*(scores.detach() for scores in chain))
        [gradient] = torch.autograd.grad(log_partition(variable, lengths, fixed).sum(), variable)
    return gradient


def _is_token(emissions: Logits, lengths: Lengths) -> Bool[Tensor, "B T"]:
    return torch.arange(emissions.shape[1], device=emissions.device) < lengths[:, None]


class LinearChainCRF(nn.Module):
    """The scores of a chain as parameters, with moves that are forbidden."""

    move_penalty: Tensor
    start_penalty: Tensor

    def __init__(self, tags: int):
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))
        self.register_buffer("move_penalty", torch.zeros(tags, tags))
        self.register_buffer("start_penalty", torch.zeros(tags))

    def allow_only(self, moves: Bool[Tensor, "V V"], starts: Bool[Tensor, " V"]) -> None:
        """Forbid all other moves, and all other first tags."""
        self.move_penalty.masked_fill_(~moves, FORBIDDEN_SCORE)
        self.start_penalty.masked_fill_(~starts, FORBIDDEN_SCORE)

    @property
    def chain(self) -> ChainScores:
        """The scores, with those of forbidden moves."""
        transitions = self.transitions + self.move_penalty
        return ChainScores(transitions, self.start + self.start_penalty, self.end)

    def log_likelihood(
        self, emissions: Logits, tags: Int[Tensor, "B T"], lengths: Lengths
    ) -> Float[Tensor, " B"]:
        """Return log p(y) of the given tags of each row."""
        chain = self.chain
        score = sequence_score(emissions, tags, lengths, chain)
        return score - log_partition(emissions, lengths, chain)

    def decode(self, emissions: Logits, lengths: Lengths) -> BestTags:
        """Return the most probable tags of each row."""
        return viterbi(emissions, lengths, self.chain)

    def marginals(self, emissions: Logits, lengths: Lengths) -> Logits:
        """Return the probability of each tag at each position."""
        return tag_marginals(emissions, lengths, self.chain)
