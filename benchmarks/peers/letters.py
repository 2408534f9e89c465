"""The text that all GPTs are trained on: tiny Shakespeare, letter by letter, in random segments."""

from typing import Any

from saccade.recipes.language import tinyshakespeare_recipe
from saccade.tasks.language import NeuralLMTask
from saccade.tasks.text import prepare_text

SIZES: dict[str, dict[str, Any]] = {
    # nanoGPT's for a laptop
    "laptop": {"width": 128, "depth": 4, "heads": 4, "context": 64, "rows": 12},
    "small": {"width": 384, "depth": 6, "heads": 6, "context": 256, "rows": 12},
}
FOREVER = 10**9


def language_task(kind: str, **train: Any) -> NeuralLMTask:
    """Our task on the training text; `batches` gives what every contestant gets."""
    sizes = SIZES[kind]
    recipe = tinyshakespeare_recipe()
    model = {name: sizes[name] for name in ("width", "depth", "heads", "context")}
    settings = {
        "batch_tokens": sizes["rows"] * sizes["context"],
        "steps": FOREVER,
        "evaluate_every": FOREVER,
        "checkpoint_seconds": FOREVER,
        "schedule": "none",
        "learning_rate": 1e-3,
        **train,
    }
    recipe = recipe.with_values(
        data={**recipe.data.model_dump(exclude_unset=True), "segment_length": sizes["context"]},
        model={"name": "gpt2", "dropout": 0.0, **model},
        train=settings,
    )
    prepared = prepare_text(recipe, lambda what, done, total: None)
    task = NeuralLMTask(prepared.recipe, prepared.vocabulary)
    task.attach_data(prepared)
    return task
