"""Vectors of sentences by an encoder. Keeps no state between calls."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from saccade.data.batching import Ragged, encode_ragged
from saccade.data.wordpiece import CLS, SEP, WordPieceTokenizer
from saccade.metrics.bert_score import TokenVectors
from saccade.tasks.embedding.config import EmbeddingRecipe
from saccade.tasks.neural import device_of
from saccade.types.arrays import Float32Array, IntArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.shapes import Lengths, TokenIds

# tokens of a batch in prediction, padding included; those of a CPU stay in its cache
CPU_BATCH_TOKENS, GPU_BATCH_TOKENS = 512, 16_384
SPECIAL = 2  # [CLS] and [SEP]


def pad_sentences(ids: Ragged, rows: IntArray, max_length: int) -> tuple[TokenIds, Lengths | None]:
    """Return [CLS] … [SEP] of some sentences, truncated and padded, and their lengths.

    The lengths are None if no row is padded.
    """
    kept = np.minimum(ids.lengths_of(rows), max_length - SPECIAL)
    starts = ids.offsets[rows][:, None]
    width = int(kept.max(initial=0))
    table = np.zeros((len(rows), width + SPECIAL), np.int64)
    table[:, 0] = CLS
    columns = np.arange(width)
    is_piece = columns < kept[:, None]
    table[:, 1:-1][is_piece] = ids.ids[(starts + columns)[is_piece]]
    table[np.arange(len(rows)), kept + 1] = SEP
    lengths = None if (kept == width).all() else torch.from_numpy(kept + SPECIAL)
    return torch.from_numpy(table), lengths


def length_batches(lengths: IntArray, budget: int) -> list[IntArray]:
    """Return rows in batches of similar length; the longest are first.

    Rows times the longest row of a batch are at most `budget`, unless it has one row.
    """
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        count = max(1, budget // max(1, int(lengths[order[start]])))
        batches.append(order[start : start + count])
        start += count
    return batches


def batch_tokens(device: torch.device) -> int:
    """Return the tokens of a batch in prediction."""
    return CPU_BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS


class SentenceScorer:
    """An encoder with its tokenizer."""

    def __init__(self, recipe: EmbeddingRecipe, model: Any, tokenizer: WordPieceTokenizer):
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.max_length = int(recipe.model.model_dump()["max_length"])

    def with_model(self, model: Any) -> "SentenceScorer":
        """Return the scorer of another model with the same settings."""
        return SentenceScorer(self.recipe, model, self.tokenizer)

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of texts, without [CLS] and [SEP]."""
        return encode_ragged(self.tokenizer, iter(texts), lambda count: None)

    def vectors(
        self, texts: Sequence[str], on_progress: Progress = ignore_progress
    ) -> Float32Array:
        """Return the vectors of texts (N, D), of length 1."""
        return self.vectors_of(self.encode(texts), on_progress)

    @torch.no_grad()
    def vectors_of(self, ids: Ragged, on_progress: Progress = ignore_progress) -> Float32Array:
        """Return the vectors of encoded sentences (N, D), of length 1; zeros for one of zeros."""
        model, device = self.model, device_of(self.model)
        was_training = model.training
        model.eval()
        found, done = np.zeros((len(ids), model.token_vectors.shape[1]), np.float32), 0
        lengths = np.minimum(ids.lengths + SPECIAL, self.max_length)
        for rows in length_batches(lengths, batch_tokens(device)):
            table, padded = pad_sentences(ids, rows, self.max_length)
            padded = None if padded is None else padded.to(device)
            vectors = model(table.to(device), padded)
            found[rows] = torch.nn.functional.normalize(vectors, dim=1).float().cpu().numpy()
            done += len(rows)
            on_progress("embedding", done, len(ids))
        model.train(was_training)
        return found

    @torch.no_grad()
    def token_vectors(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the vectors of the tokens of each text in its context, without [CLS] and [SEP]."""
        ids = self.encode(texts)
        model, device = self.model, device_of(self.model)
        was_training = model.training
        model.eval()
        found: dict[int, TokenVectors] = {}
        lengths = np.minimum(ids.lengths + SPECIAL, self.max_length)
        for rows in length_batches(lengths, batch_tokens(device)):
            table, padded = pad_sentences(ids, rows, self.max_length)
            padded = None if padded is None else padded.to(device)
            hidden = model.hidden(table.to(device), padded).float().cpu().numpy()
            for row, vectors, own in zip(rows.tolist(), hidden, table.numpy(), strict=True):
                last = int(lengths[row]) - 1
                found[row] = TokenVectors(vectors[1:last].copy(), own[1:last])
        model.train(was_training)
        return [found[row] for row in range(len(ids))]

    def mean_word_vectors(self, ids: Ragged) -> Float32Array:
        """Return the means of the vectors of the tokens without their context."""
        table = self.model.token_vectors.detach().float().cpu().numpy()
        found = np.zeros((len(ids), table.shape[1]), np.float32)
        owners = np.repeat(np.arange(len(ids)), ids.lengths)
        for start in range(0, len(ids.ids), CHUNK_TOKENS):
            part = slice(start, start + CHUNK_TOKENS)
            np.add.at(found, owners[part], table[ids.ids[part]])
        found /= np.maximum(ids.lengths, 1)[:, None]
        return found

    def truncate(self, text: str) -> str:
        """Return the longest prefix of a text that the model reads."""
        spans = self.tokenizer.encode_pieces(text).spans
        limit = self.max_length - SPECIAL
        return text if len(spans) <= limit else text[: spans[limit - 1][1]]


CHUNK_TOKENS = 1 << 16  # whose vectors are in memory at a time
