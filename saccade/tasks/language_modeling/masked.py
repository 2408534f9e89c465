"""Bidirectional language models: predict a token from both sides, fill gaps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from saccade.config import Config, build_config
from saccade.data.special_tokens import BOS, EOS, PAD, UNK
from saccade.data.text.lm_batching import (
    SegmentBatch,
    random_segments,
    segment_batches_per_epoch,
    training_segments,
)
from saccade.data.text.token_store import TokenCorpus
from saccade.data.tokenizers import Tokenizer
from saccade.errors import ConfigError
from saccade.inspection.checks import CheckResult
from saccade.inspection.figures import HeatMap
from saccade.inspection.recurrent_states import capture_recurrent_inputs, state_names
from saccade.models.bidirectional_lm import BidirectionalBase
from saccade.models.elmo import Elmo
from saccade.nn.kernels.linear_cross_entropy import TokenLoss, linear_cross_entropy
from saccade.tasks.base import Evaluator, HeatMapKey, Inspector, PredictContext, TextPredictor
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.tasks.language_modeling.data import (
    LMBatch,
    drop_padding,
    example_prompt,
    leading_ids,
)
from saccade.tasks.language_modeling.states import influence_map, state_maps
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.training.objective import Loss
from saccade.types.limits import MAX_COUNT
from saccade.types.progress import Progress, ProgressCounter, ignore_progress
from saccade.types.results import Evaluation, Prediction

BLANK_PATTERN = re.compile("_{3,}")
EVAL_BATCH_SEGMENTS = 64
NO_CONTINUATION = (
    "a bidirectional model needs the text on both sides of a token and cannot continue a text; "
    "try ___ where one token is missing, or rnn, gru or lstm to continue a text"
)


def masked_loss(
    model: BidirectionalBase, segments: SegmentBatch, label_smoothing: float
) -> TokenLoss:
    """Return the loss of each token, predicted from the others of its segment.

    Of an ELMo it is the mean of both directions.
    """
    device = device_of(model)
    ids, lengths = segments.inputs.to(device), segments.lengths
    target = drop_padding(ids.flatten(), segments)
    losses = [
        linear_cross_entropy(
            drop_padding(hidden.flatten(0, 1), segments),
            model.output_layer,
            target,
            label_smoothing,
        )
        for hidden in model.predictors(ids, None if lengths is None else lengths.to(device))
    ]
    if len(losses) == 1:
        return losses[0]
    total, correct = (torch.stack(part).sum(0) for part in zip(*losses, strict=True))
    return TokenLoss(total / len(losses), correct // len(losses))


class MaskedObjective(StatelessObjective[LMBatch]):
    """Summed cross-entropy of every token, given all others of its segment."""

    model: BidirectionalBase

    def __init__(
        self,
        recipe: LanguageRecipe,
        model: BidirectionalBase,
        tokenizer: Tokenizer,
        splits: Mapping[str, TokenCorpus],
    ):
        super().__init__(recipe, model)
        self.splits = splits
        self.segment_length = recipe.data.segment_length
        self.batch_rows = max(1, self.settings.batch_tokens // self.segment_length)

    def batches(self, split: str, start: int = 0) -> Iterator[LMBatch]:
        """Yield random training segments without end; other splits once."""
        ids, length = self.splits[split].ids, self.segment_length
        segments: Iterator[SegmentBatch]
        if split == "train":
            seed = self.settings.seed
            segments = training_segments(ids, "random", self.batch_rows, length, seed, start)
        else:
            every = random_segments(ids, EVAL_BATCH_SEGMENTS, length, seed=0, epoch=0)
            segments = islice(every, start, None)
        yield from map(LMBatch, segments)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain all training tokens once."""
        ids = self.splits["train"].ids
        return segment_batches_per_epoch(ids, "random", self.batch_rows, self.segment_length)

    def loss(self, batch: LMBatch) -> Loss:
        """Return the summed loss."""
        return Loss(*masked_loss(self.model, batch.segments, self.settings.label_smoothing))


class FillOptions(Config):
    """Options of gap filling."""

    n_best: int = Field(1, ge=1, le=MAX_COUNT)


class FilledText(NamedTuple):
    """A text with its gaps filled."""

    prediction: Prediction
    parts: list[list[int]]  # ids: the text before the first gap, its token, …
    gaps: list[int]  # positions of the filled tokens, the eos before the text being at 0


