"""Training data of the GPTs: tiny Shakespeare by character, in random segments."""

from typing import Any

from saccade.recipes.language import tinyshakespeare_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.language_modeling.components import build_language_model
from saccade.tasks.language_modeling.data import prepare_text
from saccade.tasks.language_modeling.objective import LanguageObjective

SIZES: dict[str, dict[str, Any]] = {
    # nanoGPT's laptop setting
    "laptop": {"width": 128, "depth": 4, "heads": 4, "context": 64, "rows": 12},
    "small": {"width": 384, "depth": 6, "heads": 6, "context": 256, "rows": 12},
}
FOREVER = 10**9


def language_objective(kind: str, **train: Any) -> LanguageObjective:
    """Return our objective on the training text; its `batches` are those of the contestants."""
    sizes = SIZES[kind]
    recipe = tinyshakespeare_recipe()
    model = {name: sizes[name] for name in ("width", "depth", "heads")}
    model["context_length"] = sizes["context"]
    settings = {
        "batch_tokens": sizes["rows"] * sizes["context"],
        "steps": FOREVER,
        "evaluate_every": FOREVER,
        "checkpoint_seconds": FOREVER,
        "schedule": "constant",
        "learning_rate": 1e-3,
        **train,
    }
    recipe = recipe.with_values(
        data={**recipe.data.model_dump(exclude_unset=True), "segment_length": sizes["context"]},
        model={"name": "gpt2", "dropout": 0.0, **model},
        train=settings,
    )
    data = prepare_text(recipe, PrepareContext())
    network: Any = build_language_model(data.recipe, data.preprocessor)
    return LanguageObjective(data.recipe, network, data.preprocessor, data.splits)
