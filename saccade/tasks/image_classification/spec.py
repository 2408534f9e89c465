"""The image classification task. Does not import torch."""

from saccade.data.datasets import IMAGE_DATASETS
from saccade.data.images.published import SYNTHETIC_IMAGES
from saccade.data.images.transform import ImageTransform
from saccade.data.records.role_names import TASK_ROLES
from saccade.models.registry import IMAGE_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec, Transfer
from saccade.tasks.image_classification.config import ImageRecipe
from saccade.tasks.image_classification.data import load_images, prepare_images

IMAGE_CLASSIFICATION: AnyTaskSpec = TaskSpec(
    name="image",
    summary="images: predict the class of an image",
    recipe=ImageRecipe,
    models=IMAGE_MODELS,
    synthetic=SYNTHETIC_IMAGES,
    datasets=IMAGE_DATASETS,
    prepare=prepare_images,
    load_split=load_images,
    model_sizes=ImageTransform.model_sizes,
    read_preprocessor=ImageTransform.from_json,
    components=import_when_called("saccade.tasks.image_classification.components:image_components"),
    roles=TASK_ROLES["image"],
    transferable_data_settings=("fit", "image", "label"),
    transfers={"contrastive": Transfer(ImageTransform.without_labels, ("fit",))},
    scratch_name="images",
)
