"""Import of a model of sentence vectors that sentence-transformers wrote: BERT and its pooling."""

from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from saccade.data.wordpiece import WordPieceTokenizer
from saccade.interop.bert_import import import_bert
from saccade.models.bert_config import BertConfig


class ImportedSentenceBert(NamedTuple):
    """An imported encoder of sentences: settings, tokenizer and weights."""

    model: BertConfig
    vocabulary: WordPieceTokenizer
    weights: dict[str, Tensor]

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings of the run, as plain values."""
        data = {"tokenizer": {"lowercase": self.vocabulary.lowercase}}
        return {"task": "embed", "data": data, "model": self.model.model_dump()}


def import_sentence_bert(folder: Path) -> ImportedSentenceBert:
    """Sentence vectors as sentence-transformers writes them: a BERT, its tokenizer and pooling."""
    found = import_bert(folder)
    weights = {
        name: tensor
        for name, tensor in found.weights.items()
        if name.startswith("encoder.") and not name.startswith("encoder.pooler.")
    }
    return ImportedSentenceBert(found.model, found.vocabulary, weights)