class GapFiller(TextPredictor):
    """Fills each gap (___) of a text with one token, from left to right."""

    options = FillOptions

    def __init__(self, recipe: LanguageRecipe, model: BidirectionalBase, tokenizer: Tokenizer):
        self.model, self.tokenizer = model, tokenizer

    def parse_options(self, options: Mapping[str, Any]) -> FillOptions:
        """Validate options; those of text generation are refused."""
        given = {name: value for name, value in options.items() if (name, value) != ("beam", 1)}
        if other := sorted(given.keys() - {"n_best"}):
            raise ConfigError(f"got {', '.join(other)}; {NO_CONTINUATION}.")
        return build_config(FillOptions, given, "the options")

    @torch.no_grad()
    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return each text with its gaps filled."""
        assert isinstance(options, FillOptions)
        counter = ProgressCounter(context.on_progress, "predicting", len(inputs))
        predictions = []
        for number, text in enumerate(inputs, start=context.first):
            predictions.append(self.fill(text, options.n_best, number).prediction)
            counter.advance(1)
        return predictions

    @torch.no_grad()
    def fill(self, text: str, n_best: int, number: int = 1) -> "FilledText":
        """Fill the gaps of input `number`."""
        parts = BLANK_PATTERN.split(text)
        if len(parts) == 1:
            raise ConfigError(f"input {number}: got a text without a gap; {NO_CONTINUATION}.")
        self.model.eval()
        encoded = self.tokenizer.encode_many(parts)
        chosen: list[int] = []
        total = 0.0
        others: list[tuple[float, str]] = []
        for gap in range(1, len(encoded)):
            log_probabilities = self._gap_log_probabilities(encoded, chosen, gap)
            best = log_probabilities.topk(min(n_best, len(log_probabilities)))
            for value, id in zip(best.values[1:].tolist(), best.indices[1:].tolist(), strict=True):
                others.append((total + value, self._text(parts, [*chosen, id])))
            chosen.append(int(best.indices[0]))
            total += float(best.values[0])
        others.sort(key=lambda other: -other[0])
        ranked = [Prediction(text, score, score, True) for score, text in others[: n_best - 1]]
        filled = self._text(parts, chosen)
        tokens, gaps = [encoded[0]], []
        for id, part in zip(chosen, encoded[1:], strict=True):
            gaps.append(1 + sum(map(len, tokens)))  # after eos
            tokens += [[id], part]
        return FilledText(Prediction(filled, total, total, True, tuple(ranked)), tokens, gaps)

    def _gap_log_probabilities(
        self, encoded: list[list[int]], chosen: list[int], gap: int
    ) -> Tensor:
        """Return log-probabilities of the token in a gap; later gaps are unknown tokens."""
        ids = [EOS, *encoded[0]]
        position = 0
        for number, part in enumerate(encoded[1:], start=1):
            position = len(ids) if number == gap else position
            ids += [chosen[number - 1] if number <= len(chosen) else UNK, *part]
        tensor = torch.tensor([[*ids, EOS]], device=device_of(self.model))
        hidden = self.model.forward_hidden(tensor, None)
        log_probabilities = self.model.compute_logits(hidden[0, position]).log_softmax(dim=-1)
        log_probabilities[[PAD, BOS, EOS, UNK]] = -torch.inf
        return log_probabilities

    def _text(self, parts: list[str], chosen: list[int]) -> str:
        filled = [self.tokenizer.decode([id]) for id in chosen]
        gaps = [*filled, *["___"] * (len(parts) - 1 - len(filled))]
        return parts[0] + "".join(gap + part for gap, part in zip(gaps, parts[1:], strict=True))


class MaskedEvaluator(Evaluator[TokenCorpus]):
    """Loss and accuracy of filling single gaps; there is no perplexity of a text."""

    headline = ("accuracy",)

    def __init__(self, recipe: LanguageRecipe, model: BidirectionalBase, tokenizer: Tokenizer):
        self.model, self.segment_length = model, recipe.data.segment_length

    @torch.no_grad()
    def evaluate(
        self,
        split: TokenCorpus,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Score every token, given all others of its segment."""
        self.refuse_options(options, "gaps are filled one by one")
        self.model.eval()
        total, right, tokens = 0.0, 0, 0
        ids = leading_ids(split, limit, self.segment_length)
        counter = ProgressCounter(on_progress, "evaluating", len(ids))
        for segments in random_segments(
            ids, EVAL_BATCH_SEGMENTS, self.segment_length, seed=0, epoch=0
        ):
            loss = masked_loss(self.model, segments, 0.0)
            total += float(loss.total)
            right += int(loss.correct)
            tokens += LMBatch(segments).tokens
            counter.advance(LMBatch(segments).tokens)
        metrics = {"loss": total / tokens, "accuracy": right / tokens, "tokens": float(tokens)}
        seen = "all other tokens"
        if isinstance(self.model, Elmo):
            seen = "those before it and from those after it (the mean of both models)"
        how = (
            f"one gap at a time, predicted from {seen} of a segment of at most "
            f"{self.segment_length}"
        )
        return Evaluation(
            metrics, {"loss": f"per token, {how}", "accuracy": f"share filled correctly, {how}"}
        )


