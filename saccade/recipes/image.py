"""Recipes for images."""

from typing import Any

from saccade.tasks.captioning.config import CaptionRecipe
from saccade.tasks.contrastive.config import ContrastiveRecipe
from saccade.tasks.image_classification.config import ImageRecipe

# learning rates of AdamW that were found to work; others: 0.001
IMAGE_LEARNING_RATES = {"lenet": 3e-3}

# small versions for two cores, which learn published sets in minutes
FASHION_MNIST_SIZES: dict[str, dict[str, Any]] = {
    "airbench": {"width": 32},
    "resnet18": {"width": 16},
}
CIFAR_10_SIZES: dict[str, dict[str, Any]] = {"airbench": {"width": 64}, "resnet18": {"width": 32}}
PUBLISHED_TRAINING: dict[str, Any] = {
    "batch_tokens": 128,
    "warmup": 300,
    "weight_decay": 0.05,
    "label_smoothing": 0.1,
    "evaluate_every": 1000,
    "patience": 100,
}


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


def fashion_mnist_recipe(model: str = "airbench") -> ImageRecipe:
    """Classify Fashion-MNIST, in minutes; a longer training with --minutes."""
    return ImageRecipe(
        data={
            "dataset": "fashion-mnist",
            "dev_share": 0.02,
            "augment": {"flip": True, "crop": 2},
            "test_time_flip": True,
        },
        model=FASHION_MNIST_SIZES.get(model, {}) | {"name": model},
        train=PUBLISHED_TRAINING | {"steps": 6000, "learning_rate": 3e-3},
    )


def cifar_10_recipe(model: str = "airbench") -> ImageRecipe:
    """Classify CIFAR-10, in minutes; a longer training with --minutes."""
    return ImageRecipe(
        data={
            "dataset": "cifar-10",
            "dev_share": 0.02,
            "augment": {"flip": True, "crop": 2},
            "test_time_flip": True,
        },
        model=CIFAR_10_SIZES.get(model, {}) | {"name": model},
        train=PUBLISHED_TRAINING | {"steps": 4000, "learning_rate": 3e-3},
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
