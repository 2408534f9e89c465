"""Recipe of sentence vectors."""

from typing import Any

from saccade.tasks.embedding.config import EmbeddingRecipe

_SIZES: dict[str, dict[str, Any]] = {
    "bert": {"width": 128, "depth": 2, "heads": 2, "max_length": 128},
    "words": {},
}


def embedding_recipe(model: str = "bert") -> EmbeddingRecipe:
    """Train sentence vectors of your own sentences (--data), or of dates: under a minute."""
    return EmbeddingRecipe(
        data={"synthetic": "date-pairs", "tokenizer": {"size": 4000}},
        model=_SIZES.get(model, {}) | {"name": model},
        train={"steps": 400, "warmup": 40, "learning_rate": 2e-3, "patience": 20},
    )
