"""Language: what a batch, a loss and a law mean for a model that goes on with a text."""

from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from saccade.data.datasets import TEXT_DATASETS
from saccade.data.text.lm_batching import (
    SegmentBatch,
    segment_batches_per_epoch,
    sequential_segments,
    slice_segments,
    training_segments,
)
from saccade.data.tokenizers import Tokenizer, tokenizer_from_json
from saccade.data.vocabulary import EOS
from saccade.errors import ConfigError
from saccade.estimators.ngram.model import NGram
from saccade.inference.fused import fused_decoder
from saccade.inspection import invariants
from saccade.inspection.attention import capture_attention
from saccade.inspection.checks import CheckResult
from saccade.inspection.invariants import CheckExample
from saccade.models.base import CausalLM
from saccade.models.bidirectional_lm import BidirectionalLM
from saccade.models.gpt import GPT
from saccade.models.nnlm import NNLM
from saccade.models.rnn_lm import (
    ConvLM,
    NGramConfig,
    RecurrentLM,
    RecurrentLMConfig,
)
from saccade.models.transformer_xl import TransformerXL
from saccade.nn.bptt import (
    StepFn,
    gradients_by_distance,
    no_truncation,
    random_truncation,
    truncate_every,
    unroll,
)
from saccade.nn.kernels.linear_cross_entropy import TokenLoss, linear_cross_entropy
from saccade.plots.attention import save_attention_maps
from saccade.plots.terminal import AttentionMap
from saccade.seeding import generator
from saccade.tasks.gaps import MaskedLMTask
from saccade.tasks.network import TrainableTask
from saccade.tasks.reading import LM_SPECIAL_TOKENS, AdvanceCallback, CausalLMTask, TextTask
from saccade.tasks.task import FitContext, FittedTask, TaskSpec
from saccade.tasks.text import SYNTHETIC_TEXTS, LanguageRecipe, LMBatch, drop_padding, prepare_text
from saccade.training.loop import Loss
from saccade.types.shapes import DecoderState, TokenIds, select_rows

EVAL_STREAMS = 16  # stretches that are read side by side when a text is scored
MAX_PLOT_TOKENS = 32  # tokens of a picture of attention
PLOT_SEARCH_TOKENS = 4096  # tokens among which a line is looked for, to be drawn
MIN_LM_PART_TOKENS = 256  # tokens that are worth a core of their own
LANGUAGE_MODELS: dict[str, Any] = {
    "conv_lm": ConvLM,
    "gpt1": GPT,
    "gpt2": GPT,
    "gpt3": GPT,
    "gru": RecurrentLM,
    "gru_reset_first": RecurrentLM,
    "lstm": RecurrentLM,
    "ngram": NGram,
    "nnlm": NNLM,
    "rnn": RecurrentLM,
    "transformer_xl": TransformerXL,
    "bidirectional": BidirectionalLM,
}


