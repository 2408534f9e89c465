"""The task of sentence vectors. Does not import torch."""

from typing import Any

from saccade.data.datasets import SENTENCE_DATASETS
from saccade.data.records.role_names import TASK_ROLES
from saccade.data.text.sentences import SYNTHETIC_SENTENCES
from saccade.data.tokenizers import tokenizer_from_json
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.models.registry import SENTENCE_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec, Transfer
from saccade.tasks.embedding.config import EmbeddingRecipe


def read_wordpiece(values: dict[str, Any]) -> WordPieceTokenizer:
    """Return the tokenizer of a run; `ValueError` if it is of another kind."""
    tokenizer = tokenizer_from_json(values)
    if not isinstance(tokenizer, WordPieceTokenizer):
        raise ValueError(f"got a tokenizer of the kind {tokenizer.kind}; expected WordPiece")
    return tokenizer


def wordpiece_sizes(tokenizer: WordPieceTokenizer) -> dict[str, int]:
    """Return the settings of an encoder that follow from its tokenizer."""
    return {"vocab_size": tokenizer.vocab_size}


def keep_tokenizer(tokenizer: WordPieceTokenizer) -> WordPieceTokenizer:
    """Return the tokenizer of a pretrained encoder."""
    return tokenizer


EMBEDDING: AnyTaskSpec = TaskSpec(
    name="embed",
    summary="sentences: vectors of their meaning, semantic search (SimCSE)",
    recipe=EmbeddingRecipe,
    models=SENTENCE_MODELS,
    synthetic=SYNTHETIC_SENTENCES,
    datasets=SENTENCE_DATASETS,
    prepare=import_when_called("saccade.tasks.embedding.data:prepare_sentences"),
    load_split=import_when_called("saccade.tasks.embedding.data:load_sentences"),
    model_sizes=wordpiece_sizes,
    read_preprocessor=read_wordpiece,
    components=import_when_called("saccade.tasks.embedding.components:embedding_components"),
    roles=TASK_ROLES["embed"],
    transferable_data_settings=("tokenizer",),
    transfers={"bert": Transfer(keep_tokenizer, ("tokenizer",), ("dropout", "pooling"))},
    evaluates_datasets=True,
    scratch_name="sentences",
)
