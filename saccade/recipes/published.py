"""Recipes for published sets of pairs: one corpus, one joint vocabulary, one metric.

The other direction is one setting away: --set data.direction=de-en. The vocabulary is the same.
"""

from typing import Any

from saccade.tasks.recipe import TranslationRecipe
from saccade.tasks.task import Recipe

# The numbers that were tried, all of them here.
# Wu et al. 2021 ("Good for Misconceived Reasons") call this size Transformer-Tiny.
TINY: dict[str, Any] = {
    "width": 128,
    "depth": 4,
    "heads": 4,
    "hidden": 256,
    "dropout": 0.3,
    "norm_first": False,
}
TINY_TRAINING: dict[str, Any] = {
    "steps": 8000,
    "batch_tokens": 4096,
    "learning_rate": 5e-3,
    "warmup": 2000,
    "decay": "inverse_sqrt",
    "weight_decay": 0.0,
    "smoothing": 0.1,
    "evaluate_every": 100,
    "average": 10,
    "patience": 100,
}
RECURRENT: dict[str, Any] = {"width": 256, "dropout": 0.3}
# luong's own score grows at this rate until each word looks at one place alone, and learns no more
SCALED: dict[str, Any] = {**RECURRENT, "score": "scaled_dot"}
RECURRENT_TRAINING: dict[str, Any] = {
    "steps": 2000,  # nine times through the 29,000 pairs
    "batch_tokens": 2048,
    "learning_rate": 2e-3,
    "warmup": 200,
    "smoothing": 0.1,
    "evaluate_every": 200,
    "patience": 100,
}
JOINT: dict[str, Any] = {"kind": "bytepair", "size": 8000, "shared": True}


def _multi30k(model: str) -> Recipe:
    sizes, train = RECURRENT, RECURRENT_TRAINING
    if model == "transformer":
        sizes, train = TINY, TINY_TRAINING
    elif model == "luong":
        sizes = SCALED
    return TranslationRecipe(
        data={"published": "multi30k", "direction": "en-de", "tokenizer": JOINT},
        model={"name": model, **sizes},
        train=train,
    )


def multi30k_seq2seq(model: str = "seq2seq") -> Recipe:
    """Multi30k, English → German, through one fixed context."""
    return _multi30k(model)


def multi30k_bahdanau(model: str = "bahdanau") -> Recipe:
    """Multi30k, English → German, looking back at the source."""
    return _multi30k(model)


def multi30k_luong(model: str = "luong") -> Recipe:
    """Multi30k, English → German, looking after each step."""
    return _multi30k(model)


def multi30k_transformer(model: str = "transformer") -> Recipe:
    """Multi30k, English → German, by attention alone."""
    return _multi30k(model)


def fra_eng(model: str = "transformer") -> Recipe:
    """Tatoeba's short sentences, English → French; sizes and steps follow from the data."""
    return TranslationRecipe(
        data={"published": "fra-eng", "direction": "en-fr", "tokenizer": JOINT},
        model={"name": model},
    )
