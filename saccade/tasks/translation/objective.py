"""Training objective of translators: cross-entropy of the target tokens (teacher forcing)."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, pairwise
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from saccade.data.batching import BatchPlan, EncodedPairs, slice_batch, training_batches
from saccade.models.attention_paths import AttentionPathDecoder
from saccade.models.base import EncoderDecoder
from saccade.nn.hard_attention import path_loss
from saccade.nn.kernels.linear_cross_entropy import linear_cross_entropy
from saccade.nn.losses import cross_entropy
from saccade.nn.norm import BatchNorm
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.tasks.translation.config import TranslationRecipe
from saccade.tasks.translation.data import PairSplit, TokenizerPair
from saccade.training.objective import Loss
from saccade.types.shapes import Batch

_MIN_PART_TOKENS = 128  # target tokens below which a thread of its own does not pay


class TranslationObjective(StatelessObjective[Batch]):
    """Summed cross-entropy over the real target tokens; padding is never projected to logits."""

    model: EncoderDecoder

    def __init__(
        self,
        recipe: TranslationRecipe,
        model: EncoderDecoder,
        tokenizers: TokenizerPair,
        splits: Mapping[str, PairSplit],
    ):
        super().__init__(recipe, model)
        self.splits = splits
        self.hidden: Callable[[Batch], Tensor] = self._hidden

    def batches(self, split: str, start: int = 0) -> Iterator[Batch]:
        """Yield training batches without end in an order given by the seed; other splits once."""
        encoded = self.splits[split].encoded
        if split == "train":
            plan = BatchPlan(encoded, self.settings.batch_tokens)
            yield from training_batches(encoded, plan, self.settings.seed, start)
        else:
            yield from islice(batches_once(encoded, self.settings.batch_tokens), start, None)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain all training pairs once."""
        return len(BatchPlan(self.splits["train"].encoded, self.settings.batch_tokens))

    def loss(self, batch: Batch) -> Loss:
        """Return the label-smoothed cross-entropy, summed."""
        batch = batch_to(batch, device_of(self.model))
        model = self.model
        if isinstance(model, AttentionPathDecoder) and model.path_samples and model.training:
            return score_function_loss(model, batch, self.settings.label_smoothing)
        hidden = self.hidden(batch)
        return Loss(
            *linear_cross_entropy(
                hidden,
                self.model.output_layer,
                batch.target_out,
                self.settings.label_smoothing,
                batch.weights,
            )
        )

    def split_batch(self, batch: Batch, limit: int) -> list[Batch]:
        """Split the rows into parts large enough for a thread each."""
        if any(isinstance(module, BatchNorm) for module in self.model.modules()):
            return [batch]  # its statistics are those of the whole batch
        count = max(1, min(limit, batch.tokens // _MIN_PART_TOKENS, len(batch.lines)))
        if count == 1:
            return [batch]
        cuts = [len(batch.lines) * part // count for part in range(count + 1)]
        return [slice_batch(batch, start, stop) for start, stop in pairwise(cuts)]

    def compile(self) -> None:
        """Compile the forward pass for batches of any shape."""
        self.hidden = torch.compile(self._hidden, dynamic=True)

    def _hidden(self, batch: Batch) -> Float[Tensor, "N D"]:
        return target_hidden(self.model, batch)

    def describe_batch(self, batch: Batch) -> str:
        """Return the file and the lines of a batch."""
        lines = ", ".join(map(str, batch.lines[:5]))
        more = f" and {len(batch.lines) - 5} more" if len(batch.lines) > 5 else ""
        return f"{self.splits['train'].encoded.name}, lines {lines}{more}"


def target_hidden(model: EncoderDecoder, batch: Batch) -> Float[Tensor, "N D"]:
    """Return the decoder's hidden states before the output layer, at the real target positions."""
    return model.target_hidden(
        batch.source, batch.source_lengths, batch.target_in, batch.target_positions
    )


def score_function_loss(model: AttentionPathDecoder, batch: Batch, label_smoothing: float) -> Loss:
    r"""Return the loss of sampled attention paths: mean_n loss(s_n), and a term for the gradient.

    ∇ E_s[loss(s)] = E_s[∇ loss(s) + loss(s) ∇ log p(s)]; the second part is `path_loss`.
    """
    paths = model.sample_paths(batch.source, batch.source_lengths, batch.target_in)
    B, T = batch.target_in.shape
    N = model.path_samples
    real = batch.target_positions
    if real is None:
        real = torch.arange(B * T, device=batch.target_in.device)
    first = real // T * (N * T) + real % T  # the same target positions in the first path of a row
    hidden = model.pre_logits(paths.hidden.flatten(0, 1))
    losses = hidden.new_zeros(B * N * T)
    smoothing, weights = label_smoothing, batch.weights
    total, correct = hidden.new_zeros(()), hidden.new_zeros(())
    for path in range(N):  # one after the other: the logits of all would take N times the memory
        found = hidden.index_select(0, first + path * T)
        part = linear_cross_entropy(found, model.output_layer, batch.target_out, smoothing, weights)
        total, correct = total + part.total / N, correct + part.correct / N
        with torch.no_grad():
            logits = F.linear(found, *model.output_layer)
            each = cross_entropy(
                logits,
                batch.target_out,
                label_smoothing=smoothing,
                sample_weight=weights,
                reduction="none",
            )
            losses.index_copy_(0, first + path * T, each.to(losses.dtype))
    log_probabilities = paths.log_probabilities.view(B, N, T)
    return Loss(
        total + path_loss(losses.view(B, N, T), log_probabilities, model.path_affects_later_steps),
        correct,
    )


def batches_once(encoded: EncodedPairs, batch_tokens: int) -> Iterator[Batch]:
    """Yield every pair once."""
    plan = BatchPlan(encoded, batch_tokens)
    for index in range(len(plan)):
        yield encoded.batch(plan.rows(index))


def batch_to(batch: Batch, device: torch.device) -> Batch:
    """Return the batch with its tensors on a device."""
    if device.type == "cpu":
        return batch
    moved: dict[str, Any] = {
        name: part.to(device) for name, part in batch._asdict().items() if isinstance(part, Tensor)
    }
    return batch._replace(**moved)
