"""Attention maps, figures and invariance checks of a translator."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.data.samplers import evenly_spaced_rows
from saccade.data.special_tokens import BOS, EOS
from saccade.errors import DataError
from saccade.inference.engine import make_decoder
from saccade.inspection.attention import has_attention
from saccade.inspection.attention_map import AttentionMap, attention_title
from saccade.inspection.checks import CheckResult
from saccade.inspection.figures import AttentionGrid, Figure
from saccade.inspection.invariants import CheckExample, check_all, same_outputs
from saccade.inspection.search_tree import SearchProblem
from saccade.interop.parity import check_export
from saccade.models.base import EncoderDecoder
from saccade.tasks.base import AttentionKey, Inspector, PredictContext
from saccade.tasks.neural import device_of
from saccade.tasks.translation.config import TranslationRecipe
from saccade.tasks.translation.data import PairSplit, TokenizerPair
from saccade.tasks.translation.objective import batch_to
from saccade.tasks.translation.predict import (
    TRANSLATION_SPECIAL_TOKENS,
    TranslationPredictor,
    attention_kind,
)


class TranslationInspector(Inspector[PairSplit]):
    """Shows where a translator attends, and checks its invariances."""

    def __init__(self, recipe: TranslationRecipe, model: EncoderDecoder, tokenizers: TokenizerPair):
        self.recipe, self.model, self.tokenizers = recipe, model, tokenizers
        self.predictor = TranslationPredictor(recipe, model, tokenizers)

    def example_input(self, split: PairSplit) -> str:
        """Return the first source."""
        return next(iter(split.pairs.sources()))

    def views(self) -> dict[str, str]:
        """Return attention, of models that have any."""
        return {"SOURCE": "attention"} if has_attention(self.model) else {}

    def search_problem(self, text: str, max_new_tokens: int | None) -> SearchProblem:
        """Return a source for a search over its translations."""
        ids = self.tokenizers.source.encode(text)
        self.predictor.check_lengths([ids])
        decoder = self.predictor.decoder("fused")
        padded, lengths = self.predictor.pad([ids])
        return SearchProblem(
            decoder,
            lambda: decoder.encode(padded, lengths),
            TRANSLATION_SPECIAL_TOKENS,
            min(self.predictor.max_target_length, max_new_tokens or sys.maxsize),
            padded.device,
            self.tokenizers.target.display_tokens,
            self.tokenizers.target.decode,
        )

    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Return the maps of a source and its translation, or the answer given.

        The target is read in one forward pass. A row of a map is the token being generated, so the
        last one is eos.
        """
        self.model.eval()
        ids = self.tokenizers.source.encode(text)
        self.predictor.check_lengths([ids])
        target = self._target(ids, answer)
        source, _ = self.predictor.pad([ids])
        captured = self.predictor.capture(source, [BOS, *target])
        source_tokens = self.tokenizers.source.display_tokens([*ids, EOS])
        generated = self.tokenizers.target.display_tokens([*target, EOS])
        read = self.tokenizers.target.display_tokens([BOS, *target])
        labels = {
            "cross": (generated, source_tokens),
            "encoder": (source_tokens, source_tokens),
            "decoder": (generated, read),
        }
        maps = {}
        for name in captured.names():
            kind, layer = attention_kind(name)
            rows, columns = labels[kind]
            heads = captured.weights(name)[0].float().cpu().numpy()
            for head, weights in enumerate(heads, start=1):
                title = f"{kind} attention, layer {layer}, head {head}"
                maps[kind, layer, head] = AttentionMap(weights, list(rows), list(columns), title)
        return maps

    def _target(self, ids: list[int], answer: str | None) -> list[int]:
        if answer is None:
            options = self.predictor.parse_options({})
            target = self.predictor.decode([ids], options, PredictContext())[0][0].ids
        else:
            target = self.tokenizers.target.encode(answer)
        if len(target) >= self.predictor.max_positions:
            raise DataError(
                f"got an answer of {len(target)} tokens; expected at most "
                f"{self.predictor.max_positions - 1}, the learned positions of this model; try a "
                "shorter one."
            )
        return target

    def figures(self, splits: Mapping[str, PairSplit]) -> dict[str, Figure]:
        """Return the cross-attention of one held-out translation, if the model has any."""
        source = self.example_input(splits["test"])
        options = self.predictor.parse_options({})
        answer = self.predictor.predict([source], options, PredictContext())[0].text
        maps = self.attention_maps(source)  # by its ids: the text may have other tokens
        cross = [map_ for (kind, _, _), map_ in maps.items() if kind == "cross"]
        title = attention_title(self.recipe.model_name, source, answer)
        return {"attention.png": AttentionGrid(cross, title)} if cross else {}

    def checks(self, split: PairSplit, count: int) -> Iterator[CheckResult]:
        """Run all invariance checks on pairs evenly spread over a split."""
        self.model.eval()
        rows = evenly_spaced_rows(len(split.encoded), count)
        example = self.example(split, rows)
        limit = min(self.recipe.data.max_new_tokens, example.target.shape[1] + 5)
        vocab_size = self.tokenizers.target.vocab_size
        yield from check_all(
            self.model,
            example,
            TRANSLATION_SPECIAL_TOKENS,
            vocab_size,
            limit,
            make_decoder(self.model),
        )

    def compare_reloaded(self, other: EncoderDecoder, split: PairSplit, count: int) -> CheckResult:
        """Check that the reloaded model gives the same logits."""
        example = self.example(split, np.arange(min(count, len(split.encoded))))
        return same_outputs("reload consistency", self.model, other, example)

    def check_export(self, engine: Any, split: PairSplit, count: int) -> CheckResult:
        """Check that the exported model gives the same log-probabilities."""
        example = self.example(split, np.arange(min(count, len(split.encoded))))
        return check_export("export consistency", self.model, example, engine)

    def example(self, split: PairSplit, rows: NDArray[np.int64]) -> CheckExample:
        """Return pairs as the invariance checks take them."""
        device = device_of(self.model)
        batch = batch_to(split.encoded.batch(rows), device)
        lengths = torch.from_numpy(split.encoded.source.lengths_of(rows) + 1).to(device)
        return CheckExample(batch.source, lengths, batch.target_in)
