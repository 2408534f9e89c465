"""Recipes for images."""

from typing import Any

from saccade.tasks.captioning.config import CaptionRecipe
from saccade.tasks.contrastive.config import ContrastiveRecipe
from saccade.tasks.image_classification.config import ImageRecipe

# learning rates of AdamW that were found to work; others: 0.001
IMAGE_LEARNING_RATES = {"lenet": 3e-3}


def image_recipe(model: str = "lenet") -> ImageRecipe:
    """Classify your own images (--data FOLDER), or scikit-learn's digits: half a minute."""
    values: dict[str, Any] = {"name": model}
    if model == "lenet":
        values |= {"width": 16, "dropout": 0.2}
    return ImageRecipe(
        data={"synthetic": "digits", "dev_share": 0.1, "test_share": 0.2, "augment": {"crop": 2}},
        model=values,
        train={
            "batch_tokens": 64,
            "learning_rate": IMAGE_LEARNING_RATES.get(model, 1e-3),
            "weight_decay": 0.05,
            "label_smoothing": 0.1,
            "patience": 20,
        },
    )


def contrastive_recipe(model: str = "attention_cnn") -> ContrastiveRecipe:
    """Learn features of images without labels, of scikit-learn's digits: a minute."""
    values: dict[str, Any] = {"name": model}
    if model == "efficientnet_lite0":
        values |= {"pretrained": False}
    return ContrastiveRecipe(
        data={
            "synthetic": "digits",
            "dev_share": 0.1,
            "test_share": 0.2,
            "augment": {"crop": 2, "min_area": 0.4, "jitter": 0.4},
        },
        model=values,
        train={"batch_tokens": 256, "learning_rate": 2e-3, "patience": 20},
    )


def caption_recipe(model: str = "recurrent") -> CaptionRecipe:
    """Caption your own images (--data captions.tsv), or generated scenes: a few minutes."""
    return CaptionRecipe(
        data={"synthetic": "scenes", "dev_share": 0.1, "test_share": 0.1},
        model={"name": model},
        train={"batch_tokens": 64, "learning_rate": 3e-3, "weight_decay": 0.05, "patience": 20},
    )
