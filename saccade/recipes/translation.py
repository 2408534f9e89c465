"""Recipes for translation."""

from typing import Any

from saccade.tasks.base import Recipe
from saccade.tasks.translation.config import TranslationRecipe


def dates_recipe(model: str = "bahdanau") -> Recipe:
    """Dates in 46 languages → ISO 8601."""
    if model == "transformer":
        train = {"steps": 1500, "learning_rate": 2e-3, "warmup": 200, "evaluate_every": 150}
    else:
        train = {"steps": 700, "learning_rate": 2e-3, "warmup": 100, "evaluate_every": 100}
    return TranslationRecipe(
        data={"synthetic": "dates", "size": 120_000},
        model={"name": model, "width": 128, "dropout": 0.0 if model == "transformer" else 0.1},
        train={**train, "batch_tokens": 2200},
    )


def numbers_recipe(model: str = "bahdanau") -> Recipe:
    """Numbers spelt out in 39 languages → digits."""
    return TranslationRecipe(
        data={"synthetic": "numbers"},
        model={"name": model, "width": 128},
        train={"steps": 1000, "warmup": 100, "evaluate_every": 100, "batch_tokens": 2200},
    )


def reverse_recipe(model: str = "bahdanau") -> Recipe:
    """Reverse short sequences of letters."""
    sizes: dict[str, Any] = {"width": 64}
    train: dict[str, Any] = {"steps": 400, "learning_rate": 2e-3}
    if model == "seq2seq":  # the whole input must pass through the fixed context
        sizes = {"width": 128, "cell": "lstm", "dropout": 0.0}
        train = {"steps": 800, "learning_rate": 4e-3}
    elif model == "transformer":
        sizes = {"width": 64, "dropout": 0.0}
        train = {"steps": 600, "learning_rate": 3e-3}
    return TranslationRecipe(
        data={"synthetic": "reverse"},
        model={"name": model, **sizes},
        train={**train, "batch_tokens": 1024},
    )


def copy_recipe(model: str = "bahdanau") -> Recipe:
    """Copy short sequences of letters."""
    return TranslationRecipe(
        data={"synthetic": "copy"},
        model={"name": model, "width": 64},
        train={"steps": 400, "batch_tokens": 1024},
    )


def translate_recipe(model: str = "bahdanau") -> Recipe:
    """Translate your own sentence pairs (--data); all settings are chosen from them."""
    return TranslationRecipe(model={"name": model})
