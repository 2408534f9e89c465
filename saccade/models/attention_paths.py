r"""Decoders with hard attention that is trained by the score function (Xu et al. 2015, eq. 11).

A path s = (s_1, …, s_T) is the source position that each step attends to. Training maximises
E_s[log p(y | s, x)], a lower bound of log p(y | x). Its gradient needs the log-likelihood of
sampled paths, the reward, and the log-probabilities log α_{t, s_t} of their positions, which
`sample_paths` returns.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.models.base import EncoderDecoder
from saccade.models.caption_config import RecurrentCaptionerConfig
from saccade.models.config import BahdanauConfig, LuongConfig
from saccade.nn.functional import Attention, attend_shared_memory
from saccade.nn.hard_attention import SampledAttention
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.types.shapes import DecoderState, Hidden, Lengths, Source, TokenIds, select_rows

# query (R, 1, T, Q), keys and values of the source, and their mask, to contexts (R, 1, T, K)
AttendMemoryFn = Callable[[Tensor, KVCache, Mask], Tensor]


def path_samples(config: BahdanauConfig | LuongConfig | RecurrentCaptionerConfig) -> int:
    """Return the number of paths of each row that training samples; 0 for other estimators."""
    is_sampled = config.attention == "hard" and config.estimator == "score_function"
    return config.samples if is_sampled else 0


class SampledPaths(NamedTuple):
    """Hidden vectors along R = B·N sampled paths, N of each row, and log α of their positions."""

    hidden: Float[Tensor, "R U D"]
    log_probabilities: Float[Tensor, "R U"]


class AttentionPathDecoder(EncoderDecoder):
    """An encoder-decoder whose decoder attends through one module, `attention`.

    `path_samples` is the number of paths that training samples of each row; 0 trains through the
    attention weights. `path_affects_later_steps` is True if a position changes later steps too, so
    that their log-likelihoods belong to its reward.
    """

    attention: Attention
    path_samples: int = 0
    path_affects_later_steps: bool = True

    @abstractmethod
    def decode_with(
        self, attend: AttendMemoryFn, ids: TokenIds, state: DecoderState
    ) -> tuple[Hidden, DecoderState]:
        """Decode T tokens with this function in place of the attention."""

    def sample_paths(
        self, source: Source, lengths: Lengths | None, target_in: Int[Tensor, "B U"]
    ) -> SampledPaths:
        """Decode the target along `path_samples` paths of each row, next to each other."""
        state = self.init_state(self.encode(source, lengths))
        rows = torch.arange(len(source), device=source.device).repeat_interleave(self.path_samples)
        state = state._replace(cache=select_rows(state.cache, rows))
        sampled, steps = SampledAttention(self.attention.score), []

        def attend(query: Tensor, memory: KVCache, mask: Mask) -> Tensor:
            chosen = attend_shared_memory(sampled, query, memory, mask)
            steps.append(chosen[:, 0, :, -1])
            return chosen[..., :-1]

        hidden, _ = self.decode_with(attend, target_in[rows], state)
        return SampledPaths(hidden, torch.cat(steps, dim=1))
