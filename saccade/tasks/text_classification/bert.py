"""BERT as a classifier: tokens are pieces of words, and the encoder may come from another run."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from saccade.data.word_splitting import SPAN_SPLITTERS
from saccade.data.wordpiece import CLS, MASK, SEP
from saccade.models.bert_classifier import BertClassifier, copy_bert_encoder
from saccade.tasks.text_classification.components import make_components
from saccade.tasks.text_classification.neural import (
    NetworkLabelScorer,
    TextObjective,
    build_text_network,
    set_calibration,
)
from saccade.tasks.text_classification.pieces import NO_SPAN, PieceEncoder
from saccade.types.arrays import IntArray
from saccade.types.shapes import TokenIds


class BertLabelScorer(NetworkLabelScorer):
    """Logits of a BERT; the scores of its tokens are summed over the words they are part of."""

    model: BertClassifier
    encoder: PieceEncoder
    baseline = "[MASK] in place of each token"

    def words_of_positions(self, text: str) -> IntArray:
        """Return the number of the word that each token is part of; -1: special tokens."""
        starts = [start for start, _ in SPAN_SPLITTERS[self.recipe.data.split](text)]
        spans = self.encoder.encode_spans(text).spans
        first = np.array([-1 if span == NO_SPAN else span[0] for span in spans])
        return np.where(first < 0, -1, np.searchsorted(starts, first, side="right") - 1)

    def read_tokens(self, text: str, words: Sequence[str]) -> list[str]:
        """Return the tokens of a text, for plots."""
        return self.encoder.tokenizer.display_tokens(self.encoder.encode_spans(text).ids)

    def _embed_with_baseline(self, ids: TokenIds) -> tuple[Tensor, Tensor]:
        masked = ids.masked_fill((ids != CLS) & (ids != SEP), MASK)
        return self.model.embed(ids)[0], self.model.embed(masked)[0]


BERT_CLASSIFIER = make_components(
    BertLabelScorer,
    set_calibration,
    build_model=build_text_network,
    objective=TextObjective,
    transfer_weights=copy_bert_encoder,
)