class MaskedInspector(Inspector[TokenCorpus]):
    """Shows which tokens fill a gap, and gates in both directions; checks the model."""

    has_attention = False

    def __init__(self, recipe: LanguageRecipe, model: BidirectionalBase, tokenizer: Tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.filler = GapFiller(recipe, model, tokenizer)
        names = state_names(model.forward_stack.cell)
        ways = [f"{way}_{name}" for way in ("forward", "backward") for name in names]
        self.heat_map_kinds = ("influence", "mean", *ways)

    def views(self) -> dict[str, str]:
        """Return the influence of the other tokens on a gap, gates and states."""
        return {
            "'TEXT WITH ___'": "the influence of each other token on a gap, and gates and states"
        }

    @torch.no_grad()
    def heat_maps(self, text: str, answer: str | None = None) -> dict[HeatMapKey, HeatMap]:
        """Return the influence of all other tokens on each gap, and gates in both directions."""
        filled = self.filler.fill(text, 1)
        ids = [EOS, *(id for part in filled.parts for id in part), EOS]
        scores = np.full((len(filled.gaps), len(ids)), np.nan)
        for row, gap in enumerate(filled.gaps):
            full = self._log_probability(ids, gap)
            for at in range(1, len(ids) - 1):
                if at != gap:
                    shorter = [*ids[:at], *ids[at + 1 :]]
                    value = self._log_probability(shorter, gap - (at < gap), ids[gap])
                    scores[row, at] = full - value
        tokens = self.tokenizer.display_tokens(ids)
        gaps = [tokens[gap] for gap in filled.gaps]
        maps: dict[HeatMapKey, HeatMap] = {
            ("influence", 1): influence_map(scores[:, 1:-1], gaps, tokens[1:-1])
        }
        with capture_recurrent_inputs(self.model.eval()) as recorder:
            self.model.forward_hidden(torch.tensor([ids], device=device_of(self.model)), None)
        read = {"forward_stack": tokens, "backward_stack": tokens[::-1]}
        return maps | state_maps(recorder.states(), read)

    def _log_probability(self, ids: list[int], position: int, token: int | None = None) -> float:
        model = self.model.eval()
        hidden = model.forward_hidden(torch.tensor([ids], device=device_of(model)), None)
        log_probabilities = model.compute_logits(hidden[0, position]).log_softmax(dim=-1)
        return float(log_probabilities[ids[position] if token is None else token])

    def example_input(self, split: TokenCorpus) -> str:
        """Return a held-out line with a gap."""
        prompt = example_prompt(self.tokenizer, split)
        words = prompt.split(" ")
        return " ".join([*words[:-1], "___"]) if len(words) > 1 else prompt + "___"

    def checks(self, split: TokenCorpus, count: int) -> Iterator[CheckResult]:
        """Check that a gap's token is not seen, and padding and batch invariance."""
        rows = self._rows(split, count)
        yield self._gap_is_hidden(rows)
        yield self._padding_invariance(rows)

    @torch.no_grad()
    def _gap_is_hidden(self, rows: list[Tensor]) -> CheckResult:
        difference = 0.0
        model = self.model.eval()
        for row in rows:
            for position in (0, len(row) // 2, len(row) - 1):
                changed = row.clone()
                changed[position] = UNK if row[position] != UNK else EOS
                one, two = (
                    model.forward_hidden(ids[None], None)[0, position] for ids in (row, changed)
                )
                difference = max(difference, float((one - two).abs().max()))
        return CheckResult("masked token is hidden", len(rows), difference, 0.0)

    @torch.no_grad()
    def _padding_invariance(self, rows: list[Tensor]) -> CheckResult:
        model = self.model.eval()
        lengths = torch.tensor([len(row) for row in rows], device=device_of(model))
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        together = model.forward_hidden(padded, lengths)
        difference = 0.0
        for row, found in zip(rows, together, strict=True):
            single = model.forward_hidden(row[None], None)[0]
            difference = max(difference, float((single - found[: len(row)]).abs().max()))
        return CheckResult("padding and batch invariance", len(rows), difference, 1e-5)

    @torch.no_grad()
    def compare_reloaded(
        self, other: BidirectionalBase, split: TokenCorpus, count: int
    ) -> CheckResult:
        """Check that the reloaded model gives the same hidden states."""
        difference = 0.0
        for row in self._rows(split, count):
            one, two = (
                model.eval().forward_hidden(row[None], None) for model in (self.model, other)
            )
            difference = max(difference, float((one - two).abs().max()))
        return CheckResult("reload consistency", count, difference, 0.0)

    def _rows(self, split: TokenCorpus, count: int) -> list[Tensor]:
        """Return pieces of the text, of different lengths."""
        ids = split.ids
        found = []
        for number in range(count):
            length = min(4 + number, len(ids))
            start = (number * 7919) % max(1, len(ids) - length)
            piece = ids[start : start + length].astype("int64")
            found.append(torch.from_numpy(piece).to(device_of(self.model)))
        return found
