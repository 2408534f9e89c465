"""The data that all are trained on: Multi30k, English to German, one vocabulary of 8000.

The controlling process learns the vocabulary and writes it into a folder; the others read it
there, and make the same batches from it in the same order.
"""

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.data.batching import encode_pairs
from saccade.data.parallel.load import TokenizerConfig, TokenizerPair, train_tokenizers
from saccade.data.parallel.pairs import SentencePairs
from saccade.data.parallel.readers import read_pairs
from saccade.data.vocabulary import PAD
from saccade.io.atomic import read_checksummed_json, write_checksummed_json
from saccade.tasks.recipe import TranslationRecipe
from saccade.tasks.translation import TranslationTask
from saccade.types.shapes import Batch

WIDTH, DEPTH, HEADS, HIDDEN, DROPOUT = 256, 3, 4, 1024, 0.1
TRANSFORMER = {
    "name": "transformer",
    "width": WIDTH,
    "depth": DEPTH,
    "heads": HEADS,
    "hidden": HIDDEN,
    "dropout": DROPOUT,
    "shared_vocab": True,
}
RECURRENT_DEPTH = 2
RECURRENT = {"name": "bahdanau", "width": WIDTH, "depth": RECURRENT_DEPTH, "dropout": DROPOUT}
OURS: dict[str, dict[str, Any]] = {"transformer": TRANSFORMER, "recurrent": RECURRENT}
TOKENS, SMOOTHING, RATE, CLIP, BETAS = 4096, 0.1, 3e-4, 1.0, (0.9, 0.98)
FOREVER = 10**9


def multi30k(split: str) -> SentencePairs:
    """The pairs of a split, from the folder that SACCADE_DATA names."""
    folder = Path(os.environ.get("SACCADE_DATA", "")) / "multi30k"
    if not (folder / f"{split}.en.gz").exists():
        raise SystemExit(
            f"There is no {folder / split}.en.gz. Set SACCADE_DATA to a folder that holds "
            "multi30k/{train,test_2016_flickr}.{en,de}.gz (github.com/multi30k/dataset, task 1)."
        )
    return read_pairs(f"{folder / split}.en.gz,{folder / split}.de.gz")


def write_vocabulary(folder: Path) -> None:
    """Learn one byte-pair vocabulary of both languages and leave it in the folder."""
    config = TokenizerConfig(kind="bpe", size=8000, shared=True)
    write_checksummed_json(
        folder / "tokenizer.json", train_tokenizers(config, multi30k("train")).to_json()
    )


def training_task(folder: str, **model: Any) -> TranslationTask:
    """Our task on all training pairs; `batches` gives what every contestant with them gets."""
    both = TokenizerPair.from_json(read_checksummed_json(Path(folder) / "tokenizer.json"))
    sizes = {
        "source_vocab_size": both.source.vocab_size,
        "target_vocab_size": both.target.vocab_size,
    }
    train = {
        "batch_tokens": TOKENS,
        "label_smoothing": SMOOTHING,
        "learning_rate": RATE,
        "clip_norm": CLIP,
        "warmup": 0,
        "schedule": "none",
        "steps": FOREVER,
        "evaluate_every": FOREVER,
        "checkpoint_seconds": FOREVER,
    }
    pairs = multi30k("train")
    recipe = TranslationRecipe(data={"path": pairs.name}, model={**model, **sizes}, train=train)
    task = TranslationTask(recipe, both)
    task.encoded["train"] = encode_pairs(pairs, both.source, both.target, lambda more: None)
    return task


def padded_target(batch: Batch) -> Tensor:
    """What is to be guessed at every place (B, T), PAD where nothing is."""
    if batch.target_positions is None:
        return batch.target_out.view(batch.target_in.shape)
    flat = torch.full((batch.target_in.numel(),), PAD)
    return flat.index_copy_(0, batch.target_positions, batch.target_out).view(batch.target_in.shape)


def source_lengths(batch: Batch) -> Tensor:
    """How long each source is, also where all are equally long."""
    if batch.source_lengths is not None:
        return batch.source_lengths
    return torch.full((batch.source.shape[0],), batch.source.shape[1])
