"""Training objective of language models: cross-entropy of the next token, truncated BPTT."""

from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from typing import Any

import torch
from torch import Tensor

from saccade.data.text.lm_batching import (
    SegmentBatch,
    segment_batches_per_epoch,
    sequential_segments,
    slice_segments,
    training_segments,
)
from saccade.data.text.token_store import TokenCorpus
from saccade.data.tokenizers import Tokenizer
from saccade.models.base import CausalLM
from saccade.models.config import RecurrentLMConfig
from saccade.nn.bptt import (
    StepFn,
    no_truncation,
    random_truncation,
    truncate_every,
    unroll,
)
from saccade.nn.kernels.linear_cross_entropy import TokenLoss, linear_cross_entropy
from saccade.seeding import generator
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.tasks.language_modeling.data import LMBatch, drop_padding
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.training.objective import Loss

EVAL_STREAMS = 16  # parts of the text that are scored in parallel
_MIN_PART_TOKENS = 256  # target tokens below which a thread of its own does not pay


class LanguageObjective(StatelessObjective[LMBatch]):
    """Summed cross-entropy of the next token.

    The state after a segment is carried to the next without its gradient (truncated
    backpropagation through time).
    """

    model: CausalLM

    def __init__(
        self,
        recipe: LanguageRecipe,
        model: CausalLM,
        tokenizer: Tokenizer,
        splits: Mapping[str, TokenCorpus],
    ):
        super().__init__(recipe, model)
        self.config, self.data = recipe.model, recipe.data
        self.splits = splits
        self.forward_segment: StepFn = model.forward_segment
        self.carry: dict[str, Tensor] = {}  # by "index of the tensor.part of the batch"
        self.batch_rows = max(1, self.settings.batch_tokens // self.data.segment_length)

    def batches(self, split: str, start: int = 0) -> Iterator[LMBatch]:
        """Yield training segments without end; other splits once, from their start."""
        ids, length = self.splits[split].ids, self.data.segment_length
        segments: Iterator[SegmentBatch]
        if split == "train":
            order, seed = self.data.segment_order, self.settings.seed
            segments = training_segments(ids, order, self.batch_rows, length, seed, start)
        else:
            every = sequential_segments(ids, EVAL_STREAMS, length, seed=0, epoch=0)
            segments = islice(every, start, None)
        yield from map(LMBatch, segments)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain all training tokens once."""
        ids, data = self.splits["train"].ids, self.data
        return segment_batches_per_epoch(
            ids, data.segment_order, self.batch_rows, data.segment_length
        )

    def compile(self) -> None:
        """Compile the forward pass of a segment."""
        self.forward_segment = torch.compile(self.model.forward_segment, dynamic=False)

    def split_batch(self, batch: LMBatch, limit: int) -> list[LMBatch]:
        """Split the rows into parts, each with the state that it continues from."""
        rows = len(batch.segments.inputs)
        count = max(1, min(limit, batch.tokens // _MIN_PART_TOKENS, rows))
        carry = self._initial_state(batch.segments)
        cuts = [rows * part // count for part in range(count + 1)]
        return [
            LMBatch(
                slice_segments(batch.segments, *ends),
                part,
                tuple(one[slice(*ends)] for one in carry) if self.model.is_stateful else None,
            )
            for part, ends in enumerate(pairwise(cuts))
        ]

    def loss(self, batch: LMBatch) -> Loss:
        """Return the summed loss, and keep the state for the next batch."""
        segments = batch.segments
        carry = self._initial_state(segments) if batch.carry is None else batch.carry
        inputs = segments.inputs
        loss, after = segment_loss(
            self.model,
            segments,
            self.forward_segment,
            carry,
            self.settings.label_smoothing,
            self._gates(inputs.shape[1]),
        )
        if self.model.is_stateful:
            for index, tensor in enumerate(after):
                self.carry[f"{index}.{batch.part}"] = tensor.detach()
        return Loss(*loss)

    def _initial_state(self, segments: SegmentBatch) -> Any:
        """Return the state a batch continues from: none, or what the parts before left, joined.

        It is a `CarriedState`, or the empty cache of a model that is not stateful.
        """
        rows = len(segments.inputs)
        initial = self.model.init_segment_memory(rows)
        if segments.reset_state or not self.model.is_stateful:
            self.carry = {}
            return initial
        joined = []
        for index in range(len(initial)):
            names = sorted((n for n in self.carry if n.startswith(f"{index}.")), key=_part_of)
            joined.append(torch.cat([self.carry[name] for name in names])[:rows])
        self.carry = {}
        return tuple(joined)

    def _gates(self, length: int) -> tuple[float, ...]:
        """Return where the gradient is cut inside a segment (truncation of BPTT)."""
        config = self.config
        if not self.model.training or not isinstance(config, RecurrentLMConfig):
            return no_truncation(length)
        if config.truncation == "window":
            return truncate_every(length, config.window)
        if config.truncation == "random":
            # the loop has seeded torch by the step, so this follows from the step too
            seed = int(torch.randint(2**62, ()))
            return random_truncation(length, config.keep_probability, generator(seed, "borders"))
        return no_truncation(length)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the carried recurrent state."""
        return dict(self.carry)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the carried recurrent state."""
        self.carry = dict(state)


def _part_of(name: str) -> int:
    return int(name.split(".")[1])


def segment_loss(
    model: CausalLM,
    segments: SegmentBatch,
    forward: StepFn,
    state: Any,
    label_smoothing: float,
    gates: tuple[float, ...] | None = None,
) -> tuple[TokenLoss, Any]:
    """Return the loss of the real target tokens of segments, and the state after them."""
    device = device_of(model)
    inputs = segments.inputs.to(device)
    gates = no_truncation(inputs.shape[1]) if gates is None else gates
    hidden, after = unroll(forward, state, inputs, gates)
    hidden = model.pre_logits(drop_padding(hidden.flatten(0, 1), segments))
    targets = drop_padding(segments.targets.flatten(), segments).to(device)
    return linear_cross_entropy(hidden, model.output_layer, targets, label_smoothing), after
