"""Recipes for published parallel corpora, with a joint BPE vocabulary.

For the other direction: --set data.direction=de-en. The vocabulary is the same.
"""

from typing import Any

from saccade.tasks.base import Recipe
from saccade.tasks.translation.config import TranslationRecipe

# Wu et al. 2021 ("Good for Misconceived Reasons") call this size Transformer-Tiny.
TRANSFORMER_TINY: dict[str, Any] = {
    "width": 128,
    "depth": 4,
    "heads": 4,
    "hidden": 256,
    "dropout": 0.3,
}
# small batches with the norm before each sublayer learn several times as much of the same number of
# tokens as the published 8,000 steps of 8,192 tokens with the norm after it
TRANSFORMER_TINY_TRAINING: dict[str, Any] = {
    "steps": 18_000,  # 45 epochs
    "batch_tokens": 1024,
    "learning_rate": 3e-3,
    "warmup": 1000,
    "weight_decay": 0.0,
    "label_smoothing": 0.1,
    "evaluate_every": 1000,
    "patience": 100,
}
MULTI30K_RECURRENT: dict[str, Any] = {"width": 256, "dropout": 0.3}
# at this learning rate luong's dot and general scores grow until attention saturates
MULTI30K_LUONG: dict[str, Any] = {**MULTI30K_RECURRENT, "score": "scaled_dot"}
MULTI30K_RECURRENT_TRAINING: dict[str, Any] = {
    "steps": 2000,  # nine epochs of the 29,000 pairs
    "batch_tokens": 2048,
    "learning_rate": 2e-3,
    "warmup": 200,
    "label_smoothing": 0.1,
    "evaluate_every": 200,
    "patience": 100,
}
JOINT_BPE: dict[str, Any] = {"kind": "bpe", "size": 8000, "shared": True}


def _multi30k(model: str) -> Recipe:
    sizes, train = MULTI30K_RECURRENT, MULTI30K_RECURRENT_TRAINING
    if model == "transformer":
        sizes, train = TRANSFORMER_TINY, TRANSFORMER_TINY_TRAINING
    elif model == "luong":
        sizes = MULTI30K_LUONG
    return TranslationRecipe(
        data={"dataset": "multi30k", "direction": "en-de", "tokenizer": JOINT_BPE},
        model={"name": model, **sizes},
        train=train,
    )


def multi30k_seq2seq_recipe(model: str = "seq2seq") -> Recipe:
    """Multi30k, English → German, encoder-decoder with a fixed context."""
    return _multi30k(model)


def multi30k_bahdanau_recipe(model: str = "bahdanau") -> Recipe:
    """Multi30k, English → German, with additive attention."""
    return _multi30k(model)


def multi30k_luong_recipe(model: str = "luong") -> Recipe:
    """Multi30k, English → German, with Luong attention."""
    return _multi30k(model)


def multi30k_transformer_recipe(model: str = "transformer") -> Recipe:
    """Multi30k, English → German, Transformer."""
    return _multi30k(model)


def fra_eng_recipe(model: str = "transformer") -> Recipe:
    """Tatoeba sentences, English → French; sizes and steps are chosen from the data."""
    return TranslationRecipe(
        data={"dataset": "fra-eng", "direction": "en-fr", "tokenizer": JOINT_BPE},
        model={"name": model},
    )
