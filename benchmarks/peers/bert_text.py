"""Training data of the BERTs: the Python reference as masked sequences of one segment."""

from typing import Any

from peers.letters import FOREVER

from saccade.recipes.bert import bert_small_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.masked_language_modeling.components import build_bert
from saccade.tasks.masked_language_modeling.data import prepare_pretraining
from saccade.tasks.masked_language_modeling.objective import MaskedLMObjective

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"width": 128, "depth": 2, "heads": 2, "rows": 32},
    "small": {"width": 256, "depth": 4, "heads": 4, "rows": 32},  # the recipe bert-small
}
LENGTH, VOCABULARY = 128, 8000


def masked_objective(size: str) -> MaskedLMObjective:
    """Return our objective on the training text; its `batches` are those of the contestants."""
    sizes = SIZES[size]
    recipe = bert_small_recipe().with_values(
        data={
            "synthetic": "python",
            "tokenizer": {"size": VOCABULARY},
            "sequence_length": LENGTH,
            "pairs": False,
        },
        model={
            "name": "bert",
            "dropout": 0.0,
            **{name: sizes[name] for name in ("width", "depth", "heads")},
        },
        train={
            "batch_tokens": sizes["rows"] * LENGTH,
            "steps": FOREVER,
            "evaluate_every": FOREVER,
            "checkpoint_seconds": FOREVER,
            "schedule": "constant",
        },
    )
    data = prepare_pretraining(recipe, PrepareContext())
    model = build_bert(data.recipe, data.preprocessor)
    return MaskedLMObjective(data.recipe, model, data.preprocessor, data.splits)