class NeuralLMTask(CausalLMTask, TrainableTask):
    """A network of text, trained by the loop."""

    model: CausalLM

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        super().__init__(
            recipe, tokenizer, lambda: LANGUAGE_MODELS[recipe.model.name](recipe.model)
        )
        self.forward_segment: StepFn = self.model.forward_segment
        self._writing: Any = None

    @property
    def stepper(self) -> nn.Module:
        """The model itself."""
        self.model.eval()
        return self.model

    @property
    def fast_decoder(self) -> Any:
        """With as few calls as can be, where there is such a way."""
        self._writing = fused_decoder(self.stepper, self._writing)
        return self._writing

    # --- training --------------------------------------------------------------------------

    def batches(self, split: str, start: int = 0) -> Iterator[LMBatch]:
        """For "train" without end; others once, from their beginning."""
        data, seed = self.recipe.data, self.recipe.train.seed
        ids = self.corpora[split].ids
        if split == "train":
            segments = training_segments(
                ids, data.segment_order, self._batch_rows, data.segment_length, seed, start
            )
        else:
            every = sequential_segments(ids, EVAL_STREAMS, data.segment_length, seed=0, epoch=0)
            segments = islice(every, start, None)
        yield from map(LMBatch, segments)

    def batches_in_epoch(self) -> int:
        """How many batches have all the training text once, cut up as each epoch does it anew."""
        ids, data = self.corpora["train"].ids, self.recipe.data
        return segment_batches_per_epoch(
            ids, data.segment_order, self._batch_rows, data.segment_length
        )

    @property
    def _batch_rows(self) -> int:
        """Of a batch."""
        return max(1, self.recipe.train.batch_tokens // self.recipe.data.segment_length)

    def compile(self) -> None:
        """Let torch.compile make kernels for what a segment is read by."""
        self.forward_segment = torch.compile(self.model.forward_segment, dynamic=False)

    def split_batch(self, batch: LMBatch, limit: int) -> list[LMBatch]:
        """Some rows for each part, with what they go on from."""
        count = max(1, min(limit, batch.tokens // MIN_LM_PART_TOKENS, len(batch.segments.inputs)))
        carry = self._carried(batch.segments)
        cuts = [len(batch.segments.inputs) * position // count for position in range(count + 1)]
        return [
            LMBatch(
                slice_segments(batch.segments, *ends),
                position,
                tuple(one[slice(*ends)] for one in carry) if self.model.is_stateful else None,
            )
            for position, ends in enumerate(pairwise(cuts))
        ]

    def loss(self, batch: LMBatch) -> Loss:
        """Summed over the tokens; what is left after the last is kept for the batch that follows.

        It is kept without its gradient: backpropagation goes no farther than the segment.
        """
        self._writing = None  # the weights are about to change
        segments = batch.segments
        carry = self._carried(segments) if batch.carry is None else batch.carry
        label_smoothing = self.recipe.train.label_smoothing
        judged, after = self._judged(segments, self.forward_segment, carry, label_smoothing)
        if self.model.is_stateful:
            for position, left in enumerate(after):
                self.carry[f"{position}.{batch.part}"] = left.detach()
        return Loss(*judged)

    def _carried(self, segments: SegmentBatch) -> Any:
        """What a batch goes on from: nothing, or what the parts of the last one left, joined."""
        model: Any = self.model
        rows = len(segments.inputs)
        before = model.init_segment_memory(rows)
        if segments.reset_state or not model.is_stateful:
            self.carry = {}
            return before
        joined = []
        for position in range(len(before)):
            names = sorted((n for n in self.carry if n.startswith(f"{position}.")), key=_part_of)
            joined.append(torch.cat([self.carry[name] for name in names])[:rows])
        self.carry = {}
        return tuple(joined)

    def _judged(
        self, segments: SegmentBatch, read: StepFn, before: Any, label_smoothing: float
    ) -> tuple[TokenLoss, Any]:
        """The tokens that count."""
        model: Any = self.model
        inputs = segments.inputs.to(self.device)
        hidden, after = unroll(read, before, inputs, self._borders(inputs.shape[1]))
        hidden = model.pre_logits(drop_padding(hidden.flatten(0, 1), segments))
        targets = drop_padding(segments.targets.flatten(), segments).to(self.device)
        return linear_cross_entropy(hidden, model.output_layer, targets, label_smoothing), after

    def _borders(self, segment_length: int) -> tuple[float, ...]:
        config = self.recipe.model
        if not self.model.training or not isinstance(config, RecurrentLMConfig):
            return no_truncation(segment_length)
        if config.truncation == "window":
            return truncate_every(segment_length, config.window)
        if config.truncation == "random":
            # the loop has seeded torch's generator by the step, so this, too, follows from it
            seed = int(torch.randint(2**62, ()))
            return random_truncation(
                segment_length, config.keep_probability, generator(seed, "borders")
            )
        return no_truncation(segment_length)

    # --- scores ----------------------------------------------------------------------------

    @torch.no_grad()
    def total(self, ids: NDArray[Any], on_progress: AdvanceCallback = lambda more: None) -> float:
        """Read in stretches side by side, each going on from what it has read."""
        model: Any = self.stepper
        cache: Any = None
        total = 0.0
        segment_length = model.eval_stride or self.recipe.data.segment_length
        for segments in sequential_segments(ids, EVAL_STREAMS, segment_length, seed=0, epoch=0):
            rows = len(segments.inputs)
            if segments.reset_state:
                cache, before = model.init_cache(rows), rows
            elif rows < before:
                cache, before = select_rows(cache, torch.arange(rows, device=self.device)), rows
            judged, cache = self._judged(segments, model.forward_hidden, cache, label_smoothing=0.0)
            total -= float(judged.total)
            on_progress(LMBatch(segments).tokens)
        return total

    def context_description(self) -> str:
        """What a token sees."""
        model: Any = self.model
        return f"of one of {EVAL_STREAMS} stretches of the text a token sees {model.context_description}"

    def gradients(self, split: str = "test", count: int = 16) -> Float[Tensor, "B T"]:
        """How much of the last loss reaches the state 1, 2, … steps before, for some segments."""
        if not isinstance(self.model, RecurrentLM):
            raise ConfigError(
                f"{self.recipe.model.name} has no state that a gradient goes back through; "
                "rnn, gru and lstm have one."
            )
        segment_length = self.recipe.data.segment_length
        ids = self.corpora[split].ids
        limit = min(segment_length, len(ids) - 1)
        starts = np.unique(np.linspace(0, len(ids) - limit - 1, count).astype(np.int64))
        rows = torch.from_numpy(np.stack([ids[a : a + limit + 1] for a in starts]).astype(np.int64))
        model: Any = self.stepper

        def surprise(hidden: Tensor) -> Tensor:
            return nn.functional.cross_entropy(
                model.compute_logits(hidden), rows[:, -1].to(self.device), reduction="none"
            )

        inputs = rows[:, :-1].to(self.device)
        return gradients_by_distance(
            model.forward_hidden, model.init_cache(len(rows)), inputs, surprise
        ).detach()

    # --- looking ---------------------------------------------------------------------------

    @torch.no_grad()
    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[tuple[str, int, int], AttentionMap]:
        """Where the model looks as it reads a text and its own continuation, or the one given.

        A row is the token being written, a column one that is looked at: as many of the last as
        the model sees at one sight.
        """
        model: Any = self.stepper
        if model.context_length is None:
            return {}
        if answer is None:
            answer = self.predict([text])[0].text
        lines = [self.tokenizer.encode(line) for line in (text + answer).split("\n")]
        ids = [EOS, *lines[0], *(id for line in lines[1:] for id in (EOS, *line))]
        ids = ids[-model.context_length - 1 :]
        read = ids[:-1] or ids
        with capture_attention(model) as context_description:
            model.forward_hidden(torch.tensor([read], device=self.device), model.init_cache(1))
        written, looked_at = (
            self.tokenizer.display_tokens(some) for some in (ids[1:] or ids, read)
        )
        attention_maps = {}
        for layer, name in enumerate(context_description.names(), start=1):
            for head, weights in enumerate(
                context_description.weights(name)[0].float().cpu().numpy(), start=1
            ):
                title = f"self-attention, layer {layer}, head {head}"
                sides = ("text (looked at)", "text (written)")
                attention_maps["self", layer, head] = AttentionMap(
                    weights, written, looked_at, title, *sides
                )
        return attention_maps

    def save_plots(self, folder: Path) -> list[str]:
        """Where the last layer looks in one line that it has not seen, if it has attention."""
        if self.stepper.context_length is None:
            return []
        begun, rest = split_example_line(self.tokenizer, self.corpora["test"].ids)
        every = self.attention_maps(begun, rest)
        last = max(layer for _, layer, _ in every)
        attention_maps = [map_ for (_, layer, _), map_ in every.items() if layer == last]
        return save_attention_maps(attention_maps, folder / "attention.png")

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[CheckResult]:
        """The laws of a model that has no source."""
        model, example = self._example(split, count)
        vocab, limit = self.tokenizer.vocab_size, example.target.shape[1]
        yield invariants.batch_invariance(model, example)
        yield invariants.cache_consistency(model, example, WithoutSource(self.fast_decoder))
        yield invariants.causality(model, example, vocab)
        yield invariants.beam1_is_greedy(model, example, LM_SPECIAL_TOKENS, limit)
        yield invariants.nbest_prefix(model, example, LM_SPECIAL_TOKENS, limit)
        yield invariants.beam_score_consistency(model, example, LM_SPECIAL_TOKENS, limit)
        yield invariants.thread_invariance(model, example)
        yield invariants.compile_parity(model, example)

    def compare_reloaded(self, other: "NeuralLMTask", split: str, count: int) -> CheckResult:
        """Saved and reopened."""
        model, example = self._example(split, count)
        return invariants.same_outputs(
            "saved and reopened agree", model, WithoutSource(other.stepper), example
        )

    def _example(self, split: str, count: int) -> tuple["WithoutSource", CheckExample]:
        ids = self.corpora[split].ids
        segment_length = min(16, len(ids) - 1)
        starts = np.unique(np.linspace(0, len(ids) - segment_length, count).astype(np.int64))
        rows = np.stack([ids[at : at + segment_length] for at in starts]).astype(np.int64)
        nothing = torch.zeros(len(rows), 1, dtype=torch.long)
        lengths = torch.ones(len(rows), dtype=torch.long)
        return WithoutSource(self.stepper), CheckExample(nothing, lengths, torch.from_numpy(rows))


class WithoutSource(nn.Module):
    """A model without a source, for laws that speak of one."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def encode(self, source: TokenIds, lengths: Tensor | None) -> TokenIds:
        """The source says only how many rows there are."""
        return source

    def init_state(self, memory: Any) -> DecoderState:
        """Nothing read yet."""
        return self.model.init_state(memory)

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """The model's."""
        return self.model.step(ids, state)


class NGramLMTask(CausalLMTask, FittedTask):
    """n-grams: fitted by counting."""

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        super().__init__(recipe, tokenizer)
        config = recipe.model
        assert isinstance(config, NGramConfig)
        self.ngram = NGram(config.order, config.vocab_size, config.smoothing)

    @property
    def stepper(self) -> NGram:
        """The counts."""
        return self.ngram

    def fit(self, context: FitContext) -> None:
        """Count."""
        context.on_progress("counting", 0, 0)
        self.ngram.fit(self.corpora["train"].ids)

    def weights(self) -> dict[str, Tensor]:
        """The counts and what follows from them."""
        return {name: torch.from_numpy(a) for name, a in self.ngram.to_arrays().items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take up counts."""
        self.ngram = NGram.from_arrays({name: t.numpy() for name, t in weights.items()})

    def total(self, ids: NDArray[Any], on_progress: AdvanceCallback = lambda more: None) -> float:
        """All tokens but the first, each after those before it."""
        return float(self.ngram.log_probabilities(ids)[1:].sum())

    def context_description(self) -> str:
        """What a token sees."""
        return f"a token sees the {self.ngram.order - 1} before it"

    def compare_reloaded(self, other: "NGramLMTask", split: str, count: int) -> CheckResult:
        """Saved and reopened."""
        ids = self.corpora[split].ids[: 64 * count]
        one, two = (task.ngram.log_probabilities(ids) for task in (self, other))
        # of a token that no count allows both say minus infinity
        apart = np.abs(np.where(one == two, 0.0, one - two)).max()
        return CheckResult("saved and reopened agree", count, float(apart), 1e-9)


def make_language_task(recipe: LanguageRecipe, tokenizer: Tokenizer) -> TextTask:
    """The task of a recipe: a network, or counts."""
    if recipe.model.name == "ngram":
        return NGramLMTask(recipe, tokenizer)
    if recipe.model.name == "bidirectional":
        return MaskedLMTask(recipe, tokenizer)
    return NeuralLMTask(recipe, tokenizer)


def split_example_line(tokenizer: Tokenizer, ids: NDArray[Any]) -> tuple[str, str]:
    """The first line of some length, as far as a picture has room for it, in two halves."""
    lines = (
        line[line != EOS]
        for line in np.split(
            ids[:PLOT_SEARCH_TOKENS], np.flatnonzero(ids[:PLOT_SEARCH_TOKENS] == EOS)
        )
    )
    line = max(lines, key=lambda line: min(len(line), MAX_PLOT_TOKENS))[:MAX_PLOT_TOKENS].tolist()
    half = len(line) // 2
    return tokenizer.decode(line[:half]), tokenizer.decode(line[half:])


def _part_of(name: str) -> int:
    return int(name.split(".")[1])


LANGUAGE = TaskSpec(
    LanguageRecipe,
    LANGUAGE_MODELS,
    SYNTHETIC_TEXTS,
    TEXT_DATASETS,
    prepare_text,
    make_language_task,
    tokenizer_from_json,
    transferable_data_settings=("tokenizer",),
)
