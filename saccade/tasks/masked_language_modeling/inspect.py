"""Attention maps and invariance checks of BERT."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from saccade.data.samplers import evenly_spaced_rows
from saccade.data.special_tokens import PAD
from saccade.data.text.packing import TokenStream
from saccade.data.wordpiece import CLS, MASK, SEP, WordPieceTokenizer
from saccade.errors import DataError
from saccade.inspection.attention import capture_attention
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.checks import (
    BATCH_INVARIANCE,
    PADDING_INVARIANCE,
    RELOAD_CONSISTENCY,
    CheckResult,
)
from saccade.inspection.figures import AttentionGrid, Figure
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.bert_pretraining import BertPretraining
from saccade.tasks.base import AttentionKey, Inspector
from saccade.tasks.masked_language_modeling.config import BertRecipe
from saccade.tasks.masked_language_modeling.predict import MASK_PATTERN, MaskFiller
from saccade.tasks.neural import device_of

EXAMPLE_TOKENS = 16  # of the text in the suggested command
CHECK_TOKENS = 24  # of the longest text of a check
CHECK_PADDING = 3
SELECTED_TARGETS = "targets alone equal all positions"


class MaskedLMInspector(Inspector[TokenStream]):
    """Shows where BERT attends, and checks its invariances."""

    def __init__(self, recipe: BertRecipe, model: BertPretraining, tokenizer: WordPieceTokenizer):
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.filler = MaskFiller(recipe, model, tokenizer)

    def example_input(self, split: TokenStream) -> str:
        """Return the start of a held-out line with a mask for one of its words."""
        pieces = self._first_pieces(split)
        words = self.tokenizer.decode(pieces).split(" ")
        words[len(words) // 2] = "[MASK]"
        return " ".join(words)

    def _first_pieces(self, split: TokenStream) -> list[int]:
        ids: list[int] = split.ids[:EXAMPLE_TOKENS].tolist()
        return ids[: ids.index(SEP)] if SEP in ids[1:] else ids

    def views(self) -> dict[str, str]:
        """Return attention, of a text with or without masks."""
        return {"'TEXT WITH [MASK]'": "self-attention"}

    def default_answer(self, text: str) -> str | None:
        """Return no answer where no mask is predicted; the attention is shown all the same."""
        return None if self.model.has_heads and MASK_PATTERN.search(text) else ""

    @torch.no_grad()
    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Return the maps of a text: a row is a position that attends, a column one attended to.

        The answer is not used: masks stay masks.
        """
        ids = self.filler.encode(text)
        if len(ids) > self.filler.max_length:
            raise DataError(
                f"got {len(ids):,} tokens; expected {self.filler.max_length:,} at most, the "
                "positions of the model; try a shorter text."
            )
        tokens = self.tokenizer.display_tokens(ids)
        with capture_attention(self.model.eval()) as captured:
            self.model.encoder(torch.tensor([ids], device=device_of(self.model)))
        maps = {}
        for layer, calls in enumerate(captured.calls.values(), start=1):
            for head, weights in enumerate(calls[0][0].float().cpu().numpy(), start=1):
                title = f"self-attention, layer {layer}, head {head}"
                maps["self", layer, head] = AttentionMap(
                    weights, tokens, tokens, title, "attended", "attending"
                )
        return maps

    def figures(self, splits: Mapping[str, TokenStream]) -> dict[str, Figure]:
        """Return the attention of the last layer on the start of the test split."""
        text = self.example_input(splits["test"])
        maps = self.attention_maps(text)
        last = max(layer for _, layer, _ in maps)
        chosen = [map for (_, layer, _), map in maps.items() if layer == last]
        return {"attention.png": AttentionGrid(chosen, f"{self.recipe.model_name}: {text}")}

    def checks(self, split: TokenStream, count: int) -> Iterator[CheckResult]:
        """Check that logits depend neither on padding nor on neighbours nor on what is computed."""
        rows = self._rows(split, count)
        alone = [self._logits(self.model, row[None])[0] for row in rows]
        together = self._together(rows, 0)
        yield _compare(BATCH_INVARIANCE, alone, together)
        yield _compare(PADDING_INVARIANCE, together, self._together(rows, CHECK_PADDING))
        if self.model.has_heads:
            yield _compare(SELECTED_TARGETS, alone, [self._selected(row) for row in rows])

    @torch.no_grad()
    def _together(self, rows: list[Tensor], padding: int) -> list[Tensor]:
        """Return the logits of each row in one batch, with more padding after the longest."""
        lengths = torch.tensor([len(row) for row in rows], device=rows[0].device)
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        padded = torch.nn.functional.pad(padded, (0, padding), value=MASK)
        logits = self.model.eval()(padded, None, lengths)
        return [found[: len(row)] for found, row in zip(logits, rows, strict=True)]

    @torch.no_grad()
    def _selected(self, row: Tensor) -> Tensor:
        """Return the logits of a row whose positions are targets, one by one."""
        model = self.model.eval()
        positions = torch.arange(len(row), device=row.device)[:, None]
        found = [model.forward_targets(row[None], None, at).targets for at in positions]
        return model.compute_logits(torch.cat(found))

    @torch.no_grad()
    def _logits(self, model: BertPretraining, rows: Tensor) -> Tensor:
        return model.eval()(rows)

    def compare_reloaded(
        self, other: BertPretraining, split: TokenStream, count: int
    ) -> CheckResult:
        """Check that the reloaded model gives the same logits."""
        rows = self._rows(split, count)
        found = ([self._logits(model, row[None]) for row in rows] for model in (self.model, other))
        return _compare(RELOAD_CONSISTENCY, *found)

    def _rows(self, split: TokenStream, count: int) -> list[Tensor]:
        """Return pieces of the text of different lengths, as sequences with a mask."""
        longest = min(CHECK_TOKENS, self.filler.max_length - 3 - CHECK_PADDING, len(split))
        device, rows = device_of(self.model), []
        for number, start in enumerate(evenly_spaced_rows(len(split) - longest + 1, count)):
            piece = split.ids[start : start + max(1, longest - 2 * number % longest)].tolist()
            rows.append(torch.tensor([CLS, *piece, MASK, SEP], device=device))
        return rows


def _compare(invariant: str, one: list[Tensor], two: list[Tensor]) -> CheckResult:
    pairs = list(zip(one, two, strict=True))
    worst = max(float((a - b).abs().max()) for a, b in pairs)
    return CheckResult(invariant, len(pairs), worst, LOGIT_TOLERANCE[torch.float32])
