"""Images for contrastive learning: those of the image task, each split with the training images."""

from dataclasses import replace

from saccade.data.images.transform import ImageTransform
from saccade.tasks.base import PrepareContext, PreparedData
from saccade.tasks.contrastive.config import ContrastiveRecipe
from saccade.tasks.image_classification.data import ImageSplit, prepare_images

PreparedContrastive = PreparedData[ContrastiveRecipe, ImageTransform, ImageSplit]


def prepare_contrastive(
    recipe: ContrastiveRecipe, context: PrepareContext[ImageTransform]
) -> PreparedContrastive:
    """Open, decode and divide the images; labels are kept where there are some."""
    data = prepare_images(recipe, context)
    train = data.splits["train"]
    splits = {name: replace(split, reference=train) for name, split in data.splits.items()}
    assert isinstance(data.recipe, ContrastiveRecipe)
    return PreparedData(
        data.recipe,
        data.preprocessor,
        splits,
        data.hash_training_data,
        data.choices,
        data.notes,
    )
