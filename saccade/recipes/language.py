"""Recipes for models of text."""

from typing import Any

from saccade.tasks.language import LanguageRecipe


def language(model: str = "gru") -> LanguageRecipe:
    """A text of your own (--data), or the Python reference: continue it, score it."""
    sizes: dict[str, Any] = {}
    if model != "ngram":
        sizes = {"width": 128}
    if model == "ngram":
        sizes = {"order": 5}
    return LanguageRecipe(
        data={"made": "python", "tokenizer": {"kind": "character"}},
        model={"name": model, **sizes},
        train={"batch_tokens": 2048, "learning_rate": 4e-3, "steps": 600, "evaluate_every": 100},
    )
