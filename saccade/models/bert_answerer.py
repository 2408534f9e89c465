r"""BERT that finds the answer to a question in a context: scores of its first and last token.

Devlin et al. 2019, section 4.2 and 4.3. Of `[CLS] question [SEP] context [SEP]` with the hidden
vectors h_t,

    s_t = w_s · h_t + b_s        e_t = w_e · h_t + b_e
    L   = -½ (log p_s(i) + log p_e(j))        p = softmax over the context and [CLS]
    score(i, j) = s_i + e_j,  i ≤ j < i + the longest answer        score of no answer = s_0 + e_0

of the answer from token i to token j; i = j = 0, [CLS], where the window has no answer. The best
answer is that with the highest score, or none if the score of no answer is above it by more than a
threshold, which is a number among the weights: chosen on the dev split after training.

Differs from the paper in leaving the question out of both softmaxes: an answer is never there.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.models.answer_config import BertAnswererConfig
from saccade.models.bert import BERT_INIT_STD, BertEncoder
from saccade.models.bert_classifier import segments_of
from saccade.types.shapes import Hidden, Lengths, TokenIds

ALWAYS_ANSWER = torch.finfo(torch.float32).max  # threshold of a model without "no answer"


class WindowInputs(NamedTuple):
    """Padded windows `[CLS] question [SEP] part of the context [SEP]`."""

    ids: TokenIds
    lengths: Lengths
    context: Int[Tensor, " B"]  # position of the first token of the context
    may_start: Bool[Tensor, "B T"]  # first tokens of words that this window decides on
    may_end: Bool[Tensor, "B T"]  # last tokens of words of the context

    @property
    def in_context(self) -> Bool[Tensor, "B T"]:
        """True at the positions of the context."""
        at = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (at >= self.context[:, None]) & (at < self.lengths[:, None] - 1)

    def padded(self, extra: int) -> "WindowInputs":
        """Return the same windows with more padding, for checks."""
        ids = torch.cat([self.ids, self.ids[:, :1].expand(-1, extra)], dim=1)
        none = self.may_start.new_zeros(len(ids), extra)
        masks = (torch.cat([mask, none], dim=1) for mask in (self.may_start, self.may_end))
        return WindowInputs(ids, self.lengths, self.context, *masks)

    def to(self, device: torch.device) -> "WindowInputs":
        """Return the tensors on a device."""
        return WindowInputs(*(tensor.to(device) for tensor in self))


class BestSpans(NamedTuple):
    """The best spans of each window, best first, and what their probabilities follow from."""

    scores: Float[Tensor, "B N"]  # -inf: there are fewer spans
    starts: Int[Tensor, "B N"]
    ends: Int[Tensor, "B N"]  # the last token
    total: Float[Tensor, " B"]  # log Σ exp(score) of all spans
    no_answer: Float[Tensor, " B"]


class BertAnswerer(nn.Module):
    """A BERT encoder, and a linear layer for the scores of first and last tokens."""

    threshold: Tensor

    def __init__(self, config: BertAnswererConfig):
        super().__init__()
        self.encoder = BertEncoder(config.with_values(pooler=False))
        self.has_segments = config.segments > 1
        self.output = nn.Linear(config.width, 2)
        nn.init.normal_(self.output.weight, std=BERT_INIT_STD)
        nn.init.zeros_(self.output.bias)
        self.register_buffer("threshold", torch.tensor(ALWAYS_ANSWER))

    def forward(self, inputs: WindowInputs) -> Float[Tensor, "B T 2"]:
        """Return the scores of each position as the first and as the last token of the answer."""
        return self.score(self.embed(inputs), inputs)

    def embed(self, inputs: WindowInputs) -> Hidden:
        """Return the inputs of the first layer."""
        return self.encoder.embed(
            inputs.ids, segments_of(inputs.ids) if self.has_segments else None
        )

    def score(self, x: Hidden, inputs: WindowInputs) -> Float[Tensor, "B T 2"]:
        """Return the scores of embedded windows."""
        return self.output(self.encoder.encode(x, inputs.lengths))

    def loss(
        self, inputs: WindowInputs, targets: Int[Tensor, "B 2"], smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """Return the summed loss of the windows; [CLS], 0, is the target without an answer."""
        is_target = inputs.in_context
        is_target[:, 0] = True
        logits = self(inputs).float().masked_fill(~is_target[..., None], -torch.inf)
        log_p = logits.log_softmax(1)
        loss = -log_p.gather(1, targets[:, None]).sum() / 2
        if not smoothing:
            return loss
        mean = log_p.masked_fill(~is_target[..., None], 0.0).sum(1) / is_target.sum(1)[:, None]
        return (1 - smoothing) * loss - smoothing * mean.sum() / 2


def best_spans(
    logits: Float[Tensor, "B T 2"], inputs: WindowInputs, max_answer: int, count: int
) -> BestSpans:
    """Return the spans of whole words, up to `max_answer` tokens, with the highest scores."""
    start = logits[..., 0].masked_fill(~inputs.may_start, -torch.inf)
    end = logits[..., 1].masked_fill(~inputs.may_end, -torch.inf)
    padded = nn.functional.pad(end, (0, max_answer - 1), value=-torch.inf)
    # band[b, t, n]: the score of the span of the tokens t to t + n
    band = start[..., None] + padded.unfold(1, max_answer, 1)
    flat = band.flatten(1)
    scores, best = flat.topk(min(count, flat.shape[1]), dim=1)
    starts = best // max_answer
    return BestSpans(
        scores, starts, starts + best % max_answer, flat.logsumexp(1), logits[:, 0].sum(-1)
    )
