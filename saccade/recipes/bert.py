"""Recipes for BERT."""

from saccade.tasks.masked_language_modeling.config import BertRecipe
from saccade.tasks.text_classification.config import ClassifyRecipe


def bert_recipe(model: str = "bert") -> BertRecipe:
    """Tiny BERT of your own text (--data) or of the Python reference: a minute."""
    return BertRecipe(
        data={
            "synthetic": "python",
            "tokenizer": {"size": 2000},
            "sequence_length": 64,
        },
        model={"name": model, "width": 128, "depth": 2, "heads": 2, "dropout": 0.0},
        train={"batch_tokens": 2048, "learning_rate": 2e-3, "init": "xavier"},
    )


def bert_small_recipe(model: str = "bert") -> BertRecipe:
    """BERT of 4 layers of width 256 with RoBERTa's choices: one segment, larger batches.

    For texts of some million words, read about once, which needs no dropout (Geiping and Goldstein
    2023). Masks are dynamic in both recipes. An hour of one core for 20 million tokens, with
    train.dtype=bfloat16 where the processor has it.
    """
    return BertRecipe(
        data={"tokenizer": {"size": 16_000}, "sequence_length": 128, "pairs": False},
        model={"name": model, "width": 256, "depth": 4, "heads": 4, "dropout": 0.0},
        train={"batch_tokens": 4096, "learning_rate": 1e-3, "beta2": 0.98},
    )


def prompt_recipe(model: str = "prompt") -> ClassifyRecipe:
    """Classify your own texts (--data) by the words a pretrained BERT (--init-from) predicts."""
    return ClassifyRecipe(model={"name": model})
