"""Gaps: what a batch, a loss, a score and an answer mean for a model that reads from both ends."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from saccade.data.corpus import (
    Segments,
    batches_in_epoch,
    random_segments,
    training_segments,
)
from saccade.data.tokenizers import Tokenizer
from saccade.data.vocabulary import BEGIN, END, PAD, UNKNOWN
from saccade.errors import ConfigError
from saccade.look.finding import Finding
from saccade.models.two_way import TwoWay
from saccade.nn.words import Judged, word_loss
from saccade.predictions import Prediction
from saccade.tasks.network import Network
from saccade.tasks.reading import OnText
from saccade.tasks.task import Scored
from saccade.tasks.text import LanguageRecipe, Text, real
from saccade.training.loop import Loss

GAP = re.compile("_{3,}")
ROWS = 64  # segments that are scored at a time
NO_NEXT_WORD = (
    "two_way reads a text from both its ends: what it says of a place depends on what comes after "
    "it, so it cannot say what comes next. It fills gaps: put ___ where one token is missing. "
    "rnn, gru and lstm go on with a text."
)


class Gaps(OnText, Network):
    """Each token told by all others of its segment."""

    model: TwoWay

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        config: Any = recipe.model
        super().__init__(recipe, tokenizer, lambda: TwoWay(config))

    def batches(self, split: str, start: int = 0) -> Iterator[Text]:
        """For "train" without end; others once, from their beginning."""
        steps, seed = self.recipe.data.steps, self.recipe.train.seed
        ids = self.corpora[split].ids
        if split == "train":
            every = training_segments(ids, "random", self._batch_rows, steps, seed, start)
        else:
            every = islice(random_segments(ids, ROWS, steps, seed=0, epoch=0), start, None)
        yield from map(Text, every)

    def batches_in_epoch(self) -> int:
        """How many batches have all the training text once, cut up as each epoch does it anew."""
        ids, steps = self.corpora["train"].ids, self.recipe.data.steps
        return batches_in_epoch(ids, "random", self._batch_rows, steps)

    @property
    def _batch_rows(self) -> int:
        """Of a batch."""
        return max(1, self.recipe.train.batch_tokens // self.recipe.data.steps)

    def loss(self, batch: Text) -> Loss:
        """Summed over the tokens."""
        return Loss(*self._judged(batch.segments, self.recipe.train.smoothing))

    def _judged(self, segments: Segments, smoothing: float) -> Judged:
        ids, lengths = segments.inputs.to(self.device), segments.lengths
        hidden = self.model.read(ids, None if lengths is None else lengths.to(self.device))
        targets = real(ids.flatten(), segments)
        return word_loss(real(hidden.flatten(0, 1), segments), self.model.words, targets, smoothing)

    @torch.no_grad()
    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """How well single gaps are filled; no perplexity, for this is no probability of a text."""
        if beam != 1:
            raise ConfigError("gaps are filled one by one, not searched for: leave beam out.")
        self.model.eval()
        total, right, tokens = 0.0, 0, 0
        steps = self.recipe.data.steps
        for segments in random_segments(self.begun(split, most), ROWS, steps, seed=0, epoch=0):
            judged = self._judged(segments, 0.0)
            total += float(judged.total)
            right += int(judged.correct)
            tokens += Text(segments).tokens
        figures = {"loss": total / tokens, "accuracy": right / tokens, "tokens": float(tokens)}
        seen = f"one gap at a time, told by all other tokens of a segment of {steps} at most"
        return figures, {"loss": f"per token, {seen}", "accuracy": f"share filled right, {seen}"}

    def first_input(self) -> str:
        """A held-out line with a gap in it."""
        begun = super().first_input()
        words = begun.split(" ")
        return " ".join([*words[:-1], "___"]) if len(words) > 1 else begun + "___"

    @torch.no_grad()
    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        tell: Callable[[int], None] = lambda more: None,
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
            parts = GAP.split(text)
            if len(parts) == 1:
                raise ConfigError(f"text {number} has no gap. {NO_NEXT_WORD}")
            found.append(self._filled(parts, n_best))
            tell(1)
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
        ids = [END, *sides[0]]
        place = 0
        for number, side in enumerate(sides[1:], start=1):
            place = len(ids) if number == gap else place
            ids += [chosen[number - 1] if number <= len(chosen) else UNKNOWN, *side]
        read = self.model.read(torch.tensor([[*ids, END]], device=self.device), None)
        table = self.model.project(read[0, place]).log_softmax(dim=-1)
        table[[PAD, BEGIN, END, UNKNOWN]] = -torch.inf
        return table

    def _text(self, parts: list[str], chosen: list[int]) -> str:
        filled = [self.tokenizer.decode([id]) for id in chosen]
        gaps = [*filled, *["___"] * (len(parts) - 1 - len(filled))]
        return parts[0] + "".join(gap + part for gap, part in zip(gaps, parts[1:], strict=True))

    # --- laws ----------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[Finding]:
        """What is in a gap is not seen; padding and neighbours change nothing."""
        rows = self._rows(split, count)
        yield self._gap_is_not_seen(rows)
        yield self._alone_and_together(rows)

    @torch.no_grad()
    def _gap_is_not_seen(self, rows: list[Tensor]) -> Finding:
        apart = 0.0
        self.model.eval()
        for row in rows:
            for place in (0, len(row) // 2, len(row) - 1):
                changed = row.clone()
                changed[place] = UNKNOWN if row[place] != UNKNOWN else END
                one, two = (self.model.read(ids[None], None)[0, place] for ids in (row, changed))
                apart = max(apart, float((one - two).abs().max()))
        return Finding("what is in a gap is not seen", len(rows), apart, 0.0)

    @torch.no_grad()
    def _alone_and_together(self, rows: list[Tensor]) -> Finding:
        self.model.eval()
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        together = self.model.read(padded, lengths)
        apart = 0.0
        for row, found in zip(rows, together, strict=True):
            alone = self.model.read(row[None], None)[0]
            apart = max(apart, float((alone - found[: len(row)]).abs().max()))
        return Finding("neighbours and padding change nothing", len(rows), apart, 1e-5)

    def again(self, other: "Gaps", split: str, count: int) -> Finding:
        """Saved and reopened."""
        apart = 0.0
        for row in self._rows(split, count):
            with torch.no_grad():
                one, two = (task.model.eval().read(row[None], None) for task in (self, other))
            apart = max(apart, float((one - two).abs().max()))
        return Finding("saved and reopened agree", count, apart, 0.0)

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
