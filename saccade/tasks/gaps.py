"""Gaps: what a batch, a loss, a score and an answer mean for a model that reads from both ends."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from saccade.data.text.lm_batching import (
    SegmentBatch,
    random_segments,
    segment_batches_per_epoch,
    training_segments,
)
from saccade.data.tokenizers import Tokenizer
from saccade.data.vocabulary import BOS, EOS, PAD, UNK
from saccade.errors import ConfigError
from saccade.inspection.checks import CheckResult
from saccade.models.bidirectional_lm import BidirectionalLM
from saccade.nn.kernels.linear_cross_entropy import TokenLoss, linear_cross_entropy
from saccade.tasks.network import TrainableTask
from saccade.tasks.reading import TextTask
from saccade.tasks.task import Evaluation
from saccade.tasks.text import LanguageRecipe, LMBatch, drop_padding
from saccade.training.loop import Loss
from saccade.types.results import Prediction

BLANK_PATTERN = re.compile("_{3,}")
EVAL_BATCH_SEGMENTS = 64  # segments that are scored at a time
NO_CONTINUATION_MESSAGE = (
    "two_way reads a text from both its ends: what it says of a place depends on what comes after "
    "it, so it cannot say what comes next. It fills gaps: put ___ where one token is missing. "
    "rnn, gru and lstm go on with a text."
)


class MaskedLMTask(TextTask, TrainableTask):
    """Each token told by all others of its segment."""

    model: BidirectionalLM

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        config: Any = recipe.model
        super().__init__(recipe, tokenizer, lambda: BidirectionalLM(config))

    def batches(self, split: str, start: int = 0) -> Iterator[LMBatch]:
        """For "train" without end; others once, from their beginning."""
        segment_length, seed = self.recipe.data.segment_length, self.recipe.train.seed
        ids = self.corpora[split].ids
        if split == "train":
            every = training_segments(ids, "random", self._batch_rows, segment_length, seed, start)
        else:
            every = islice(
                random_segments(ids, EVAL_BATCH_SEGMENTS, segment_length, seed=0, epoch=0),
                start,
                None,
            )
        yield from map(LMBatch, every)

    def batches_in_epoch(self) -> int:
        """How many batches have all the training text once, cut up as each epoch does it anew."""
        ids, segment_length = self.corpora["train"].ids, self.recipe.data.segment_length
        return segment_batches_per_epoch(ids, "random", self._batch_rows, segment_length)

    @property
    def _batch_rows(self) -> int:
        """Of a batch."""
        return max(1, self.recipe.train.batch_tokens // self.recipe.data.segment_length)

    def loss(self, batch: LMBatch) -> Loss:
        """Summed over the tokens."""
        return Loss(*self._judged(batch.segments, self.recipe.train.label_smoothing))

    def _judged(self, segments: SegmentBatch, label_smoothing: float) -> TokenLoss:
        ids, lengths = segments.inputs.to(self.device), segments.lengths
        hidden = self.model.forward_hidden(
            ids, None if lengths is None else lengths.to(self.device)
        )
        targets = drop_padding(ids.flatten(), segments)
        return linear_cross_entropy(
            drop_padding(hidden.flatten(0, 1), segments),
            self.model.output_layer,
            targets,
            label_smoothing,
        )

    @torch.no_grad()
    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """How well single gaps are filled; no perplexity, for this is no probability of a text."""
        if beam != 1:
            raise ConfigError("gaps are filled one by one, not searched for: leave beam out.")
        self.model.eval()
        total, right, tokens = 0.0, 0, 0
        segment_length = self.recipe.data.segment_length
        for segments in random_segments(
            self.leading_ids(split, limit), EVAL_BATCH_SEGMENTS, segment_length, seed=0, epoch=0
        ):
            judged = self._judged(segments, 0.0)
            total += float(judged.total)
            right += int(judged.correct)
            tokens += LMBatch(segments).tokens
        figures = {"loss": total / tokens, "accuracy": right / tokens, "tokens": float(tokens)}
        seen = (
            f"one gap at a time, told by all other tokens of a segment of {segment_length} at most"
        )
        return figures, {"loss": f"per token, {seen}", "accuracy": f"share filled right, {seen}"}

    def example_input(self) -> str:
        """A held-out line with a gap in it."""
        leading_ids = super().example_input()
        words = leading_ids.split(" ")
        return " ".join([*words[:-1], "___"]) if len(words) > 1 else leading_ids + "___"

    @torch.no_grad()
    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        n_best: int = 1,
        **how: Any,
    ) -> list[Prediction]:
        """Each text with its gaps filled, one token in each, from left to right."""
        if how:
            raise ConfigError(
                f"{', '.join(sorted(how))} is for a text that is gone on with; two_way fills gaps."
            )
        found = []
        for number, text in enumerate(texts, start=first):
            parts = BLANK_PATTERN.split(text)
            if len(parts) == 1:
                raise ConfigError(f"text {number} has no gap. {NO_CONTINUATION_MESSAGE}")
            found.append(self._filled(parts, n_best))
            on_progress(1)
        return found

    def _filled(self, parts: list[str], n_best: int) -> Prediction:
        self.model.eval()
        sides = self.tokenizer.encode_many(parts)
        chosen: list[int] = []
        total = 0.0
        others: list[Prediction] = []
        for gap in range(1, len(sides)):
            tables = self._table(sides, chosen, gap)
            best = tables.topk(min(n_best, len(tables)))
            for value, id in zip(best.values[1:].tolist(), best.indices[1:].tolist(), strict=True):
                text = self._text(parts, [*chosen, id])
                others.append(Prediction(text, total + value, total + value, True))
            chosen.append(int(best.indices[0]))
            total += float(best.values[0])
        others.sort(key=lambda one: -one.score)
        text = self._text(parts, chosen)
        return Prediction(text, total, total, True, tuple(others[: n_best - 1]))

    def _table(self, sides: list[list[int]], chosen: list[int], gap: int) -> Tensor:
        """The log-probabilities of what is in a gap; of gaps to its right nothing is known."""
        ids = [EOS, *sides[0]]
        position = 0
        for number, side in enumerate(sides[1:], start=1):
            position = len(ids) if number == gap else position
            ids += [chosen[number - 1] if number <= len(chosen) else UNK, *side]
        read = self.model.forward_hidden(torch.tensor([[*ids, EOS]], device=self.device), None)
        table = self.model.compute_logits(read[0, position]).log_softmax(dim=-1)
        table[[PAD, BOS, EOS, UNK]] = -torch.inf
        return table

    def _text(self, parts: list[str], chosen: list[int]) -> str:
        filled = [self.tokenizer.decode([id]) for id in chosen]
        gaps = [*filled, *["___"] * (len(parts) - 1 - len(filled))]
        return parts[0] + "".join(gap + part for gap, part in zip(gaps, parts[1:], strict=True))

    # --- laws ----------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[CheckResult]:
        """What is in a gap is not seen; padding and neighbours change nothing."""
        rows = self._rows(split, count)
        yield self._gap_is_not_seen(rows)
        yield self._alone_and_together(rows)

    @torch.no_grad()
    def _gap_is_not_seen(self, rows: list[Tensor]) -> CheckResult:
        apart = 0.0
        self.model.eval()
        for row in rows:
            for position in (0, len(row) // 2, len(row) - 1):
                changed = row.clone()
                changed[position] = UNK if row[position] != UNK else EOS
                one, two = (
                    self.model.forward_hidden(ids[None], None)[0, position]
                    for ids in (row, changed)
                )
                apart = max(apart, float((one - two).abs().max()))
        return CheckResult("what is in a gap is not seen", len(rows), apart, 0.0)

    @torch.no_grad()
    def _alone_and_together(self, rows: list[Tensor]) -> CheckResult:
        self.model.eval()
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        together = self.model.forward_hidden(padded, lengths)
        apart = 0.0
        for row, found in zip(rows, together, strict=True):
            alone = self.model.forward_hidden(row[None], None)[0]
            apart = max(apart, float((alone - found[: len(row)]).abs().max()))
        return CheckResult("neighbours and padding change nothing", len(rows), apart, 1e-5)

    def compare_reloaded(self, other: "MaskedLMTask", split: str, count: int) -> CheckResult:
        """Saved and reopened."""
        apart = 0.0
        for row in self._rows(split, count):
            with torch.no_grad():
                one, two = (
                    task.model.eval().forward_hidden(row[None], None) for task in (self, other)
                )
            apart = max(apart, float((one - two).abs().max()))
        return CheckResult("saved and reopened agree", count, apart, 0.0)

    def _rows(self, split: str, count: int) -> list[Tensor]:
        """Some pieces of the text, of different lengths."""
        ids = self.corpora[split].ids
        found = []
        for number in range(count):
            length = min(4 + number, len(ids))
            start = (number * 7919) % max(1, len(ids) - length)
            piece = ids[start : start + length].astype("int64")
            found.append(torch.from_numpy(piece).to(self.device))
        return found
