"""Similarity of the tokens of two sentences, attention, and invariance checks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from saccade.errors import ConfigError
from saccade.estimators.nearest_neighbours import unit_vectors
from saccade.inspection.attention import capture_attention, has_attention
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.checks import (
    BATCH_INVARIANCE,
    PADDING_INVARIANCE,
    RELOAD_CONSISTENCY,
    CheckResult,
)
from saccade.inspection.figures import HeatMap
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.tasks.base import AttentionKey, HeatMapKey, Inspector
from saccade.tasks.embedding.data import SentenceSplit
from saccade.tasks.embedding.scorer import SentenceScorer, pad_sentences
from saccade.tasks.neural import device_of

EXAMPLE_SENTENCE_CHARS = 80  # of the sentence in the suggested command
VECTOR_TOLERANCE = LOGIT_TOLERANCE[torch.float32]


class SentenceInspector(Inspector[SentenceSplit]):
    """Shows which tokens of two sentences are similar, and the attention of an encoder."""

    heat_map_kinds = ("similarity",)
    shows_inputs_alone = True

    def __init__(self, scorer: SentenceScorer):
        self.scorer = scorer
        self.has_attention = has_attention(scorer.model)

    def example_input(self, split: SentenceSplit) -> str:
        """Return a held-out sentence."""
        text = " ".join(split.rows[0].text.split())
        return (
            text
            if len(text) <= EXAMPLE_SENTENCE_CHARS
            else text[:EXAMPLE_SENTENCE_CHARS].rpartition(" ")[0]
        )

    def views(self) -> dict[str, str]:
        """Return what can be shown."""
        views = {"INPUT --answer OTHER --kind similarity": "the tokens of two sentences"}
        if self.has_attention:
            views["INPUT"] = "the attention of each layer and head"
        return views

    def heat_maps(self, text: str, answer: str | None = None) -> dict[HeatMapKey, HeatMap]:
        """Return the cosines of the tokens of two sentences, in their contexts."""
        other = text if answer is None else answer
        one, two = self.scorer.token_vectors([text, other])
        if not len(one.ids) or not len(two.ids):
            raise ConfigError("got a text without words; expected one with words.")
        show = self.scorer.tokenizer.display_tokens
        values = unit_vectors(one.vectors) @ unit_vectors(two.vectors).T
        first, second = self.scorer.vectors([text, other])
        title = f"cosines of tokens; of the sentences: {float(first @ second):.3f}"
        labels = show(one.ids.tolist()), show(two.ids.tolist())
        return {("similarity", 1): HeatMap(values.astype(np.float64), *labels, title, "", "")}

    @torch.no_grad()
    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Return the attention of each layer and head."""
        scorer, model = self.scorer, self.scorer.model.eval()
        ids, _ = pad_sentences(scorer.encode([text]), np.zeros(1, np.int64), scorer.max_length)
        labels = [scorer.tokenizer.token_of(id) for id in ids[0].tolist()]
        maps: dict[AttentionKey, AttentionMap] = {}
        with capture_attention(model) as captured:
            model(ids.to(device_of(model)))
        for layer, name in enumerate(captured.names(), 1):
            for head, weights in enumerate(captured.weights(name)[0].double().cpu().numpy(), 1):
                title = f"self attention, layer {layer}, head {head}"
                axes = ("tokens (keys)", "tokens (queries)")
                maps["self", layer, head] = AttentionMap(weights, labels, labels, title, *axes)
        return maps

    def checks(self, split: SentenceSplit, count: int) -> Iterator[CheckResult]:
        """Check that a vector depends neither on the other sentences nor on padding."""
        texts = split.take(count).texts()
        together = self.scorer.vectors(texts)
        alone = np.concatenate([self.scorer.vectors([text]) for text in texts])
        yield _compare(BATCH_INVARIANCE, together, alone)
        yield _compare(PADDING_INVARIANCE, *self._padded(texts))

    @torch.no_grad()
    def _padded(self, texts: list[str]) -> tuple[Any, Any]:
        """Return the vectors with the padding of their batch, and with more; real ids as such."""
        scorer, model = self.scorer, self.scorer.model.eval()
        ids, lengths = pad_sentences(
            scorer.encode(texts), np.arange(len(texts)), scorer.max_length - 3
        )
        if lengths is None:
            lengths = torch.full((len(ids),), ids.shape[1])
        longer = torch.cat([ids, ids[:, :1].expand(-1, 3)], dim=1)
        device = device_of(model)
        found = [model(each.to(device), lengths.to(device)).cpu().numpy() for each in (ids, longer)]
        return found[0], found[1]

    def compare_reloaded(self, other: Any, split: SentenceSplit, count: int) -> CheckResult:
        """Check that the reloaded model gives the same vectors."""
        ids = split.take(count).ids["text"]
        reloaded = self.scorer.with_model(other)
        return _compare(RELOAD_CONSISTENCY, self.scorer.vectors_of(ids), reloaded.vectors_of(ids))


def _compare(invariant: str, one: Any, two: Any) -> CheckResult:
    difference = float(np.abs(one - two).max(initial=0.0))
    return CheckResult(invariant, len(one), difference, VECTOR_TOLERANCE)
