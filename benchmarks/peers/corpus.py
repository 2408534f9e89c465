"""Training data of all contestants: Multi30k, English to German, one vocabulary of 8000.

The controlling process trains the vocabulary and writes it to a folder; the others read it and make
the same batches in the same order.
"""

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.data.batching import encode_pairs
from saccade.data.parallel.config import TokenizerConfig
from saccade.data.parallel.pairs import SentencePairs
from saccade.data.parallel.readers import read_pairs
from saccade.data.special_tokens import PAD
from saccade.io.atomic import read_checksummed_json, write_checksummed_json
from saccade.tasks.translation.components import build_translator
from saccade.tasks.translation.config import TranslationRecipe
from saccade.tasks.translation.data import PairSplit, TokenizerPair, train_tokenizers
from saccade.tasks.translation.objective import TranslationObjective
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
    """Return the pairs of a split from the folder in SACCADE_DATA."""
    folder = Path(os.environ.get("SACCADE_DATA", "")) / "multi30k"
    if not (folder / f"{split}.en.gz").exists():
        raise SystemExit(
            f"There is no {folder / split}.en.gz. Set SACCADE_DATA to a folder that holds "
            "multi30k/{train,test_2016_flickr}.{en,de}.gz (github.com/multi30k/dataset, task 1)."
        )
    return read_pairs(f"{folder / split}.en.gz,{folder / split}.de.gz")


def write_vocabulary(folder: Path) -> None:
    """Train one BPE vocabulary for both languages and write it to the folder."""
    config = TokenizerConfig(kind="bpe", size=8000, shared=True)
    write_checksummed_json(
        folder / "tokenizer.json", train_tokenizers(config, multi30k("train")).to_json()
    )


def training_objective(folder: str, **model: Any) -> TranslationObjective:
    """Return our objective on all training pairs; its `batches` are those of the contestants."""
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
        "schedule": "constant",
        "steps": FOREVER,
        "evaluate_every": FOREVER,
        "checkpoint_seconds": FOREVER,
    }
    pairs = multi30k("train")
    recipe = TranslationRecipe(data={"path": pairs.name}, model={**model, **sizes}, train=train)
    encoded = encode_pairs(pairs, both.source, both.target, lambda more: None)
    splits = {"train": PairSplit(pairs, encoded)}
    return TranslationObjective(recipe, build_translator(recipe, both), both, splits)


def padded_target(batch: Batch) -> Tensor:
    """Return the target tokens (B, T), PAD at padded positions."""
    if batch.target_positions is None:
        return batch.target_out.view(batch.target_in.shape)
    flat = torch.full((batch.target_in.numel(),), PAD)
    return flat.index_copy_(0, batch.target_positions, batch.target_out).view(batch.target_in.shape)


def source_lengths(batch: Batch) -> Tensor:
    """Return the length of each source, also where all are equal."""
    if batch.source_lengths is not None:
        return batch.source_lengths
    return torch.full((batch.source.shape[0],), batch.source.shape[1])
