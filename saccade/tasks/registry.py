"""Registry of tasks by name."""

from typing import Any

from saccade.config import build_config
from saccade.registry import LazyRegistry, lookup
from saccade.tasks.base import AnyTaskSpec, Recipe

# loaded on first use, so that tasks without torch stay without it
TASKS: LazyRegistry[AnyTaskSpec] = LazyRegistry(
    {
        "answer": "saccade.tasks.answering.spec:ANSWERING",
        "bert": "saccade.tasks.masked_language_modeling.spec:MASKED_LANGUAGE_MODELING",
        "caption": "saccade.tasks.captioning.spec:CAPTIONING",
        "classify": "saccade.tasks.text_classification.spec:TEXT_CLASSIFICATION",
        "contrastive": "saccade.tasks.contrastive.spec:CONTRASTIVE",
        "control": "saccade.tasks.control.spec:CONTROL",
        "embed": "saccade.tasks.embedding.spec:EMBEDDING",
        "forecast": "saccade.tasks.forecasting.spec:FORECASTING",
        "image": "saccade.tasks.image_classification.spec:IMAGE_CLASSIFICATION",
        "kernel-regression": "saccade.tasks.kernel_regression.spec:KERNEL_REGRESSION",
        "language": "saccade.tasks.language_modeling.spec:LANGUAGE_MODELING",
        "table": "saccade.tasks.tabular.spec:TABULAR",
        "tag": "saccade.tasks.tagging.spec:TAGGING",
        "translate": "saccade.tasks.translation.spec:TRANSLATION",
        "vectors": "saccade.tasks.word_vectors.spec:WORD_VECTORS",
    }
)


def task_spec_for(recipe: Recipe) -> AnyTaskSpec:
    """Return the task of a recipe."""
    return TASKS[recipe.task]


def read_recipe(values: dict[str, Any], where: str) -> Recipe:
    """Build a recipe from plain values; `where` names their source in errors."""
    name = values.get("task", "translate")
    spec = lookup(TASKS, name if isinstance(name, str) else str(name), "task")
    recipe: Recipe = build_config(spec.recipe, values, where)
    return recipe
