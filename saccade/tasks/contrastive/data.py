"""Images for contrastive learning: those of the image task, each split with the training images."""

from dataclasses import replace

from saccade.data.images.transform import ImageTransform
from saccade.data.tables.csv import pluralise
from saccade.errors import DataError
from saccade.tasks.base import PrepareContext, PreparedData
from saccade.tasks.contrastive.config import ContrastiveRecipe
from saccade.tasks.image_classification.data import ImageSplit, prepare_images

MIN_COMPARED_IMAGES = 2

PreparedContrastive = PreparedData[ContrastiveRecipe, ImageTransform, ImageSplit]


def prepare_contrastive(
    recipe: ContrastiveRecipe, context: PrepareContext[ImageTransform]
) -> PreparedContrastive:
    """Open, decode and divide the images; labels are kept where there are some."""
    data = prepare_images(recipe, context)
    train = data.splits["train"]
    if len(train) < MIN_COMPARED_IMAGES:
        raise DataError(
            f"{recipe.data_name}: got {pluralise(len(train), 'training image')}; expected "
            f"{MIN_COMPARED_IMAGES} or more, which the loss compares; try more images."
        )
    splits = {}
    for name, split in data.splits.items():
        if len(split) < MIN_COMPARED_IMAGES:
            data.notes.append(
                f"One image is held out for {name}, and the loss compares "
                f"{MIN_COMPARED_IMAGES} or more: the training images are used."
            )
            split = train
        splits[name] = replace(split, reference=train)
    assert isinstance(data.recipe, ContrastiveRecipe)
    return PreparedData(
        data.recipe,
        data.preprocessor,
        splits,
        data.hash_training_data,
        data.choices,
        data.notes,
    )
