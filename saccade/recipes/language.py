"""Recipes for language models."""

from typing import Any

from saccade.tasks.language_modeling.config import LanguageRecipe

LANGUAGE_SIZES: dict[str, dict[str, Any]] = {
    "ngram": {"order": 5},
    "nnlm": {"order": 9, "width": 64, "hidden": 256},
}
LANGUAGE_LEARNING_RATES = {"gpt1": 1e-3, "gpt2": 2e-3, "gpt3": 2e-3, "transformer_xl": 2e-3}


def language_recipe(model: str = "gru") -> LanguageRecipe:
    """Language model of your own text (--data) or of the Python reference."""
    kind = "word" if model == "elmo" else "character"  # its words are read as characters
    return LanguageRecipe(
        data={"synthetic": "python", "tokenizer": {"kind": kind}},
        model={"name": model, **LANGUAGE_SIZES.get(model, {"width": 128})},
        train={"batch_tokens": 2048, "learning_rate": LANGUAGE_LEARNING_RATES.get(model, 4e-3)},
    )


# "small" of Zaremba et al. 2014: two layers of 200 units; the others have a similar size
_RECURRENT: dict[str, Any] = {"width": 200, "depth": 2, "dropout": 0.2}
_ATTENTION: dict[str, Any] = {"width": 200, "depth": 4, "heads": 4, "hidden": 400, "dropout": 0.3}
PTB_SIZES: dict[str, dict[str, Any]] = {
    "ngram": {"order": 5},
    "nnlm": {"order": 6, "width": 100, "hidden": 200, "dropout": 0.3},
    "rnn": {**_RECURRENT, "dropout": 0.0},  # it underfits already
    "gru": {**_RECURRENT, "dropout": 0.1},
    # LSTM outputs are small: with larger embeddings the logits have unit size at initialisation
    "lstm": {**_RECURRENT, "embedding_std": 0.35},
    "conv_lm": {"width": 200, "depth": 4, "dropout": 0.3},
    "transformer_xl": _ATTENTION,
    "gpt1": _ATTENTION,
    "gpt2": _ATTENTION,
    "gpt3": _ATTENTION,
}
PTB_LEARNING_RATES = {"rnn": 4e-3, "lstm": 8e-3, "gru": 5e-3}
# an epoch has 1,328 steps; the lstm has the fastest step and takes twice as many
PTB_STEPS = {"lstm": 13_000}


def ptb_recipe(model: str = "lstm") -> LanguageRecipe:
    """Penn Treebank at word level: language models on equal terms."""
    sizes = PTB_SIZES.get(model, _RECURRENT)
    # context of attention models, truncation of back-propagation for the others
    segment_length = 70 if sizes is _ATTENTION else 35
    return LanguageRecipe(
        data={
            "dataset": "ptb",
            "tokenizer": {"kind": "whitespace"},
            "segment_length": segment_length,
        },
        model={"name": model, **sizes},
        train={
            "batch_tokens": 700,
            "learning_rate": PTB_LEARNING_RATES.get(model, 2e-3),
            "steps": PTB_STEPS.get(model, 6500),
            "warmup": 300,
            "beta2": 0.999,  # most words are rare
            "evaluate_every": 1300,
            "patience": 100,
        },
    )


def tinyshakespeare_recipe(model: str = "gpt2") -> LanguageRecipe:
    """Tiny Shakespeare at character level, as small as nanoGPT's CPU example."""
    sizes: dict[str, Any] = LANGUAGE_SIZES.get(model, {"width": 128})
    if model.startswith("gpt") or model == "transformer_xl":
        sizes = {"width": 128, "depth": 4, "heads": 4, "dropout": 0.0}
    return LanguageRecipe(
        data={
            "dataset": "tinyshakespeare",
            "tokenizer": {"kind": "character"},
            "segment_length": 64,
            "test_share": 0.1,
            "dev_share": 0.005,
        },
        model={"name": model, **sizes},
        train={
            "batch_tokens": 768,
            "learning_rate": 2e-3,
            "steps": 2000,
            "warmup": 100,
            "weight_decay": 0.1,
            "label_smoothing": 0.0,
            "evaluate_every": 250,
        },
    )
